package panel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
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
	Visit   *Visit
	File    *batch.StagedFile
	Form    url.Values
	Preview *seal.Preview
	Same    *cert.Certificate
	Alike   []*cert.Certificate
	// Sheet is the page as the drawing shows it, 1000 on its longer side.
	Width, Height float64
}

// place is a choice for the stamp as the page shows it.
type place struct {
	Mode, Label    string
	Box            *drawnBox
	Chosen, Covers bool
	Missing        bool
}

// drawnBox is a place in the units of the drawing.
type drawnBox struct{ X, Y, Width, Height float64 }

const sheetSide = 1000

func (u *uploadPage) drawn(b *seal.Box) *drawnBox {
	if b == nil {
		return nil
	}
	return &drawnBox{b[0] * u.Width, b[1] * u.Height, (b[2] - b[0]) * u.Width, (b[3] - b[1]) * u.Height}
}

// Places gives the choices, that of the vault first.
func (u *uploadPage) Places() []place {
	chosen := u.Form.Get("placement")
	usual := place{Mode: "", Label: "The vault's choice", Box: u.drawn(u.Preview.Chosen.Box), Chosen: chosen == ""}
	if u.Preview.Chosen.Box == nil {
		usual.Label = "The vault's choice: " + strings.ToLower(modes[u.Preview.Chosen.Mode])
	}
	list := []place{usual}
	for _, c := range u.Preview.Candidates {
		list = append(list, place{Mode: string(c.Mode), Label: modes[c.Mode], Box: u.drawn(c.Box), Chosen: chosen == string(c.Mode), Covers: c.Covers, Missing: c.Missing})
	}
	if !u.Preview.Signed {
		one := place{Mode: string(seal.Exact), Label: modes[seal.Exact], Chosen: chosen == string(seal.Exact)}
		if w, err := wantedOf(u.Form); err == nil && w != nil {
			one.Box = u.drawn(w.Box)
		}
		list = append(list, one)
	}
	return list
}

// wantedOf reads where the stamp is wanted; nil leaves it to the vault.
func wantedOf(form url.Values) (*cert.Wanted, error) {
	mode := seal.Mode(form.Get("placement"))
	if mode == "" {
		return nil, nil //nolint:nilnil // no wish is a choice
	}
	w := &cert.Wanted{Mode: mode, Page: 1}
	if mode != seal.Exact {
		return w, nil
	}
	var at [4]float64
	for i, name := range []string{"x", "y", "width", "height"} {
		n, err := strconv.ParseFloat(form.Get(name), 64)
		if err != nil || n < 0 || n > 100 {
			return nil, fault.OfField("placement", "Say where the QR code goes by four numbers from 0 to 100: left, top, width and height, in percent of the page.")
		}
		at[i] = n / 100
	}
	w.Box = &seal.Box{at[0], at[1], min(1, at[0]+at[2]), min(1, at[1]+at[3])}
	return w, nil
}

// uploaded gives the file that the path names, with its preview.
func (p *Panel) uploaded(r *http.Request, v *Visit, form url.Values) (*uploadPage, error) {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return nil, err
	}
	u := &uploadPage{Visit: v, File: f, Form: form}
	if u.Preview, err = p.Certs.Preview(r.Context(), v.Institution().ID, &f.File, nil); err != nil {
		return nil, err
	}
	scale := sheetSide / max(u.Preview.Width, u.Preview.Height)
	u.Width, u.Height = u.Preview.Width*scale, u.Preview.Height*scale
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
	picture, err := p.Certs.Picture(r.Context(), &f.File, 1)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", filePolicy)
	return web.ServeContent(w, r, bytes.NewReader(picture), f.UUID+"-preview")
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
	if u.Same, u.Alike, err = p.Certs.Alike(r.Context(), v.Institution().ID, text, u.File.File.SHA256); err != nil {
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
		return p.again(w, r, "upload_details.html", u, err)
	}
	return p.lead(w, r, v, "certificates/"+c.UUID, "uploaded")
}
