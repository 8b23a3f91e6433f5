package panel

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web/body"
)

// fontPage is the data of the page of fonts.
type fontPage struct {
	Visit *Visit
	Fonts []*template.Font
	// BuiltIn are the families that every institution has.
	BuiltIn []typeset.Family
}

func (p *Panel) fontPage(r *http.Request, v *Visit) (*fontPage, error) {
	d := &fontPage{Visit: v}
	var err error
	if d.Fonts, err = p.Templates.Fonts(r.Context(), v.Institution().ID); err != nil {
		return nil, err
	}
	families, err := p.Templates.Families(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		if !f.Uploaded {
			d.BuiltIn = append(d.BuiltIn, f)
		}
	}
	return d, nil
}

// fonts shows the fonts of the institution.
func (p *Panel) fonts(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.fontPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "fonts.html", d)
}

// addFont stores a font file. The person must confirm that the institution may use the font.
func (p *Panel) addFont(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.fontPage(r, v)
	if err != nil {
		return err
	}
	if err := p.receiveFont(r, v); err != nil {
		return p.showAgain(w, r, "fonts.html", d, p.texts(r).refusal(err))
	}
	return p.redirect(w, r, v, "fonts", "font_added")
}

// receiveFont reads the form with a font. In the form, the confirmation precedes the file.
func (p *Panel) receiveFont(r *http.Request, v *Visit) error {
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	allowed := false
	for form.Next() {
		part := form.Part()
		switch part.FormName() {
		case "allowed":
			allowed = len(part.Value(maxForm, io.Discard)) > 0
		case "font":
			if part.FileName() == "" {
				continue
			}
			if !allowed {
				return fault.OfField("allowed", "fonts.not_allowed")
			}
			_, err := p.Templates.AddFont(r.Context(), v.Institution(), part.FileName(), part)
			return err
		default:
		}
	}
	if err := form.Err(); err != nil {
		return err
	}
	return fault.OfField("font", "fonts.no_file")
}

// fontDeletePage is the data of the page that asks for confirmation before a font is deleted.
type fontDeletePage struct {
	Visit *Visit
	Font  *template.Font
}

func (p *Panel) fontOf(r *http.Request, v *Visit) (*template.Font, error) {
	list, err := p.Templates.Fonts(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(f *template.Font) bool { return f.ID == r.PathValue("font") }); i >= 0 {
		return list[i], nil
	}
	return nil, fault.New(fault.NotFound, "There is no such font.")
}

// askDeleteFont asks for confirmation before a font is deleted.
func (p *Panel) askDeleteFont(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := p.fontOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "font_delete.html", &fontDeletePage{v, f})
}

// deleteFont deletes a font.
func (p *Panel) deleteFont(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Templates.DeleteFont(r.Context(), v.Institution(), r.PathValue("font")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "fonts", "font_deleted")
}

// styleNames returns the styles of the faces of a font, such as "Regular, Bold".
func styleNames(info typeset.Info) string {
	names := make([]string, 0, len(info.Faces))
	for _, f := range info.Faces {
		names = append(names, f.Style)
	}
	return strings.Join(names, ", ")
}
