package panel

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// templateRoutes returns the routes for templates, the designer and fonts.
func (p *Panel) templateRoutes() []route {
	const one, designer = "/panel/{institution}/templates/{template}", "/panel/{institution}/templates/{template}/design"
	may := account.MayManageTemplates
	return []route{
		{pattern: "GET /panel/{institution}/templates", may: account.MayView, handler: p.templates},
		{pattern: "POST /panel/{institution}/templates", may: may, handler: p.createTemplate, limits: designLimits},
		{pattern: "GET /panel/{institution}/templates/new", may: may, handler: p.newTemplate},
		{pattern: "GET /panel/{institution}/templates/new/picture.png", may: may, handler: p.builtInPicture},
		{pattern: "GET " + one, may: account.MayView, handler: p.template},
		{pattern: "GET " + one + "/picture.png", may: account.MayView, handler: p.templatePicture},
		{pattern: "GET " + one + "/export", may: may, handler: p.exportTemplate},
		{pattern: "POST " + one + "/duplicate", may: may, handler: p.duplicateTemplate},
		{pattern: "POST " + one + "/archive", may: may, handler: p.archiveTemplate},
		{pattern: "POST " + one + "/restore", may: may, handler: p.restoreTemplate},
		{pattern: "GET " + one + "/delete", may: may, handler: p.askDeleteDraft},
		{pattern: "POST " + one + "/delete", may: may, handler: p.deleteDraft},

		{pattern: "GET " + designer, may: may, handler: p.designer},
		{pattern: "POST " + designer, may: may, handler: p.saveDesign, limits: jsonLimits},
		{pattern: "POST " + designer + "/shape", may: may, handler: p.shapeDesign, limits: jsonLimits},
		{pattern: "POST " + designer + "/draw.png", may: may, handler: p.drawDesign, limits: jsonLimits},
		{pattern: "POST " + designer + "/list", may: may, handler: p.listForDesign, limits: exampleLimits},
		{pattern: "GET " + designer + "/page.png", may: may, handler: p.designPage},
		{pattern: "POST " + designer + "/pictures", may: may, handler: p.addPicture, limits: pictureLimits},
		{pattern: "GET " + designer + "/pictures/{picture}", may: may, handler: p.designPicture},
		{pattern: "POST " + designer + "/publish", may: may, handler: p.publishTemplate, limits: jsonLimits},
		{pattern: "POST " + designer + "/fields", may: may, handler: p.changeField},
		{pattern: "GET " + designer + "/replace", may: may, handler: p.askReplaceDesign},
		{pattern: "POST " + designer + "/replace", may: may, handler: p.replaceDesign, limits: designLimits},

		{pattern: "GET /panel/{institution}/fonts", may: may, handler: p.fonts},
		{pattern: "POST /panel/{institution}/fonts", may: may, handler: p.addFont, limits: fontLimits},
		{pattern: "GET /panel/{institution}/fonts/{font}/delete", may: may, handler: p.askDeleteFont},
		{pattern: "POST /panel/{institution}/fonts/{font}/delete", may: may, handler: p.deleteFont},
	}
}

// These are the limits of forms with files. An exported template contains a design and pictures.
var (
	designLimits  = &body.Limits{Size: 128 << 20, Time: 10 * time.Minute, Parts: 12, TooLarge: fault.New(fault.TooLarge, "templates.too_large"), Broken: errUpload}
	pictureLimits = &body.Limits{Size: 6 << 20, Time: 5 * time.Minute, Parts: 4, TooLarge: fault.New(fault.TooLarge, "templates.picture_too_large"), Broken: errUpload}
	exampleLimits = &body.Limits{Size: 5 << 20, Time: 5 * time.Minute, Parts: 2, TooLarge: fault.New(fault.TooLarge, "templates.list_too_large"), Broken: errUpload}
	fontLimits    = &body.Limits{Size: 33 << 20, Time: 10 * time.Minute, Parts: 4, TooLarge: fault.New(fault.TooLarge, "fonts.too_large"), Broken: errUpload}
)

// pictureSide and thumbSide are the lengths of the longer side of a picture and of a small picture of a
// template, in pixels.
const (
	pictureSide = 1200
	thumbSide   = 520
)

// templateList is the data of the list of templates.
type templateList struct {
	Visit    *Visit
	List     []*template.Template
	Archived bool
	Search   string
	// Any reports whether the institution has templates. They may be archived.
	Any bool
}

// fewTemplates is the maximum number of templates in a list without a search field.
const fewTemplates = 8

