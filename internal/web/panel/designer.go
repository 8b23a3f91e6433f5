package panel

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxJSON is the maximum size in bytes of a request of the designer. maxDesignFields is the
	// maximum number of fields in the request.
	maxJSON         = 256 << 10
	maxDesignFields = 200
	// drawSide is the length in pixels of the longer side of the picture of a page with its fields.
	// backgroundSide is this length for the picture of a page without fields.
	drawSide       = 1800
	backgroundSide = 1600
	// points is the number of points in a millimeter.
	points = 72 / 25.4
)

var jsonLimits = &body.Limits{Size: maxJSON, TooLarge: fault.New(fault.TooLarge, "designer.too_large"), Broken: errForm}

// familyView is a font family for the designer. Group is the label of its group.
type familyView struct {
	Name  string     `json:"name"`
	Group string     `json:"group"`
	Faces []faceView `json:"faces"`
}

type faceView struct {
	Weight int  `json:"weight"`
	Italic bool `json:"italic"`
}

// families returns the font families that an institution can use, with their groups.
func (p *Panel) families(r *http.Request, v *Visit) ([]familyView, error) {
	list, err := p.Templates.Families(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	t := p.texts(r)
	views := make([]familyView, 0, len(list))
	for _, f := range list {
		one := familyView{Name: f.Name, Group: t.of("fonts.group_" + groupOf(f))}
		for _, face := range f.Faces {
			one.Faces = append(one.Faces, faceView(face))
		}
		views = append(views, one)
	}
	return views, nil
}

// groupOf returns the group of a font family. The key of its label is fonts.group_ and the group.
func groupOf(f typeset.Family) string {
	switch {
	case f.Uploaded:
		return "own"
	case f.Script != "":
		return "scripts"
	}
	return cmp.Or(string(f.Category), "serif")
}

// designerStart is the initial data of the script of the designer.
type designerStart struct {
	Base      string            `json:"base"`
	Revision  int64             `json:"revision"`
	Design    string            `json:"design"`
	Name      string            `json:"name"`
	Layout    *design.Layout    `json:"layout"`
	Pages     []design.Page     `json:"pages"`
	Families  []familyView      `json:"families"`
	Samples   []sampleView      `json:"samples"`
	Sample    string            `json:"sample"`
	Languages []string          `json:"languages"`
	Logo      bool              `json:"logo"`
	Problems  []problemView     `json:"problems"`
	Warnings  []problemView     `json:"warnings"`
	Texts     map[string]string `json:"texts"`
}

// fieldLanguages are the languages that the designer offers for texts.
var fieldLanguages = strings.Fields("am ar as bg bn bs ca cs cy da de el en es et eu fa fi fil fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko " +
	"ky lo lt lv mk ml mn mr ms my nb ne nl or pa pl pt ro ru si sk sl sq sr sv sw ta te th tr uk ur uz vi zh-Hans zh-Hant zh-HK")

// designerPage is the data of the designer. Field is the field whose form browsers without scripts show, or
// nil.
type designerPage struct {
	Visit    *Visit
	T        *template.Template
	Start    *designerStart
	Fields   []fieldView
	Field    *design.Field
	Families []familyView
	Picture  string
	// Moved are the names of the fields whose place was changed to fit a new design.
	Moved []string
	// Version is the label of the latest version. Publish is the label of the button to publish.
	Version, Publish string
}

// FieldTitle returns the name of Field, or "".
func (d *designerPage) FieldTitle() string {
	for _, f := range d.Fields {
		if d.Field != nil && f.ID == d.Field.ID {
			return f.Title
		}
	}
	return ""
}

// Kinds returns the kinds of fields that browsers without scripts can add.
func (*designerPage) Kinds() []string {
	return []string{"name", "title", "date", "expiry", "reference", "details", "column", "institution", "text", "logo", "signature", "qr"}
}

// mm converts a length from points to millimeters, for a number control.
func mm(length float64) string { return decimal(length / points) }

// decimal returns a number with at most two decimals for a number control.
func decimal(n float64) string { return strconv.FormatFloat(math.Round(100*n)/100, 'f', -1, 64) }

// versionLabels returns the label of the latest version, and the label of the button that publishes the
// draft. If there is no draft yet, the button has the number of the next version.
func (t texts) versionLabels(one *template.Template) (version, publish string) {
	latest := one.Latest()
	n := latest.Number
	if one.Draft == nil {
		version = t.of("designer.version_published", "n", t.language.Number(n))
		n++
	} else {
		version = t.of("designer.version_draft", "n", t.language.Number(n))
	}
	return version, t.of("designer.publish_version", "n", t.language.Number(n))
}

// designer shows the designer. Browsers without scripts show a form for one field at a time.
func (p *Panel) designer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.designerPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "designer.html", d)
}

