package panel

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web/body"
	"github.com/certvault/certvault/internal/web/page"
)

// newTemplateForm is the data of the page for a new template, and of the page that replaces the design of
// a template. From is the form that was submitted: "design", "upload" or "import".
type newTemplateForm struct {
	Visit                             *Visit
	BuiltIns                          []builtin.Builtin
	From, Name, Design, Paper, Accent string
	// OwnAccent reports whether Accent replaces the accent colour of the built-in design.
	OwnAccent bool
	// Page is the format of the page for an uploaded picture, or "" for the size of the picture.
	Page string
	// Language is the tag of the language of the texts, one of Languages. WithoutFont has the names of
	// the languages for which the institution has no font.
	Language    string
	Languages   []*locale.Language
	WithoutFont string

	// T is the template whose design is replaced, or nil. Revision is the revision of T that the form
	// changes.
	T        *template.Template
	Revision int64
}

// Picture returns the address of the picture of a built-in design.
func (f *newTemplateForm) Picture(design string) string {
	q := url.Values{"design": {design}, "paper": {f.Paper}, "language": {f.Language}}
	if f.OwnAccent {
		q.Set("accent", strings.TrimPrefix(f.Accent, "#"))
	}
	return f.Visit.Path("templates/new/picture.png") + "?" + q.Encode()
}

func (p *Panel) newTemplateForm(r *http.Request, v *Visit) (*newTemplateForm, error) {
	profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	without, err := p.Templates.WithoutFont(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	all := builtin.All()
	f := &newTemplateForm{
		Visit: v, BuiltIns: all, Design: all[0].Name, Paper: builtin.A4, Accent: cmp.Or(profile.Colour, all[0].Accent.String()), OwnAccent: profile.Colour != "",
		Language: p.texts(r).language.Tag, Languages: p.view.Languages(),
	}
	var names []string
	for _, l := range f.Languages {
		if slices.Contains(without, l.Tag) {
			names = append(names, l.Name)
		}
	}
	f.WithoutFont = strings.Join(names, ", ")
	return f, nil
}

// newTemplate shows the form for a new template.
func (p *Panel) newTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.newTemplateForm(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "template_new.html", f)
}

// createTemplate creates a template from a built-in design, an uploaded design or an exported file.
func (p *Panel) createTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.newTemplateForm(r, v)
	if err != nil {
		return err
	}
	var t *template.Template
	err = f.receive(r, func(n template.NewTemplate) (err error) {
		if f.From == "import" {
			t, err = p.Templates.Import(r.Context(), n.Institution, strings.TrimSpace(f.Name), n.Design)
			return err
		}
		t, err = p.Templates.Create(r.Context(), n)
		return err
	})
	if err != nil {
		return p.showAgain(w, r, "template_new.html", f, controlsOf(f.From, p.texts(r).refusal(err)))
	}
	notice := "template_created"
	if f.From == "design" && f.Language != "en" && t.Draft.Layout.Language == "en" {
		notice = "template_created_english"
	}
	return p.redirect(w, r, v, "templates/"+t.UUID+"/design", notice)
}

// refusal translates the reason why a design or a font cannot be used.
func (t texts) refusal(err error) error {
	code := ""
	if r, ok := errors.AsType[*design.Refusal](err); ok {
		code = r.Code
	} else if r, ok := errors.AsType[*typeset.FontError](err); ok {
		code = r.Code
	}
	e, ok := errors.AsType[*fault.Error](err)
	if key := "template_refusal." + code; ok && len(e.Fields) > 0 && t.language.Has(key) {
		return &fault.Error{Kind: e.Kind, Fields: []fault.Field{{Name: e.Fields[0].Name, Messages: []string{t.of(key)}}}, Err: e.Err}
	}
	return err
}

// warning returns the text of a warning about a design.
func (t texts) warning(w design.Warning) string {
	if key := "template_warning." + w.Code; t.language.Has(key) {
		return t.of(key)
	}
	return w.Text
}

// controlsOf renames the fields of an error to the controls of one of the forms for a new template.
func controlsOf(from string, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	renamed := *e
	renamed.Fields = nil
	for _, field := range e.Fields {
		name := from + "_file"
		if field.Name == "name" {
			name = from + "_name"
		} else if from == "design" {
			name = "design_" + field.Name
		}
		renamed.Fields = append(renamed.Fields, fault.Field{Name: name, Messages: field.Messages})
	}
	return &renamed
}

