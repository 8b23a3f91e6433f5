package panel

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web/body"
	"github.com/certvault/certvault/internal/web/page"
)

// newTemplateForm is the data of the page for a new template. From is the form that was submitted:
// "design", "upload" or "import".
type newTemplateForm struct {
	Visit                             *Visit
	BuiltIns                          []builtin.Builtin
	From, Name, Design, Paper, Accent string
	// OwnAccent reports whether the design gets the color Accent instead of its own.
	OwnAccent bool
	// Page is the paper for a picture.
	Page string
}

// Picture returns the address of the picture of a built-in design.
func (f *newTemplateForm) Picture(design string) string {
	q := url.Values{"design": {design}, "paper": {f.Paper}}
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
	all := builtin.All()
	return &newTemplateForm{
		Visit: v, BuiltIns: all, Design: all[0].Name, Paper: builtin.A4, Accent: cmp.Or(profile.Colour, all[0].Accent.String()), OwnAccent: profile.Colour != "",
	}, nil
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
	t, err := p.receiveTemplate(r, v, f)
	if err != nil {
		return p.showAgain(w, r, "template_new.html", f, controlsOf(f.From, p.texts(r).refusal(err)))
	}
	return p.redirect(w, r, v, "templates/"+t.UUID+"/design", "template_created")
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

// receiveTemplate reads the form for a new template. Its file is the last part.
func (p *Panel) receiveTemplate(r *http.Request, v *Visit, f *newTemplateForm) (*template.Template, error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, err
	}
	ctx, inst := r.Context(), v.Institution()
	for form.Next() {
		part := form.Part()
		if part.FormName() == "file" {
			if part.FileName() == "" {
				break
			}
			name := cmp.Or(strings.TrimSpace(f.Name), nameOfFile(part.FileName()))
			if f.From == "import" {
				return p.Templates.Import(ctx, inst, strings.TrimSpace(f.Name), part)
			}
			return p.Templates.Create(ctx, template.NewTemplate{Institution: inst, Name: name, Design: part, Paper: f.Page})
		}
		value := string(part.Value(maxForm, io.Discard))
		switch part.FormName() {
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
		case "page":
			f.Page = value
		default:
		}
	}
	if err := form.Err(); err != nil {
		return nil, err
	}
	if f.From != "design" {
		return nil, fault.OfField("file", "templates.no_file")
	}
	accent := f.Accent
	if b, ok := builtin.Find(f.Design); ok && !f.OwnAccent {
		accent = b.Accent.String()
	}
	return p.Templates.Create(ctx, template.NewTemplate{Institution: inst, Name: f.Name, BuiltIn: f.Design, Paper: f.Paper, Accent: accent})
}

// nameOfFile returns the name of a file without its ending.
func nameOfFile(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		name = name[:i]
	}
	return strings.ToValidUTF8(name, "")
}

// builtInPicture sends a picture of a built-in design with a paper and an accent color.
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
	picture, err := p.Templates.BuiltInPicture(r.Context(), v.Institution(), b.Name, cmp.Or(q.Get("paper"), builtin.A4), accent, thumbSide)
	if err != nil {
		return err
	}
	return sendLasting(w, picture)
}