func (p *Panel) designerPage(r *http.Request, v *Visit) (*designerPage, error) {
	t, err := p.templateOf(r, v)
	if err != nil {
		return nil, err
	}
	if t.ArchivedAt != nil {
		return nil, fault.New(fault.BadRequest, "designer.archived")
	}
	profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	words, latest := p.texts(r), t.Latest()
	base := v.Path("templates/" + t.UUID)
	d := &designerPage{Visit: v, T: t, Picture: base + "/picture.png?v=" + templateKey(t)}
	if d.Families, err = p.families(r, v); err != nil {
		return nil, err
	}
	d.Version, d.Publish = words.versionLabels(t)
	layout := latest.Layout
	if layout.Fields == nil {
		layout.Fields = []design.Field{}
	}
	for i := range layout.Fields {
		f := &layout.Fields[i]
		d.Fields = append(d.Fields, fieldView{f.ID, words.fieldTitle(f), "designer.kind_" + string(f.Kind), f.Text, f.Page, f.Required})
		if f.ID == r.URL.Query().Get("field") {
			d.Field = f
		}
		if slices.Contains(r.URL.Query()["moved"], f.ID) {
			d.Moved = append(d.Moved, words.fieldTitle(f))
		}
	}
	d.Start = &designerStart{
		Base: base, Revision: latest.Revision, Design: latest.DesignID(), Name: t.Name, Layout: &layout, Pages: latest.Pages, Families: d.Families,
		Samples: words.samples(), Sample: design.SampleIn(layout.Language).Name,
		Languages: fieldLanguages, Logo: profile.Logo != "", Problems: words.problemViews(layout.Check(latest.Pages), &layout),
		Warnings: words.problemViews(layout.Overlaps(latest.Pages), &layout), Texts: designerTexts(words),
	}
	return d, nil
}

// designerTexts returns the messages of the section "designer" by their keys without the section.
func designerTexts(t texts) map[string]string {
	const section = "designer"
	list := map[string]string{}
	for key, text := range t.language.Section(section) {
		list[strings.TrimPrefix(key, section+".")] = text
	}
	return list
}

// readJSON reads the JSON body of a request.
func readJSON(r *http.Request, into any) error {
	err := json.NewDecoder(r.Body).Decode(into)
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	if err != nil {
		return fault.Wrap(fault.BadRequest, errForm.Message, err)
	}
	return nil
}

func sendJSON(w http.ResponseWriter, status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails only if the client has closed the connection
	return nil
}

// sendError sends an error to the script of the designer. The response contains a message, and the problems
// of the layout l or of its values if there are any. l may be nil.
func (p *Panel) sendError(w http.ResponseWriter, r *http.Request, err error, l *design.Layout) error {
	status, message := web.Explain(w, r, err)
	t := p.texts(r)
	answer := struct {
		Message  string        `json:"message"`
		Problems []problemView `json:"problems,omitempty"`
	}{Message: t.domain(message)}
	if problems, ok := errors.AsType[design.Problems](err); ok && l != nil {
		answer.Problems = t.problemViews(problems, l)
	}
	return sendJSON(w, status, answer)
}

// checkFields returns an error if a request of the designer has too many fields.
func checkFields(fields []design.Field) error {
	if len(fields) > maxDesignFields {
		return fault.New(fault.Invalid, "designer.too_many")
	}
	return nil
}

// readDesign checks that the template in the path exists, decodes the request of the designer into in, and
// checks the number of fields. fields points to the fields of the decoded request.
func (p *Panel) readDesign(r *http.Request, v *Visit, in any, fields *[]design.Field) error {
	if _, err := p.templateOf(r, v); err != nil {
		return err
	}
	if err := readJSON(r, in); err != nil {
		return err
	}
	return checkFields(*fields)
}

// saveDesign saves the layout. If in.Revision is not the current revision, the status is 409.
func (p *Panel) saveDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	var in struct {
		Revision int64         `json:"revision"`
		Name     string        `json:"name"`
		Layout   design.Layout `json:"layout"`
	}
	if err := p.readDesign(r, v, &in, &in.Layout.Fields); err != nil {
		return p.sendError(w, r, err, nil)
	}
	t, err := p.Templates.Save(r.Context(), v.Institution(), r.PathValue("template"), template.Draft{Revision: in.Revision, Name: in.Name, Layout: in.Layout})
	if err != nil {
		return p.sendError(w, r, err, &in.Layout)
	}
	words, latest := p.texts(r), t.Latest()
	version, publish := words.versionLabels(t)
	return sendJSON(w, http.StatusOK, struct {
		Revision int64         `json:"revision"`
		Version  string        `json:"version"`
		Publish  string        `json:"publish"`
		Problems []problemView `json:"problems"`
		Warnings []problemView `json:"warnings"`
	}{latest.Revision, version, publish, words.problemViews(latest.Problems(), &latest.Layout), words.problemViews(latest.Layout.Overlaps(latest.Pages), &latest.Layout)})
}

// shapedView is the text of a field as the vault draws it.
type shapedView struct {
	D       string       `json:"d"`
	Size    float64      `json:"size"`
	Lines   int          `json:"lines"`
	Text    string       `json:"text"`
	Problem *problemView `json:"problem,omitempty"`
}