// receive reads the form of a design, and calls use with the design. A file must be the last part of the
// form.
func (f *newTemplateForm) receive(r *http.Request, use func(template.NewTemplate) error) error {
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	n := template.NewTemplate{Institution: f.Visit.Institution()}
	for form.Next() {
		part := form.Part()
		if part.FormName() == "file" {
			if part.FileName() == "" {
				break
			}
			n.Name, n.Design, n.Paper = cmp.Or(strings.TrimSpace(f.Name), nameOfFile(part.FileName())), part, f.Page
			return use(n)
		}
		f.set(part.FormName(), string(part.Value(maxForm, io.Discard)))
	}
	if err := form.Err(); err != nil {
		return err
	}
	if f.From != "design" {
		return fault.OfField("file", "templates.no_file")
	}
	n.Name, n.BuiltIn, n.Paper, n.Accent, n.Language = f.Name, f.Design, f.Paper, f.Accent, f.Language
	if b, ok := builtin.Find(f.Design); ok && !f.OwnAccent {
		n.Accent = b.Accent.String()
	}
	return use(n)
}

// set sets the value of a control.
func (f *newTemplateForm) set(control, value string) {
	switch control {
	case "from":
		f.From, f.OwnAccent = value, false
	case "name":
		f.Name = value
	case "design":
		f.Design = value
	case "paper":
		f.Paper = value
	case "accent":
		f.Accent = value
	case "own_accent":
		f.OwnAccent = true
	case "language":
		f.Language = value
	case "page":
		f.Page = value
	case "revision":
		f.Revision, _ = strconv.ParseInt(value, 10, 64) // 0, which is not a revision, if the text is not a number
	default:
	}
}

// replaceForm returns the form that replaces the design of the template in the path.
func (p *Panel) replaceForm(r *http.Request, v *Visit) (*newTemplateForm, error) {
	t, err := p.templateOf(r, v)
	if err != nil {
		return nil, err
	}
	if t.ArchivedAt != nil {
		return nil, fault.New(fault.BadRequest, "designer.archived")
	}
	f, err := p.newTemplateForm(r, v)
	if err != nil {
		return nil, err
	}
	f.T, f.Revision = t, t.Latest().Revision
	if base, _, _ := strings.Cut(t.Latest().Layout.Language, "-"); locale.Supported(base) {
		f.Language = base
	}
	return f, nil
}

// askReplaceDesign shows the form that replaces the design of a template.
func (p *Panel) askReplaceDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.replaceForm(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "template_design.html", f)
}

// replaceDesign replaces the design of a template. The designer then shows which fields were moved.
func (p *Panel) replaceDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.replaceForm(r, v)
	if err != nil {
		return err
	}
	var moved []string
	err = f.receive(r, func(n template.NewTemplate) (err error) {
		_, moved, err = p.Templates.ReplaceDesign(r.Context(), f.T.UUID, f.Revision, n)
		return err
	})
	if err != nil {
		return p.showAgain(w, r, "template_design.html", f, controlsOf(f.From, p.texts(r).refusal(err)))
	}
	path := "templates/" + f.T.UUID + "/design"
	if len(moved) > 0 {
		path += "?" + url.Values{"moved": moved[:min(len(moved), maxMoved)]}.Encode()
	}
	return p.redirect(w, r, v, path, "template_design_replaced")
}

// maxMoved is the maximum number of moved fields in the address of the designer.
const maxMoved = 50

// nameOfFile returns the name of a file without its extension.
func nameOfFile(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		name = name[:i]
	}
	return strings.ToValidUTF8(name, "")
}

// builtInPicture sends a picture of a built-in design with a paper size, an accent colour and a language.
func (p *Panel) builtInPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	b, ok := builtin.Find(cmp.Or(q.Get("design"), builtin.All()[0].Name))
	if !ok {
		return page.ErrUnknown
	}
	accent := b.Accent.String()
	if own := q.Get("accent"); own != "" {
		accent = "#" + own
	}
	picture, err := p.Templates.BuiltInPicture(r.Context(), template.NewTemplate{
		Institution: v.Institution(), BuiltIn: b.Name, Paper: cmp.Or(q.Get("paper"), builtin.A4), Accent: accent, Language: q.Get("language"),
	}, thumbSide)
	if err != nil {
		return err
	}
	return sendLasting(w, picture)
}
