package panel

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web"
)

// issueRoutes returns the routes to issue certificates from templates, with a form or with a list.
func (p *Panel) issueRoutes() []route {
	const one, bulk = "/panel/{institution}/templates/{template}", "/panel/{institution}/bulk/{draft}"
	return []route{
		{pattern: "GET " + one + "/issue", may: account.MayUpload, handler: p.issueForm},
		{pattern: "POST " + one + "/issue", may: account.MayUpload, handler: p.issue},
		{pattern: "POST " + one + "/issue/draw.png", may: account.MayUpload, handler: p.drawIssue},
		{pattern: "POST " + one + "/list", may: account.MayUpload, handler: p.newTemplateList},
		{pattern: "GET " + bulk + "/example.xlsx", may: account.MayUpload, handler: p.exampleWorkbook},
		{pattern: "GET " + bulk + "/example.csv", may: account.MayUpload, handler: p.exampleCSV},
		{pattern: "GET " + bulk + "/rows/{row}/certificate.png", may: account.MayUpload, handler: p.rowPicture},
		{pattern: "POST " + bulk + "/version", may: account.MayUpload, handler: p.usePublished},
	}
}

// issuePage is the data of the form for one certificate from a template. Same is an existing
// certificate with the same e-mail address, title and issue date, or nil. Alike are certificates with the
// same name and title.
type issuePage struct {
	Visit  *Visit
	T      *template.Template
	Fields url.Values
	// Version is the id of the version of the template that the form was made for.
	Version string
	// Columns are the controls for the columns of the template. Details reports whether the template
	// shows the details.
	Columns []columnControl
	Details bool
	// Replacing is the certificate to replace, or nil.
	Replacing *replacing
	Same      *cert.Certificate
	Alike     []*cert.Certificate
	// Mails reports whether the vault has a mail server.
	Mails bool
	// Size is the width and the height of the picture of the first page in pixels.
	Size [2]int
}

// columnControl is the control for a column of a template.
type columnControl struct {
	Control, Name, Value string
	Required             bool
}

// Pages returns the numbers of the pages of the template.
func (d *issuePage) Pages() []int {
	list := make([]int, len(d.T.Published.Pages))
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// published returns the id of the published version of the template.
func (d *issuePage) published() string { return strconv.FormatInt(d.T.Published.ID, 10) }

// issuable returns the template in the path. The error is fault.BadRequest if no certificates can be issued
// from the template.
func (p *Panel) issuable(r *http.Request, v *Visit) (*template.Template, error) {
	t, err := p.templateOf(r, v)
	switch {
	case err != nil:
		return nil, err
	case t.ArchivedAt != nil:
		return nil, fault.New(fault.BadRequest, "issue_problem.template_archived")
	case t.Published == nil:
		return nil, fault.New(fault.BadRequest, "issue_problem.template_not_published")
	}
	return t, nil
}

func (p *Panel) issuePage(r *http.Request, v *Visit, form url.Values) (*issuePage, error) {
	t, err := p.issuable(r, v)
	if err != nil {
		return nil, err
	}
	layout := &t.Published.Layout
	d := &issuePage{Visit: v, T: t, Fields: form, Details: layout.Uses("details"), Mails: p.Outbox == "", Size: sizeOfPages(t.Published.Pages, pictureSide)}
	d.Version = cmp.Or(form.Get("version"), d.published())
	if form == nil {
		d.Fields = url.Values{"certificate_title": {layout.Title}}
	}
	if d.Replacing, err = p.replacingOf(r, v); err != nil {
		return nil, err
	}
	if d.Replacing != nil && form == nil {
		if err := d.Replacing.fill(d.Fields, cert.Today(p.Now())); err != nil {
			return nil, err
		}
		values, err := template.ColumnsOf(d.Replacing.Old)
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			d.Fields.Set(controlOfField(template.ValueField(name)), value)
		}
	}
	for _, use := range layout.Columns() {
		control := controlOfField(template.ValueField(use.Name))
		d.Columns = append(d.Columns, columnControl{control, use.Name, d.Fields.Get(control), use.Required})
	}
	return d, nil
}

