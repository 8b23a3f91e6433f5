package panel

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web"
)

// errNoApplication is the error if the institution has no application with the id in the path.
var errNoApplication = fault.New(fault.NotFound, "This institution has no such application.")

// applicationPage is the data of the page on which a reviewer decides an application.
type applicationPage struct {
	Visit *Visit
	A     *application.Application
	Offer *application.Offer
	View  queueView
	// Template is the template of the certificate. It is nil if the application is not open, or if the
	// reviewer attaches a file.
	Template *template.Template
	// Certificates and Applications are the latest other certificates and applications with the same
	// e-mail address.
	Certificates []*cert.Certificate
	Applications []*application.Application
	Events       []application.Event
	// Next is the UUID of the next application of the view, or "".
	Next string
	// Shown is the attachment that is shown, or nil. Page is the number of its shown page, from 1, and
	// Pages is the number of all its pages.
	Shown       *application.File
	Page, Pages int
	// Reviewer reports whether the visitor may decide applications of the offer.
	Reviewer bool
	// Form is the submitted form, or the initial values from known.
	Form url.Values
	// Open is the name of the form that is open: "hold", "reject" or "withdraw". Other values open no
	// form.
	Open string
	// Size is the width and the height of the picture of the certificate in pixels.
	Size [2]int
	// Mails reports whether the vault has a mail server.
	Mails bool
}

// Path returns the address of a page of the application.
func (d *applicationPage) Path(page string) string {
	address := d.Visit.Path("applications/" + d.A.UUID)
	if page != "" {
		address += "/" + page
	}
	return address
}

// Self returns the address of the application with the view of the queue.
func (d *applicationPage) Self() string { return d.Path("") + d.View.Query() }

// NextPath returns the address of the next application.
func (d *applicationPage) NextPath() string {
	return d.Visit.Path("applications/"+d.Next) + d.View.Query()
}

// Decidable reports whether the visitor may decide the application.
func (d *applicationPage) Decidable() bool { return d.Reviewer && d.A.IsOpen() }

// Mine reports whether the visitor claimed the application.
func (d *applicationPage) Mine() bool {
	return d.A.ClaimedBy.Type == "user" && d.A.ClaimedBy.ID == d.Visit.Person.ID
}

// NeedsOther reports whether another reviewer must approve the application, because the offer requires
// two people and the visitor claimed the application.
func (d *applicationPage) NeedsOther() bool { return d.Offer.FourEyes && d.Mine() }

// NeedsClaim reports whether a reviewer must claim the application before another reviewer can approve
// it.
func (d *applicationPage) NeedsClaim() bool { return d.Offer.FourEyes && d.A.ClaimedBy.ID == 0 }

// Record reports whether the application was approved. Its certificate then has a page.
func (d *applicationPage) Record() bool {
	switch d.A.Status { //nolint:exhaustive // the other statuses are handled below
	case cert.Processing, cert.Approved, cert.Failed, cert.Revoked:
		return true
	}
	return d.A.DecidedAt != nil && slices.Contains(openStatuses, d.A.Status)
}

// Details reports whether the certificate can have details. A certificate from a template can have
// details only if the layout of the template uses them.
func (d *applicationPage) Details() bool {
	return d.Template == nil || d.Template.Published.Layout.Uses("details")
}

// answer is a question with its answer. Files are the uploaded files if the question asks for files.
type answer struct {
	Field application.Field
	Value string
	Files []application.File
}

// Answers returns the questions of the application with their answers.
func (d *applicationPage) Answers() []answer {
	list := make([]answer, 0, len(d.A.Fields))
	for _, f := range d.A.Fields {
		list = append(list, answer{Field: f, Value: d.A.Values[f.Key], Files: application.FilesOf(d.A.Files, f.Key)})
	}
	return list
}

// Compared reports whether a field is compared with the register.
func (d *applicationPage) Compared(key string) bool {
	return d.A.Advice != application.NoRegister && slices.Contains([]string{d.Offer.RegisterNumber, d.Offer.RegisterName, d.Offer.RegisterBirth}, key)
}

// HoldText returns the text that the offer suggests for a kind of hold.
func (d *applicationPage) HoldText(kind string) string {
	return d.Offer.HoldTexts[application.HoldKind(kind)]
}

// HoldKinds returns the kinds of holds.
func (*applicationPage) HoldKinds() []application.HoldKind { return application.HoldKinds }

// FileHref returns the address of the application with a page of an attachment shown.
func (d *applicationPage) FileHref(id string, page int) string {
	values := url.Values{"file": {id}}
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	for _, f := range d.View.Fields() {
		values.Set(f[0], f[1])
	}
	return d.Path("") + "?" + values.Encode() + "#evidence"
}

