package panel

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/body"
)

// uploadLimits are the limits of the form that uploads one file.
var uploadLimits = &body.Limits{
	Size: 24 << 20, Time: 10 * time.Minute, Parts: 100, TooLarge: errUploadTooLarge, Broken: errUpload,
}

var (
	errUploadTooLarge = fault.New(fault.TooLarge, "panel_error.upload_too_large")
	errUpload         = fault.New(fault.BadRequest, "panel_error.upload_interrupted")
)

// uploadPage is the data of the page that creates one certificate from a file and the values of its fields.
// Without a script, the page has two steps: the first step uploads the file. In the first step, File and
// placing are nil. Same is an existing certificate with the same e-mail address, title and issue date, or
// nil. Alike are other certificates with the same file, or with the same name and title.
type uploadPage struct {
	*placing

	Visit *Visit
	File  *batch.StagedFile
	// Fields are the values of the fields of the certificate.
	Fields url.Values
	// Like is a URL query, with its question mark, or "". It names the certificate whose title and dates are
	// copied to the fields, or the certificate to replace.
	Like string
	// Replacing is the certificate to replace, or nil.
	Replacing *replacing
	Same      *cert.Certificate
	Alike     []*cert.Certificate
	// Names are texts in the file that are probably the name of the recipient. Found reports whether a
	// field has a value from the file. NameWarning is the warning that the file does not contain the
	// recipient's name, or "".
	Names       []string
	Found       bool
	NameWarning string
	// Mails reports whether the vault has a mail server. Otherwise the recipient is not notified.
	Mails bool
	// Templates reports whether the institution can create certificates from a template.
	Templates bool
}

// MaxFile returns the maximum size of a file in bytes. The script checks the size before it sends a file.
func (*uploadPage) MaxFile() int64 { return cert.MaxFile }

// uploadPage returns the data of the page without a file.
func (p *Panel) uploadPage(r *http.Request, v *Visit) (*uploadPage, error) {
	u := &uploadPage{Visit: v, Fields: url.Values{}, Mails: p.Outbox == ""}
	var err error
	if u.Templates, err = p.hasTemplate(r, v); err != nil {
		return nil, err
	}
	if u.Replacing, err = p.replacingOf(r, v); err != nil {
		return nil, err
	}
	if u.Replacing != nil {
		u.Like = u.Replacing.Query()
		return u, u.Replacing.fill(u.Fields, cert.Today(p.Now()))
	}
	id := r.URL.Query().Get("like")
	if uuid.Validate(id) != nil {
		return u, nil //nolint:nilerr // an invalid id fills no field
	}
	c, err := p.Certs.ByUUID(r.Context(), v.Institution().ID, id)
	if fault.Is(err, fault.NotFound) {
		return u, nil
	}
	if err != nil {
		return nil, err
	}
	u.Like = "?like=" + c.UUID
	u.Fields.Set("certificate_title", c.Title)
	u.Fields.Set("issue_date", c.IssueDate)
	u.Fields.Set("expires_on", c.ExpiresOn)
	return u, nil
}

// newUpload shows the form for the file.
func (p *Panel) newUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploadPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "upload.html", u)
}

// stageUpload stages the file and redirects to the page of the file. A staged file can be used until
// its certificate is created, but at most for batch.StagedLife.
func (p *Panel) stageUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploadPage(r, v)
	if err != nil {
		return err
	}
	id, err := p.receiveUpload(r, v)
	if err != nil {
		return p.showAgain(w, r, "upload.html", u, err)
	}
	return p.redirect(w, r, v, "upload/"+id+u.Like, "")
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
	return "", fault.OfField("file", "upload.no_file")
}