// sizeOfPages returns the width and the height in pixels of a picture of the first page. side is the length
// of the longer side.
func sizeOfPages(pages []design.Page, side int) [2]int {
	if len(pages) == 0 || pages[0].Width <= 0 || pages[0].Height <= 0 {
		return [2]int{side, side}
	}
	k := float64(side) / max(pages[0].Width, pages[0].Height)
	return [2]int{int(k*pages[0].Width + 0.5), int(k*pages[0].Height + 0.5)}
}

// entry returns the texts in the form.
func (d *issuePage) entry() template.Entry {
	e := template.Entry{
		FullName: strings.TrimSpace(d.Fields.Get("full_name")), Email: strings.TrimSpace(d.Fields.Get("applicant_email")),
		Title: strings.TrimSpace(d.Fields.Get("certificate_title")), IssueDate: strings.TrimSpace(d.Fields.Get("issue_date")),
		ExpiresOn: strings.TrimSpace(d.Fields.Get("expires_on")),
	}
	if d.Details {
		e.Details = strings.TrimSpace(d.Fields.Get("details"))
	}
	for _, c := range d.Columns {
		if value := strings.TrimSpace(c.Value); value != "" {
			if e.Values == nil {
				e.Values = map[string]string{}
			}
			e.Values[c.Name] = value
		}
	}
	return e
}

// issueForm shows the form for one certificate.
func (p *Panel) issueForm(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.issuePage(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "issue.html", d)
}

// issue creates a certificate from the template. If another version was published after the form was made,
// the person gets the form for this version, with the typed values. If similar certificates exist, the person
// must first confirm that the new certificate is not a duplicate.
func (p *Panel) issue(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.issuePage(r, v, r.PostForm)
	if err != nil {
		return err
	}
	if d.Version != d.published() {
		return p.issueOther(w, r, v)
	}
	upload, err := p.Templates.Upload(r.Context(), v.Institution(), v.actor(), d.T.UUID, d.entry())
	if err == nil && upload.Template.VersionID != d.T.Published.ID {
		return p.issueOther(w, r, v)
	}
	if err != nil {
		return p.showAgain(w, r, "issue.html", d, p.texts(r).entryError(err, d.Fields))
	}
	text := cert.Text{Title: upload.Title, FullName: upload.FullName, Email: upload.Email, IssueDate: upload.IssueDate, Details: upload.Details}
	if d.Replacing == nil {
		if d.Same, d.Alike, err = p.Search.Duplicates(r.Context(), v.Institution().ID, text, [32]byte{}); err != nil {
			return err
		}
	}
	if r.PostForm.Get("sure") == "" && (d.Same != nil || len(d.Alike) > 0) {
		return p.showAgain(w, r, "issue.html", d, fault.New(fault.Conflict, "upload.look_first"))
	}
	upload.Notify = notifyOf(r.PostForm)
	c, err := p.create(r, d.Replacing, upload)
	if err != nil {
		return p.showAgain(w, r, "issue.html", d, err)
	}
	if c.Status == cert.Pending {
		return p.redirect(w, r, v, "certificates/"+c.UUID, "")
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID+"/uploaded", "")
}

// issueOther shows the form again, with the typed values, for a version that was published after the form was
// made.
func (p *Panel) issueOther(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.issuePage(r, v, r.PostForm)
	if err != nil {
		return err
	}
	d.Version = d.published()
	return p.showAgain(w, r, "issue.html", d, fault.New(fault.Conflict, "issue_problem.other_version"))
}

// entryProblem is the message of a problem and the name of its control.
type entryProblem struct {
	Control string `json:"control"`
	Text    string `json:"text"`
}

