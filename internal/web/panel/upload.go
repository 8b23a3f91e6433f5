package panel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxUpload bounds a form with one file in bytes.
	maxUpload = 24 << 20
	// uploadTime bounds how long one file may take to come in.
	uploadTime = 10 * time.Minute
)

var errUpload = fault.New(fault.BadRequest, "The upload broke off. Please try again.")

// newUpload asks for the file.
func (p *Panel) newUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.draw(w, r, "upload.html", v)
}

// patient gives a request with files more time than others have.
func patient(w http.ResponseWriter, d time.Duration) error {
	c := http.NewResponseController(w)
	for _, set := range []func(time.Time) error{c.SetReadDeadline, c.SetWriteDeadline} {
		if err := set(time.Now().Add(d)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("giving an upload time: %w", err)
		}
	}
	return nil
}

// takeUpload stages the file, so that a page can show it and nothing is lost until
// the certificate is made.
func (p *Panel) takeUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := patient(w, uploadTime); err != nil {
		return err
	}
	id, err := p.stageUpload(r, v)
	if err != nil {
		return p.again(w, r, "upload.html", v, err)
	}
	return p.lead(w, r, v, "upload/"+id, "")
}

func (p *Panel) stageUpload(r *http.Request, v *Visit) (id string, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return "", errUpload
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return "", fault.OfField("file", "Choose a PDF, JPG or PNG file first.")
		}
		if err != nil {
			return "", uploadError(err)
		}
		if part.FormName() != "file" || part.FileName() == "" {
			continue
		}
		return p.stagePart(r.Context(), v, part)
	}
}

func (p *Panel) stagePart(ctx context.Context, v *Visit, part *multipart.Part) (string, error) {
	if err := p.Batches.Room(ctx, v.Institution().ID); err != nil {
		return "", err
	}
	body := &sourceReader{r: part}
	f, err := p.Certs.Receive(ctx, v.Institution().UUID, part.FileName(), body)
	if refusal, ok := errors.AsType[*cert.FieldError](err); ok {
		return "", fault.OfField("file", refusal.Message)
	}
	if err != nil {
		if body.err != nil {
			return "", uploadError(body.err)
		}
		return "", err
	}
	staged, err := p.Batches.Stage(ctx, v.Institution(), f, nil)
	if err != nil {
		return "", errors.Join(err, p.Certs.Discard(ctx, f))
	}
	return staged.UUID, nil
}

// sourceReader keeps the error of what it reads.
type sourceReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *sourceReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// uploadError tells a body that is too large from one that broke off.
func uploadError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.TooLarge, "The upload is too large.")
	}
	return fault.Wrap(fault.BadRequest, errUpload.Message, err)
}

// uploadPage is a file that was uploaded, before it is made a certificate.
type uploadPage struct {
	*placing

	Visit *Visit
	File  *batch.StagedFile
	Same  *cert.Certificate
	Alike []*cert.Certificate
}

// uploaded gives the file that the path names, with its preview.
func (p *Panel) uploaded(r *http.Request, v *Visit, form url.Values) (*uploadPage, error) {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return nil, err
	}
	u := &uploadPage{Visit: v, File: f}
	if u.placing, err = p.placing(r.Context(), v, f, nil, form); err != nil {
		return nil, err
	}
	u.Picture = v.Path("upload/" + f.UUID + "/page.png")
	return u, nil
}

// upload shows the page with the place of the QR code, and asks for the rest.
func (p *Panel) upload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, url.Values{})
	if err != nil {
		return err
	}
	return p.draw(w, r, "upload_details.html", u)
}

// uploadPicture draws the page of a file that was uploaded.
func (p *Panel) uploadPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return p.picture(w, r, f)
}

// finishUpload makes the certificate, after what may be a duplicate was looked at.
func (p *Panel) finishUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, r.PostForm)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	if err != nil {
		return p.again(w, r, "upload_details.html", u, err)
	}
	text := cert.Text{
		Title: r.PostForm.Get("certificate_title"), FullName: r.PostForm.Get("full_name"), Email: r.PostForm.Get("applicant_email"),
		IssueDate: r.PostForm.Get("issue_date"), Details: r.PostForm.Get("details"),
	}
	if u.Same, u.Alike, err = p.Search.Duplicates(r.Context(), v.Institution().ID, text, u.File.File.SHA256); err != nil {
		return err
	}
	if r.PostForm.Get("sure") == "" && (u.Same != nil || len(u.Alike) > 0) {
		return p.again(w, r, "upload_details.html", u, fault.New(fault.Conflict, "Look at the certificates below first: this one may be there already."))
	}
	c, err := p.Certs.Upload(r.Context(), cert.Upload{
		Institution: v.Institution(), Creator: cert.Actor{Type: "user", ID: v.Person.ID, Name: v.Person.Name}, Context: cert.PanelUpload,
		Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, File: &u.File.File, Wanted: wanted,
		// Twice clicked, one of them finds the file used.
		Then: func(ctx context.Context, tx *db.Tx, _ *cert.Certificate) error {
			return p.Batches.UseTx(ctx, tx, v.Institution().ID, u.File.UUID)
		},
	})
	if err != nil {
		return p.again(w, r, "upload_details.html", u, plainly(err, r.PostForm))
	}
	return p.lead(w, r, v, "certificates/"+c.UUID, "uploaded")
}

// plainly says what is wrong with the texts of a certificate in words for people.
func plainly(err error, form url.Values) error {
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Kind != fault.Invalid {
		return err
	}
	var bad fault.Fields
	for _, field := range refusal.Fields {
		for _, message := range field.Messages {
			bad.Add(field.Name, cmp.Or(said(field.Name, form), message))
		}
	}
	return bad.Err()
}

// said gives what is wrong with a field, "" for nothing that its text alone tells.
func said(name string, form url.Values) string {
	for i := range cert.Fields {
		if f := &cert.Fields[i]; f.Name == name {
			return f.Say(form.Get(name))
		}
	}
	return ""
}