// uploaded returns the data of the page of the uploaded file in the path. The fields have the values of
// the submitted form. If form is nil, they have the values from uploadPage, and prefill fills empty fields.
func (p *Panel) uploaded(r *http.Request, v *Visit, form url.Values) (*uploadPage, error) {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return nil, err
	}
	u, err := p.uploadPage(r, v)
	if err != nil {
		return nil, err
	}
	u.File = f
	if form != nil {
		u.Fields = form
	} else {
		p.prefill(r.Context(), u)
	}
	if u.placing, err = p.placing(r.Context(), v, f, nil, form); err != nil {
		return nil, err
	}
	u.Base, u.CanShow = v.Path("upload/"+f.UUID), true
	u.NameWarning = p.nameWarning(r, &f.File, u.Fields.Get("full_name"))
	return u, nil
}

// prefill fills the empty fields for the name, the e-mail address and the issue date with probable values
// from the text of the file. An error is only logged.
func (p *Panel) prefill(ctx context.Context, u *uploadPage) {
	found, err := p.Certs.Suggest(ctx, &u.File.File)
	if err != nil {
		p.Log.WarnContext(ctx, "the text of an uploaded file could not be read", slog.Any("error", err))
		return
	}
	u.Names = found.Names
	for name, values := range map[string][]string{"full_name": found.Names, "applicant_email": found.Emails, "issue_date": found.Dates} {
		if u.Fields.Get(name) == "" && len(values) > 0 {
			u.Fields.Set(name, values[0])
			u.Found = true
		}
	}
}

// nameWarning returns the warning that a file does not contain a name, or "".
func (p *Panel) nameWarning(r *http.Request, f *cert.File, name string) string {
	if strings.TrimSpace(name) == "" {
		return ""
	}
	if lacks, err := p.Certs.LacksName(r.Context(), f, name); err != nil || !lacks {
		return "" // a warning must not prevent the upload
	}
	text, err := p.view.Reader(r).Language.Text("upload.name_missing", "name", name)
	if err != nil {
		return ""
	}
	return text
}

// checkName sends, as plain text, the warning that an uploaded file does not contain a name. The response
// is empty if there is no warning.
func (p *Panel) checkName(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, err = io.WriteString(w, p.nameWarning(r, &f.File, r.PostForm.Get("full_name")))
	return err
}

// upload shows the uploaded file with the placement of the QR code, and the form with the fields of the
// certificate.
func (p *Panel) upload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "upload.html", u)
}

// uploadPicture sends an image of a page of an uploaded file.
func (p *Panel) uploadPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return p.picture(w, r, &f.File)
}

// uploadStamped sends an image of the stamped page of an uploaded file.
func (p *Panel) uploadStamped(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return p.stamped(w, r, v, &f.File, nil)
}