// PrevPage returns the address of the previous page of the shown attachment, or "".
func (d *applicationPage) PrevPage() string {
	if d.Page <= 1 {
		return ""
	}
	return d.FileHref(d.Shown.ID, d.Page-1)
}

// NextPage returns the address of the next page of the shown attachment, or "".
func (d *applicationPage) NextPage() string {
	if d.Page >= d.Pages {
		return ""
	}
	return d.FileHref(d.Shown.ID, d.Page+1)
}

// eventActions are the tones of the labels in the timeline, by action.
var eventActions = map[string]string{
	"submitted": "", "claimed": "", "held": "wait", "answered": "wait", "released": "", "approved": "good", "rejected": "bad", "withdrawn": "", "expired": "",
	"certificate_approved": "good", "failed": "bad", "retried": "wait", "revoked": "bad",
}

// EventLabel returns the label of an entry of the timeline.
func (*applicationPage) EventLabel(e application.Event) status {
	return status{"application.event_" + e.Action, eventActions[e.Action]}
}

// Timeline returns the entries of the timeline, the latest first.
func (d *applicationPage) Timeline() []application.Event {
	list := slices.Clone(d.Events)
	slices.Reverse(list)
	return list
}

// applicationOf returns the application whose UUID is in the path.
func (p *Panel) applicationOf(r *http.Request, v *Visit) (*application.Application, error) {
	id, err := uuid.Parse(r.PathValue("application"))
	if err != nil {
		return nil, errNoApplication
	}
	return p.Applications.ByUUID(r.Context(), v.Institution().ID, id.String())
}

// applicationForm returns the application in the path with its offer, its template and the form. A picture
// of the certificate needs only these parts of the page. query contains the view of the queue. form is the
// submitted form, or nil.
func (p *Panel) applicationForm(r *http.Request, v *Visit, query, form url.Values) (*applicationPage, error) {
	ctx, id := r.Context(), v.Institution().ID
	a, err := p.applicationOf(r, v)
	if err != nil {
		return nil, err
	}
	d := &applicationPage{Visit: v, A: a, View: viewOf(query), Form: form, Mails: p.Outbox == ""}
	if d.Offer, err = p.Applications.Offer(ctx, id, a.OfferUUID); err != nil {
		return nil, err
	}
	if d.Reviewer, err = p.Applications.ReviewedBy(ctx, d.Offer, v.Person.ID); err != nil {
		return nil, err
	}
	if d.Offer.TemplateID != "" && a.IsOpen() {
		t, err := p.Templates.ByUUID(ctx, id, d.Offer.TemplateID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err == nil && t.Published != nil {
			d.Template, d.Size = t, sizeOfPages(t.Published.Pages, pictureSide)
		}
	}
	if d.Form == nil {
		d.Form = d.known()
	}
	return d, nil
}

// applicationPage returns the data of the whole page of the application in the path. The arguments are the
// same as for applicationForm.
func (p *Panel) applicationPage(r *http.Request, v *Visit, query, form url.Values) (*applicationPage, error) {
	d, err := p.applicationForm(r, v, query, form)
	if err != nil {
		return nil, err
	}
	return d, p.addReview(r, d, query)
}

// addReview adds the data that applicationForm does not read: the other certificates and applications of
// the e-mail address, the timeline, the next application and the attachment.
func (p *Panel) addReview(r *http.Request, d *applicationPage, query url.Values) (err error) {
	if d.Certificates, d.Applications, err = p.Applications.Earlier(r.Context(), d.A); err != nil {
		return err
	}
	if d.Events, err = p.Applications.Timeline(r.Context(), d.A); err != nil {
		return err
	}
	if d.Next, err = p.nextOf(r, d.Visit, d.View, d.A); err != nil {
		return err
	}
	return p.showFile(r, d, query)
}

// known returns the initial values of the form: the title of the certificate, and the note about the
// application.
func (d *applicationPage) known() url.Values {
	title := d.A.Title
	if d.Template != nil {
		title = cmp.Or(d.Template.Published.Layout.Title, title)
	}
	return url.Values{"certificate_title": {cmp.Or(title, d.Offer.Name)}, "note": {d.A.Note}}
}

// showFile chooses the attachment that is shown and the page of the attachment, and counts its pages.
func (p *Panel) showFile(r *http.Request, d *applicationPage, query url.Values) error {
	for i, f := range d.A.Files {
		if !f.Deleted && (d.Shown == nil || f.ID == query.Get("file")) {
			d.Shown = &d.A.Files[i]
		}
	}
	d.Page, d.Pages = 1, 1
	if d.Shown == nil || d.Shown.Type != "application/pdf" {
		return nil
	}
	content, _, err := p.Applications.OpenFile(r.Context(), d.Visit.Institution().ID, d.A.UUID, d.Shown.ID)
	if err != nil {
		if fault.Is(err, fault.Damaged) || fault.Is(err, fault.NotFound) {
			return nil // the page is shown without the picture
		}
		return err
	}
	defer func() { _ = content.Close() }()
	document, err := pdf.Open(content, content.Size())
	if err != nil {
		return nil // the renderer may draw the first page, because it can repair more files than pdf.Open
	}
	d.Pages = max(1, document.PageCount())
	if n, err := strconv.Atoi(query.Get("page")); err == nil && n >= 1 && n <= d.Pages {
		d.Page = n
	}
	return nil
}

// application shows one application.
func (p *Panel) application(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.applicationPage(r, v, r.URL.Query(), nil)
	if err != nil {
		return err
	}
	d.Open = r.URL.Query().Get("open")
	return p.draw(w, r, "application.html", d)
}

// attachment sends an attachment as a download, so that the browser runs no script in it.
func (p *Panel) attachment(w http.ResponseWriter, r *http.Request, v *Visit) error {
	a, err := p.applicationOf(r, v)
	if err != nil {
		return err
	}
	content, f, err := p.Applications.OpenFile(r.Context(), v.Institution().ID, a.UUID, r.PathValue("attachment"))
	if err != nil {
		return p.sendFile(w, r, nil, err, file{})
	}
	sent := file{mediaType: f.Type, tag: f.ID, name: f.Name}
	return p.sendFile(w, r, content, nil, sent)
}

// attachmentPicture sends a picture of a page of an attachment. The sandboxed renderer draws the picture.
func (p *Panel) attachmentPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	a, err := p.applicationOf(r, v)
	if err != nil {
		return err
	}
	picture, err := p.Applications.FilePicture(r.Context(), v.Institution().ID, a.UUID, r.PathValue("attachment"), queryNumber(r, "page"))
	if err != nil {
		return err
	}
	return sendPicture(w, r, picture)
}

