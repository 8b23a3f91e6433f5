package panel

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
)

// changeLayout calls f with a copy of the latest layout of the template in the path, and saves the copy.
// revision is the revision that the person changed, or 0 for the latest revision.
func (p *Panel) changeLayout(r *http.Request, v *Visit, revision int64, f func(*design.Layout) error) error {
	t, err := p.templateOf(r, v)
	if err != nil {
		return err
	}
	latest := t.Latest()
	l := latest.Layout
	l.Fields = slices.Clone(l.Fields)
	if err := f(&l); err != nil {
		return err
	}
	name := ""
	if r.PostForm.Has("template_name") {
		name = r.PostForm.Get("template_name")
	}
	_, err = p.Templates.Save(r.Context(), v.Institution(), t.UUID, template.Draft{Revision: cmp.Or(revision, latest.Revision), Name: name, Layout: l})
	return err
}

// changeField adds, changes, moves or deletes a field, or changes the properties of the template. It is for
// browsers without scripts.
func (p *Panel) changeField(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.templateOf(r, v)
	if err != nil {
		return err
	}
	f := r.PostForm
	revision, err := strconv.ParseInt(f.Get("revision"), 10, 64)
	if err != nil {
		return errForm
	}
	field := f.Get("field")
	err = p.changeLayout(r, v, revision, func(l *design.Layout) (err error) {
		field, err = p.applyField(l, t.Latest().Pages[0], field, f)
		return err
	})
	if err != nil {
		d, e := p.designerPage(r, v)
		if e != nil {
			return e
		}
		if i := slices.IndexFunc(d.Start.Layout.Fields, func(one design.Field) bool { return one.ID == field }); i >= 0 {
			d.Field = &d.Start.Layout.Fields[i]
		}
		return p.showAgain(w, r, "designer.html", d, err)
	}
	path := "templates/" + r.PathValue("template") + "/design"
	if field != "" {
		path += "?field=" + url.QueryEscape(field)
	}
	return p.redirect(w, r, v, path, "template_saved")
}

// applyField applies a form of changeField to a layout. id is the id of the field. applyField returns the id
// of the field to show next, or "". first is the first page, to which it adds new fields.
func (p *Panel) applyField(l *design.Layout, first design.Page, id string, f url.Values) (string, error) {
	switch f.Get("action") {
	case "add":
		return addField(l, first, f.Get("kind")), checkFields(l.Fields)
	case "template":
		l.Title, l.Language, l.Alt = f.Get("title"), f.Get("language"), f.Get("alt")
		return "", nil
	default:
	}
	i := slices.IndexFunc(l.Fields, func(one design.Field) bool { return one.ID == id })
	if i < 0 {
		return "", fault.New(fault.NotFound, "designer.no_field")
	}
	switch f.Get("action") {
	case "delete":
		l.Fields = slices.Delete(l.Fields, i, i+1)
		return "", nil
	case "up":
		if i > 0 {
			l.Fields[i-1], l.Fields[i] = l.Fields[i], l.Fields[i-1]
		}
		return id, nil
	case "down":
		if i+1 < len(l.Fields) {
			l.Fields[i+1], l.Fields[i] = l.Fields[i], l.Fields[i+1]
		}
		return id, nil
	default:
		return id, setField(&l.Fields[i], f)
	}
}