// CanSearch reports whether the list has a search field.
func (l *templateList) CanSearch() bool { return l.Search != "" || len(l.List) > fewTemplates }

// templateState is the state of a template on a page: the key and the tone of its label.
type templateState struct{ Key, Tone string }

func stateOfTemplate(t *template.Template) templateState {
	switch {
	case t.ArchivedAt != nil:
		return templateState{"templates.state_archived", ""}
	case t.Published == nil:
		return templateState{"templates.state_draft", "wait"}
	case t.Draft != nil:
		return templateState{"templates.state_changed", "good"}
	}
	return templateState{"templates.state_published", "good"}
}

// templateKey returns a part of the address of a picture of a template. It changes with the template, so
// that browsers may cache the picture.
func templateKey(t *template.Template) string {
	v := t.Latest()
	return strconv.FormatInt(v.ID, 10) + "." + strconv.FormatInt(v.Revision, 10)
}

// sizeOfPage returns the width and height, in pixels, of a picture of the first page. The longer of them
// is side.
func sizeOfPage(t *template.Template, side int) [2]int {
	return sizeOfPages(t.Latest().Pages, side)
}

// templates shows the templates of the institution.
func (p *Panel) templates(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	l := &templateList{Visit: v, Archived: q.Get("archived") != "", Search: strings.TrimSpace(q.Get("text"))}
	var err error
	if l.List, err = p.Templates.List(r.Context(), v.Institution().ID, template.Filter{Archived: l.Archived, Search: l.Search}); err != nil {
		return err
	}
	if err := p.Templates.CountIssued(r.Context(), v.Institution().ID, l.List...); err != nil {
		return err
	}
	l.Any = len(l.List) > 0
	for _, archived := range []bool{false, true} {
		if l.Any {
			break
		}
		others, err := p.Templates.List(r.Context(), v.Institution().ID, template.Filter{Archived: archived})
		if err != nil {
			return err
		}
		l.Any = len(others) > 0
	}
	return p.draw(w, r, "templates.html", l)
}

// templateOf returns the template in the path.
func (p *Panel) templateOf(r *http.Request, v *Visit) (*template.Template, error) {
	return p.Templates.ByUUID(r.Context(), v.Institution().ID, r.PathValue("template"))
}

// sendLasting sends a picture that browsers may cache, because its address changes with its content.
func sendLasting(w http.ResponseWriter, picture []byte) error {
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", web.FilePolicy)
	h.Set("Cache-Control", "private, max-age=86400")
	h.Set("Content-Length", strconv.Itoa(len(picture)))
	_, _ = w.Write(picture) // fails only if the client has closed the connection
	return nil
}

// templatePage is the data of the page of a template.
type templatePage struct {
	Visit    *Visit
	T        *template.Template
	State    templateState
	Versions []*template.Version
	// Picture is the address of a picture, and Size is its width and height in pixels.
	Picture string
	Size    [2]int
	// Sample is the name of the sample that the picture shows, and Samples are all samples.
	Sample  string
	Samples []sampleView
	// Page is the number of the page that the picture shows, and Pages are the numbers of all pages.
	Page  int
	Pages []int
	// Problems are the reasons why the draft cannot be published.
	Problems []problemView
	// Warnings are remarks about the draft that do not prevent its publication.
	Warnings []problemView
	// Fields are the fields of the template, and Columns are the columns of a list that the fields use.
	Fields  []fieldView
	Columns []design.ColumnUse
}

// SignatoryLeft reports whether a signatory of the draft or of the published version may no longer sign.
func (d *templatePage) SignatoryLeft() bool {
	for _, version := range []*template.Version{d.T.Draft, d.T.Published} {
		if version != nil && slices.ContainsFunc(version.Signatories, func(s template.Signatory) bool { return s.Left }) {
			return true
		}
	}
	return false
}

// fieldView is a field in a table.
type fieldView struct {
	ID, Title, KindKey, Text string
	Page                     int
	Required                 bool
}

// template shows a template: a picture with a sample, the fields, the versions and the actions.
func (p *Panel) template(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.templatePage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "template.html", d)
}