// approvalOf returns the approval in a form. file is the file of the certificate, or nil.
func approvalOf(form url.Values, file *cert.File) application.Approval {
	return application.Approval{
		Title: form.Get("certificate_title"), IssueDate: form.Get("issue_date"), Details: form.Get("details"), ExpiresOn: form.Get("expires_on"), File: file,
	}
}

// entry returns the certificate that the form describes, as an entry for its template.
func (d *applicationPage) entry() template.Entry {
	e := d.A.Entry(approvalOf(d.Form, nil))
	e.Values = d.Template.Published.Known(e.Values)
	return e
}

// applicationPicture sends a picture of the certificate with the initial values of the form, for browsers
// that run no scripts. If these values are invalid for the template, the picture shows only the design.
func (p *Panel) applicationPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.applicationForm(r, v, url.Values{}, nil)
	if err != nil {
		return err
	}
	if d.Template == nil {
		return errForm
	}
	picture, err := p.Templates.EntryPicture(r.Context(), v.Institution(), d.Template.Published.ID, d.entry(), 1, pictureSide)
	if fault.Is(err, fault.Invalid) {
		picture, err = p.Templates.Page(r.Context(), v.Institution().ID, d.Template.UUID, 1, pictureSide)
	}
	if err != nil {
		return err
	}
	return sendPicture(w, r, picture)
}

// drawApplication sends a picture of the certificate that the form describes. If the form has problems, a
// script receives them as JSON, and any other client receives the page with the problems.
func (p *Panel) drawApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.applicationForm(r, v, r.PostForm, r.PostForm)
	if err != nil {
		return err
	}
	if d.Template == nil {
		return p.redirect(w, r, v, "applications/"+d.A.UUID, "")
	}
	picture, err := p.Templates.EntryPicture(r.Context(), v.Institution(), d.Template.Published.ID, d.entry(), 1, pictureSide)
	if err == nil {
		return sendPicture(w, r, picture)
	}
	t := p.texts(r)
	err = t.approvalError(err, d)
	if !web.FromScript(r) {
		if err := p.addReview(r, d, r.PostForm); err != nil {
			return err
		}
		return p.showAgain(w, r, "application.html", d, err)
	}
	return p.sendProblems(w, r, err)
}

// sendProblems sends the problems of a form as JSON, for the script that shows the picture of the
// certificate.
func (p *Panel) sendProblems(w http.ResponseWriter, r *http.Request, err error) error {
	t := p.texts(r)
	status, message := web.Explain(w, r, err)
	answer := struct {
		Message  string         `json:"message"`
		Problems []entryProblem `json:"problems,omitempty"`
	}{Message: t.domain(message)}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		for _, f := range e.Fields {
			answer.Problems = append(answer.Problems, entryProblem{f.Name, t.domain(strings.Join(f.Messages, " "))})
		}
	}
	return sendJSON(w, status, answer)
}