// shapeDesign sends the outlines of the texts of fields, filled with a sample or with the values in the
// request.
func (p *Panel) shapeDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	var in struct {
		Fields   []design.Field `json:"fields"`
		Language string         `json:"language"`
		Title    string         `json:"title"`
		Sample   string         `json:"sample"`
		Values   *ownValues     `json:"values"`
	}
	if err := p.readDesign(r, v, &in, &in.Fields); err != nil {
		return p.sendError(w, r, err, nil)
	}
	l := &design.Layout{Fields: in.Fields, Language: in.Language, Title: in.Title}
	values := l.Fill(p.sampleValues(in.Sample, v.Institution(), l, in.Values))
	shaped, err := p.Templates.Shape(r.Context(), v.Institution().ID, l, *values)
	if err != nil {
		return p.sendError(w, r, err, nil)
	}
	t := p.texts(r)
	shapes := make(map[string]shapedView, len(shaped))
	for i, s := range shaped {
		one := shapedView{D: s.Path, Size: s.Size, Lines: s.Lines, Text: s.Text}
		if s.Problem != nil {
			one.Problem = &problemView{Field: s.Problem.Field, Code: s.Problem.Code, Detail: s.Problem.Detail, Text: t.problemText(*s.Problem, l)}
		}
		shapes[in.Fields[i].ID] = one
	}
	return sendJSON(w, http.StatusOK, struct {
		Shapes map[string]shapedView `json:"shapes"`
	}{shapes})
}

// drawDesign sends a picture of a page of a certificate with the layout in the request, filled with a sample
// or with the values in the request.
func (p *Panel) drawDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	var in struct {
		Layout design.Layout `json:"layout"`
		Sample string        `json:"sample"`
		Values *ownValues    `json:"values"`
	}
	if err := p.readDesign(r, v, &in, &in.Layout.Fields); err != nil {
		return p.sendError(w, r, err, nil)
	}
	page, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("page"), "1"))
	if err != nil {
		page = 1
	}
	values := p.sampleValues(in.Sample, v.Institution(), &in.Layout, in.Values)
	picture, err := p.Templates.Picture(r.Context(), v.Institution(), r.PathValue("template"), &in.Layout, values, page, drawSide)
	if err != nil {
		return p.sendError(w, r, err, &in.Layout)
	}
	return sendPicture(w, r, picture)
}

// designPage sends a picture of a page of the design without fields.
func (p *Panel) designPage(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	page, side := 1, backgroundSide
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		page = n
	}
	if n, err := strconv.Atoi(q.Get("side")); err == nil {
		side = min(max(n, 64), backgroundSide)
	}
	picture, err := p.Templates.Page(r.Context(), v.Institution().ID, r.PathValue("template"), page, side)
	if err != nil {
		return err
	}
	if q.Get("v") != "" {
		return sendLasting(w, picture)
	}
	return sendPicture(w, r, picture)
}

// designPicture sends the picture of an image field: an uploaded picture, or the logo.
func (p *Panel) designPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if _, err := p.templateOf(r, v); err != nil {
		return err
	}
	file, err := p.Templates.PictureFile(r.Context(), v.Institution().ID, r.PathValue("picture"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", http.DetectContentType(file))
	h.Set("Content-Security-Policy", web.FilePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Length", strconv.Itoa(len(file)))
	_, _ = w.Write(file) // fails only if the client has closed the connection
	return nil
}

// wantsJSON reports whether the script of the designer sent the request.
func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}

// addPicture stores a picture. If a browser without scripts sends the form, addPicture also assigns the
// picture to the field in the form.
func (p *Panel) addPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if _, err := p.templateOf(r, v); err != nil {
		return err
	}
	id, field, err := p.receivePicture(r, v)
	if wantsJSON(r) {
		if err != nil {
			return p.sendError(w, r, err, nil)
		}
		return sendJSON(w, http.StatusOK, struct {
			ID string `json:"id"`
		}{id})
	}
	if err == nil {
		err = p.changeLayout(r, v, 0, func(l *design.Layout) error {
			for i := range l.Fields {
				if l.Fields[i].ID == field && l.Fields[i].Kind == design.Image {
					l.Fields[i].Image = id
				}
			}
			return nil
		})
	}
	if err != nil {
		d, e := p.designerPage(r, v)
		if e != nil {
			return e
		}
		return p.showAgain(w, r, "designer.html", d, err)
	}
	return p.redirect(w, r, v, "templates/"+r.PathValue("template")+"/design?field="+url.QueryEscape(field), "template_saved")
}

// receivePicture stores the picture of a form, and returns its id and the id of the field.
func (p *Panel) receivePicture(r *http.Request, v *Visit) (id, field string, err error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return "", "", err
	}
	for form.Next() {
		part := form.Part()
		switch {
		case part.FormName() == "field":
			field = string(part.Value(maxForm, io.Discard))
		case part.FormName() == "file" && part.FileName() != "":
			id, err = p.Templates.AddPicture(r.Context(), v.Institution(), part)
			return id, field, err
		default:
		}
	}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	return "", field, fault.OfField("picture", "templates.no_file")
}