// drawIssue sends a picture of a page of the certificate that the form describes. If the form has
// problems, it sends the problems as JSON to the script of the page. For a browser without scripts, it
// shows the page with the problems.
func (p *Panel) drawIssue(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.issuePage(r, v, r.PostForm)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(cmp.Or(r.PostForm.Get("page"), "1"))
	if err != nil {
		number = 1
	}
	e := d.entry()
	e.Email = "" // the certificate does not show the address
	picture, err := p.Templates.EntryPicture(r.Context(), v.Institution(), d.T.Published.ID, e, number, pictureSide)
	if err == nil {
		return sendPicture(w, r, picture)
	}
	t := p.texts(r)
	err = t.entryError(err, d.Fields)
	if !web.FromScript(r) {
		return p.showAgain(w, r, "issue.html", d, err)
	}
	return p.sendProblems(w, r, err)
}

// entryError replaces the problems of one entry with messages for the controls of the form. It returns any
// other error unchanged.
func (t texts) entryError(err error, form url.Values) error {
	problems, ok := errors.AsType[batch.Problems](err)
	if !ok {
		return err
	}
	var bad fault.Fields
	for _, p := range problems {
		control := controlOfField(p.Field)
		bad.Add(control, t.templateMessage(p.Problem, form.Get(control)))
	}
	if bad.Len() == 0 {
		return err
	}
	return bad.Err()
}

// templateMessage returns the message for a problem of a text of a certificate from a template.
func (t texts) templateMessage(p cert.Problem, text string) string {
	field := t.fieldLabel(p.Field)
	switch string(p.Code) {
	case design.CodeMissingCharacters:
		return t.of("designer.problem_of", "field", field, "problem", t.missingCharacters(p.Detail))
	case design.CodeNoRoom:
		return t.of("issue_problem.no_room", "field", field)
	case design.CodeValueMissing:
		return t.of("issue_problem.value_missing", "field", field)
	case design.CodeValueUnknown, string(template.CodeNotPublished), string(template.CodeArchived):
		return t.of("issue_problem." + string(p.Code))
	}
	if _, ok := valueOfField(p.Field); !ok {
		return t.problemMessage(p, text)
	}
	switch p.Code {
	case cert.CodeTooLong:
		return t.of("cert_problem.too_long", "field", field, "n", t.language.Number(utf8.RuneCountInString(text)), "limit", t.language.Number(p.Limit))
	case cert.CodeNotText:
		return t.of("cert_problem.not_text", "field", field)
	default:
		return t.of("cert_problem.invalid", "field", field)
	}
}

// isTemplateProblem reports whether p can only be a problem of a certificate from a template.
func isTemplateProblem(p cert.Problem) bool {
	switch string(p.Code) {
	case design.CodeMissingCharacters, design.CodeNoRoom, design.CodeValueMissing, design.CodeValueUnknown, string(template.CodeNotPublished), string(template.CodeArchived):
		return true
	}
	_, ok := valueOfField(p.Field)
	return ok
}

// newTemplateList creates a bulk upload whose certificates are made from a template, and redirects to
// the page of the bulk upload.
func (p *Panel) newTemplateList(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.issuable(r, v)
	if err != nil {
		return err
	}
	d, err := p.BulkImports.CreateForTemplate(r.Context(), v.Institution(), v.actor(), t.UUID)
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID, "")
}

// usePublished binds a bulk upload to the published version of its template.
func (p *Panel) usePublished(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if err := p.BulkImports.UsePublished(r.Context(), d); err != nil {
		return err
	}
	if d.ListName == "" {
		return p.redirect(w, r, v, "bulk/"+d.UUID, "template_version")
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/columns", "template_version")
}

// hasTemplate reports whether the institution has a template from which certificates can be issued.
func (p *Panel) hasTemplate(r *http.Request, v *Visit) (bool, error) {
	list, err := p.Templates.List(r.Context(), v.Institution().ID, template.Filter{})
	if err != nil {
		return false, err
	}
	for _, t := range list {
		if t.Published != nil {
			return true, nil
		}
	}
	return false, nil
}
