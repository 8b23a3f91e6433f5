package panel

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

// uploadLimits bounds the form for the upload of one file.
var uploadLimits = &body.Limits{
	Size: 24 << 20, Time: 10 * time.Minute, Parts: 100, TooLarge: errUploadTooLarge, Broken: errUpload,
}

var (
	errUploadTooLarge = fault.New(fault.TooLarge, "The upload is too large.")
	errUpload         = fault.New(fault.BadRequest, "The upload was interrupted. Please try again.")
)

// newUpload shows the form for the file.
func (p *Panel) newUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.draw(w, r, "upload.html", v)
}

// stageUpload stages the file and redirects to the page of the file. The file stays staged until
// the certificate is created, for at most batch.StagedLife.
func (p *Panel) stageUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id, err := p.receiveUpload(r, v)
	if err != nil {
		return p.showAgain(w, r, "upload.html", v, err)
	}
	return p.redirect(w, r, v, "upload/"+id, "")
}

// receiveUpload receives and stages the file of a form, and returns the UUID of the staged file.
func (p *Panel) receiveUpload(r *http.Request, v *Visit) (id string, err error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return "", err
	}
	for form.Next() {
		part := form.Part()
		if part.FormName() != "file" || part.FileName() == "" {
			continue
		}
		if err := p.Batches.CheckQuota(r.Context(), v.Institution().ID); err != nil {
			return "", err
		}
		err := p.Certs.Receive(r.Context(), v.Institution().UUID, cert.NewIncoming(part.FileName(), part), func(f *cert.File) error {
			staged, err := p.Batches.Stage(r.Context(), v.Institution(), f, nil)
			if err == nil {
				id = staged.UUID
			}
			return err
		})
		if problem := cert.RefusedFile(err); problem != nil {
			return "", cert.Problems{*problem}.Err()
		}
		return id, err
	}
	if err := form.Err(); err != nil {
		return "", err
	}
	return "", fault.OfField("file", "Choose a PDF, JPG or PNG file first.")
}

// uploadPage is the data of the page of an uploaded file that is not a certificate yet. Same is an
// existing certificate with the same address, title and issue date, or nil. Alike are other
// certificates with the same file, or with the same name and title.
type uploadPage struct {
	*placing

	Visit *Visit
	File  *batch.StagedFile
	Same  *cert.Certificate
	Alike []*cert.Certificate
}

// uploaded returns the uploaded file in the path, with its preview.
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

// upload shows a page of the file with the placement of the QR code, and the form for the fields of
// the certificate.
func (p *Panel) upload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, url.Values{})
	if err != nil {
		return err
	}
	return p.draw(w, r, "upload_details.html", u)
}

// uploadPicture sends an image of the first page of an uploaded file.
func (p *Panel) uploadPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return p.picture(w, r, f)
}

// finishUpload creates the certificate. If similar certificates exist, finishUpload first shows
// these, and the person must confirm the upload.
func (p *Panel) finishUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, r.PostForm)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	if err != nil {
		return p.showAgain(w, r, "upload_details.html", u, err)
	}
	text := cert.Text{
		Title: r.PostForm.Get("certificate_title"), FullName: r.PostForm.Get("full_name"), Email: r.PostForm.Get("applicant_email"),
		IssueDate: r.PostForm.Get("issue_date"), Details: r.PostForm.Get("details"),
	}
	if u.Same, u.Alike, err = p.Search.Duplicates(r.Context(), v.Institution().ID, text, u.File.File.SHA256); err != nil {
		return err
	}
	if r.PostForm.Get("sure") == "" && (u.Same != nil || len(u.Alike) > 0) {
		return p.showAgain(w, r, "upload_details.html", u, fault.New(fault.Conflict, "Look at the certificates below first: this certificate may already exist."))
	}
	c, err := p.Certs.Upload(r.Context(), cert.Upload{
		Institution: v.Institution(), Creator: cert.Actor{Type: "user", ID: v.Person.ID, Name: v.Person.Name}, Context: cert.PanelUpload,
		Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, File: &u.File.File, Wanted: wanted,
		// After a second click, UseTx returns an error, because the file is already used.
		Then: func(ctx context.Context, tx *db.Tx, _ *cert.Certificate) error {
			return p.Batches.UseTx(ctx, tx, v.Institution().ID, u.File.UUID)
		},
	})
	if err != nil {
		return p.showAgain(w, r, "upload_details.html", u, err)
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID, "uploaded")
}