// addField adds a field of a kind to the first page, and returns the id of the new field.
func addField(l *design.Layout, first design.Page, kind string) string {
	id := ""
	for n := len(l.Fields) + 1; id == "" || slices.ContainsFunc(l.Fields, func(f design.Field) bool { return f.ID == id }); n++ {
		id = "f" + strconv.Itoa(n)
	}
	f := design.Field{ID: id, Kind: design.Kind(kind), Page: 1, Box: design.Box{100, 100, 240, 30}}
	switch kind {
	case "qr":
		f.Box = design.Box{60, 60, 72, 72}
	case "logo":
		f.Kind, f.Image, f.Align, f.VAlign = design.Image, "logo", "center", "middle"
	case "signature":
		f.Text, f.Box, f.Align, f.VAlign = "{signatory:1}", design.Box{100, 100, 150, 50}, "center", "bottom"
	default:
		f.Text, f.Font, f.Size, f.MinSize, f.Lines, f.Align, f.VAlign, f.Color = "{"+kind+"}", design.Font{Family: "Inter"}, 16, 8, 1, "center", "middle", "#1a1a1a"
		for i := range l.Fields {
			if family := l.Fields[i].Font.Family; family != "" {
				f.Font = l.Fields[i].Font
				break
			}
		}
		switch kind {
		case "expiry":
			f.Kind = design.Date
		case "institution":
			f.Kind = design.Text
		case "column":
			f.Text = "{column:Grade}"
		case "text":
			f.Text = "Text"
		default:
		}
	}
	f.Box = freeBox(f.Box, l.Fields, first)
	l.Fields = append(l.Fields, f)
	return id
}

// freeBox returns the box of a new field on the first page. It moves b down or up in steps of its height,
// to the first place that overlaps the fewest fields. The result is within the page.
func freeBox(b design.Box, fields []design.Field, first design.Page) design.Box {
	b[2], b[3] = min(b[2], first.Width), min(b[3], first.Height)
	b[0], b[1] = min(b[0], first.Width-b[2]), min(b[1], first.Height-b[3])
	best, fewest := b, math.MaxInt
	try := func(y float64) {
		covered := 0
		for i := range fields {
			if o := fields[i].Box; fields[i].Page == 1 && b[0] < o[0]+o[2] && o[0] < b[0]+b[2] && y < o[1]+o[3] && o[1] < y+b[3] {
				covered++
			}
		}
		if covered < fewest {
			best, fewest = design.Box{b[0], y, b[2], b[3]}, covered
		}
	}
	for y := b[1]; y+b[3] <= first.Height; y += b[3] {
		try(y)
	}
	for y := b[1] - b[3]; y >= 0; y -= b[3] {
		try(y)
	}
	return best
}

// setField sets the properties of a field to the values of a form. In the form, the position, width and
// height of the field are in millimeters.
func setField(f *design.Field, form url.Values) error {
	var bad fault.Fields
	number := func(name string, unit float64, to *float64) {
		text := strings.TrimSpace(strings.ReplaceAll(form.Get(name), ",", "."))
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			bad.Add(name, "designer.bad_number")
			return
		}
		*to = math.Round(100*n*unit) / 100
	}
	page, lines := float64(f.Page), float64(f.Lines)
	for i, name := range []string{"x", "y", "w", "h"} {
		number(name, points, &f.Box[i])
	}
	number("page", 1, &page)
	f.Page, f.Label = int(page), strings.TrimSpace(form.Get("label"))
	if f.Kind != design.QR {
		number("rotate", 1, &f.Rotate)
		f.Align, f.VAlign = form.Get("align"), form.Get("valign")
	}
	if form.Has("text") {
		f.Text = strings.ReplaceAll(form.Get("text"), "\r\n", "\n")
		number("size", 1, &f.Size)
		number("min_size", 1, &f.MinSize)
		number("lines", 1, &lines)
		number("leading", 1, &f.Leading)
		number("tracking", 1, &f.Tracking)
		f.Lines = int(lines)
		weight, err := strconv.Atoi(cmp.Or(form.Get("weight"), "400"))
		if err != nil {
			weight = 400
		}
		f.Font = design.Font{Family: form.Get("family"), Weight: weight, Italic: form.Get("italic") != ""}
		f.Color, f.Case, f.Format, f.Required = form.Get("color"), form.Get("case"), form.Get("format"), form.Get("required") != ""
		f.Language = strings.TrimSpace(form.Get("field_language"))
	}
	return bad.Err()
}