// uploadInk sends an image that shows where a page of an uploaded file has content.
func (p *Panel) uploadInk(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.Batches.Staged(r.Context(), v.Institution().ID, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return p.ink(w, r, v, &f.File)
}

// finishUpload creates the certificate. If similar certificates exist and the member has not confirmed the
// upload, finishUpload shows them instead.
func (p *Panel) finishUpload(w http.ResponseWriter, r *http.Request, v *Visit) error {
	u, err := p.uploaded(r, v, r.PostForm)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	if err != nil {
		return p.showAgain(w, r, "upload.html", u, err)
	}
	if r.PostForm.Get("look") != "" {
		return p.draw(w, r, "upload.html", u)
	}
	text := cert.Text{
		Title: r.PostForm.Get("certificate_title"), FullName: r.PostForm.Get("full_name"), Email: r.PostForm.Get("applicant_email"),
		IssueDate: r.PostForm.Get("issue_date"), Details: r.PostForm.Get("details"), ExpiresOn: r.PostForm.Get("expires_on"),
	}
	if u.Replacing == nil {
		if u.Same, u.Alike, err = p.Search.Duplicates(r.Context(), v.Institution().ID, text, u.File.File.SHA256); err != nil {
			return err
		}
	}
	if r.PostForm.Get("sure") == "" && (u.Same != nil || len(u.Alike) > 0) {
		return p.showAgain(w, r, "upload.html", u, fault.New(fault.Conflict, "upload.look_first"))
	}
	c, err := p.create(r, u.Replacing, cert.Upload{
		Institution: v.Institution(), Creator: cert.Actor{Type: "user", ID: v.Person.ID, Name: v.Person.Name}, Context: cert.PanelUpload,
		Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, ExpiresOn: text.ExpiresOn,
		File: &u.File.File, Wanted: wanted, Notify: notifyOf(r.PostForm),
		// If the form is submitted twice, the second UseTx returns an error.
		Then: func(ctx context.Context, tx *db.Tx, _ *cert.Certificate) error {
			return p.Batches.UseTx(ctx, tx, v.Institution().ID, u.File.UUID)
		},
	})
	if err != nil {
		return p.showAgain(w, r, "upload.html", u, err)
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID+"/uploaded", "")
}

// uploadState is the state of a new certificate, which the page after an upload shows.
type uploadState struct {
	Status cert.Status `json:"status"`
	// Title and Text are shown on the page. Tone selects the colour of Text. Done is the value of a progress
	// bar: 1 after the processing, and 0 before. Finished reports whether the processing has ended.
	Title    string `json:"title"`
	Text     string `json:"text"`
	Tone     string `json:"tone"`
	Done     int    `json:"done"`
	Finished bool   `json:"finished"`
}

// doneKeys are the names of the statuses in the keys of the catalog.
var doneKeys = map[cert.Status]string{
	cert.Processing: "processing", cert.Approved: "approved", cert.Failed: "failed", cert.Revoked: "revoked",
}

// uploadState returns the state of a certificate, with texts in the language of the request.
func (p *Panel) uploadState(r *http.Request, c *cert.Certificate) (*uploadState, error) {
	if doneKeys[c.Status] == "" {
		return nil, errNoSuch // the certificate waits for its signatories, which its own page shows
	}
	l := p.view.Reader(r).Language
	title, err := l.Text("upload_done."+doneKeys[c.Status]+"_title", "name", c.FullName)
	if err != nil {
		return nil, err
	}
	plan, err := p.Mail.PlanOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	key, args := "upload_done."+doneKeys[c.Status]+"_text", []any(nil)
	switch {
	case c.Status != cert.Processing && c.Status != cert.Approved:
	case p.Outbox != "":
		key = "upload_done." + doneKeys[c.Status] + "_unmailed"
	case plan != nil:
		key = planKey(plan)
	default:
		args = []any{"email", c.Email}
	}
	text, err := l.Text(key, args...)
	if err != nil {
		return nil, err
	}
	if c.Status == cert.Failed && c.Failure != nil {
		text = texts{l}.domain(c.Failure.Message) + " " + text
	}
	s := &uploadState{Status: c.Status, Title: title, Text: text, Tone: string(c.Status), Finished: c.Status != cert.Processing}
	if s.Finished {
		s.Done = 1
	}
	if c.Status == cert.Approved && p.Outbox != "" {
		s.Tone = "wait" // the text only says that the recipient was not notified
	}
	return s, nil
}

// uploadDonePage is the data of the page after an upload.
type uploadDonePage struct {
	Visit *Visit
	C     *cert.Certificate
	State *uploadState
	// NameWarning is the warning that the file does not contain the name, or "".
	NameWarning string
	// Template is the template of the certificate, or nil.
	Template *template.Template
}

// uploadDone shows the state of a new certificate and the next steps.
func (p *Panel) uploadDone(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	state, err := p.uploadState(r, c)
	if err != nil {
		return err
	}
	d := &uploadDonePage{Visit: v, C: c, State: state}
	if c.Template == nil {
		d.NameWarning = p.nameWarning(r, &c.File, c.FullName)
	} else if d.Template, _, err = p.Templates.ByVersion(r.Context(), v.Institution().ID, c.Template.VersionID); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return p.draw(w, r, "upload_done.html", d)
}

// certificateEvents streams the state of a certificate until its processing ends.
func (p *Panel) certificateEvents(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	return p.events(w, r, func(ctx context.Context) (any, bool, error) {
		c, err := p.Certs.ByUUID(ctx, v.Institution().ID, c.UUID)
		if err != nil {
			return nil, false, err
		}
		state, err := p.uploadState(r, c)
		if err != nil {
			return nil, false, err
		}
		return state, state.Finished, nil
	})
}