func (p *Panel) templatePage(r *http.Request, v *Visit) (*templatePage, error) {
	t, err := p.templateOf(r, v)
	if err != nil {
		return nil, err
	}
	if err := p.Templates.CountIssued(r.Context(), v.Institution().ID, t); err != nil {
		return nil, err
	}
	texts, q := p.texts(r), r.URL.Query()
	d := &templatePage{Visit: v, T: t, State: stateOfTemplate(t), Samples: texts.samples(), Page: 1}
	if d.Versions, err = p.Templates.Versions(r.Context(), v.Institution().ID, t.UUID); err != nil {
		return nil, err
	}
	latest := t.Latest()
	d.Sample = design.SampleIn(latest.Layout.Language).Name
	for _, s := range d.Samples {
		if s.Name == q.Get("sample") {
			d.Sample = s.Name
		}
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n >= 1 && n <= len(latest.Pages) {
		d.Page = n
	}
	d.Size = sizeOfPages(latest.Pages[d.Page-1:], pictureSide)
	for i := range latest.Pages {
		d.Pages = append(d.Pages, i+1)
	}
	d.Picture = v.Path("templates/"+t.UUID) + "/picture.png?page=" + strconv.Itoa(d.Page) + "&sample=" + d.Sample + "&v=" + templateKey(t)
	for i := range latest.Layout.Fields {
		f := &latest.Layout.Fields[i]
		d.Fields = append(d.Fields, fieldView{f.ID, texts.fieldTitle(f), "designer." + "kind_" + string(f.Kind), f.Text, f.Page, f.Required})
	}
	d.Columns = latest.Layout.Columns()
	if t.Draft != nil {
		d.Problems = texts.problemViews(latest.Problems(), &latest.Layout)
		d.Warnings = texts.problemViews(latest.Layout.Overlaps(latest.Pages), &latest.Layout)
	}
	return d, nil
}

// templatePicture sends a picture of a page of a template with a sample. If the fields cannot be
// drawn, the picture shows the design without them.
func (p *Panel) templatePicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q, ctx, inst := r.URL.Query(), r.Context(), v.Institution()
	t, err := p.templateOf(r, v)
	if err != nil {
		return err
	}
	number, side := 1, pictureSide
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		number = n
	}
	if q.Get("size") == "small" {
		side = thumbSide
	}
	values := p.sampleValues(q.Get("sample"), inst, &t.Latest().Layout, nil)
	picture, err := p.Templates.Picture(ctx, inst, t.UUID, nil, values, number, side)
	if fault.Is(err, fault.Invalid) {
		picture, err = p.Templates.Page(ctx, inst.ID, t.UUID, number, side)
	}
	if err != nil {
		return err
	}
	if q.Get("v") == templateKey(t) {
		return sendLasting(w, picture)
	}
	return sendPicture(w, r, picture)
}

// exportTemplate sends a template as a file that any vault can import.
func (p *Panel) exportTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.templateOf(r, v)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := p.Templates.Export(r.Context(), v.Institution().ID, t.UUID, &file); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": t.Name + ".cvtemplate"}))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(file.Len()))
	_, _ = file.WriteTo(w) // fails only if the client has closed the connection
	return nil
}

// duplicateTemplate creates a copy of a template.
func (p *Panel) duplicateTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.templateOf(r, v)
	if err != nil {
		return err
	}
	name := p.texts(r).of("templates.copy_of", "name", t.Name)
	if runes := []rune(name); len(runes) > maxTemplateName {
		name = string(runes[:maxTemplateName])
	}
	made, err := p.Templates.Duplicate(r.Context(), v.Institution(), t.UUID, name)
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, "templates/"+made.UUID, "template_duplicated")
}

// maxTemplateName is the maximum number of characters of the name of a template.
const maxTemplateName = 100

func (p *Panel) archiveTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Templates.Archive(r.Context(), v.Institution(), r.PathValue("template")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "templates/"+r.PathValue("template"), "template_archived")
}

// restoreTemplate makes an archived template available again.
func (p *Panel) restoreTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Templates.Unarchive(r.Context(), v.Institution(), r.PathValue("template")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "templates/"+r.PathValue("template"), "template_restored")
}

// askDeleteDraft asks for confirmation before a draft is deleted.
func (p *Panel) askDeleteDraft(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.templatePage(r, v)
	if err != nil {
		return err
	}
	if d.T.Draft == nil {
		return p.redirect(w, r, v, "templates/"+d.T.UUID, "")
	}
	return p.draw(w, r, "template_delete.html", d)
}

// deleteDraft deletes the draft of a template. If the template was never published, it deletes the
// template too.
func (p *Panel) deleteDraft(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.Templates.DeleteDraft(r.Context(), v.Institution(), r.PathValue("template"))
	if err != nil {
		return err
	}
	if t == nil {
		return p.redirect(w, r, v, "templates", "template_deleted")
	}
	return p.redirect(w, r, v, "templates/"+t.UUID, "template_draft_deleted")
}
