package panel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/template"
)

func samplePNG(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 20))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sendParts sends a multipart form as the owner. Each part is a name, a value, and the name of the file
// if the value is a file.
func (o *panelTest) sendParts(t *testing.T, target, accept string, parts ...[3]string) *httptest.ResponseRecorder {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, part := range parts {
		create := form.CreateFormField
		if part[2] != "" {
			create = func(name string) (io.Writer, error) { return form.CreateFormFile(name, part[2]) }
		}
		w, err := create(part[0])
		if err == nil {
			_, err = io.WriteString(w, part[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	r := o.body(t, "owner", target, &b, form.FormDataContentType())
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return o.send(r)
}

// body returns a request of a person with a body that is not a URL-encoded form.
func (o *panelTest) body(t *testing.T, person, target string, body io.Reader, contentType string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://vault.example"+target, body)
	form := o.request(person, http.MethodPost, target, nil)
	r.Header, r.TLS, r.RemoteAddr = form.Header, form.TLS, form.RemoteAddr
	r.Header.Set("Content-Type", contentType)
	return r
}

// sendDesign sends a request of the script of the designer.
func (o *panelTest) sendDesign(t *testing.T, person, target string, content any) *httptest.ResponseRecorder {
	t.Helper()
	text, ok := content.(string)
	if !ok {
		encoded, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	r := o.body(t, person, target, strings.NewReader(text), "application/json")
	r.Header.Set("Accept", "application/json")
	return o.send(r)
}

// newTemplate creates a template from a built-in design and returns the path of the template.
func (o *panelTest) newTemplate(t *testing.T, built string) string {
	t.Helper()
	w := o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "design"}, [3]string{"name", "Diploma"}, [3]string{"design", built}, [3]string{"paper", "a4"})
	to := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther || !strings.HasSuffix(to, "/design") {
		t.Fatalf("status = %d, Location = %q, want a redirect to the designer; page %s", w.Code, to, visibleText(t, w))
	}
	return strings.TrimSuffix(to, "/design")
}

// saved is the response to a request that saves a layout or publishes a template.
type saved struct {
	Revision int64
	Message  string
	Problems []problemView
	URL      string
}

func readSaved(t *testing.T, w *httptest.ResponseRecorder) (s saved) {
	t.Helper()
	if w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("Content-Type = %q, want application/json; body %s", w.Header().Get("Content-Type"), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// layoutOf returns the data that the page of the designer contains.
func (o *panelTest) layoutOf(t *testing.T, path string) (start designerStart) {
	t.Helper()
	w := o.get("owner", path+"/design")
	m := regexp.MustCompile(`(?s)<script type="application/json" id="designer-data">(.*?)</script>`).FindSubmatch(w.Body.Bytes())
	if w.Code != http.StatusOK || m == nil {
		t.Fatalf("status = %d, want 200 and the data of the designer", w.Code)
	}
	if err := json.Unmarshal(m[1], &start); err != nil {
		t.Fatal(err)
	}
	return start
}

// A template is created from a built-in design, changed, published, exported and duplicated. The copy is
// archived, restored and deleted.
func TestTemplatePages(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if text := visibleText(t, o.get("owner", o.pathOf("templates"))); !strings.Contains(text, "No templates yet") {
		t.Errorf("the empty list shows %q, want No templates yet", text)
	}
	path := o.newTemplate(t, "letterpress")
	start := o.layoutOf(t, path)
	if start.Revision != 1 || len(start.Layout.Fields) < 5 || len(start.Families) < 5 || start.Texts["add_name"] != "Recipient" || len(start.Problems) != 0 {
		t.Fatalf("the designer starts with revision %d, %d fields, %d families, problems %v, want revision 1, at least 5 fields and families, the text Recipient, and no problems", start.Revision, len(start.Layout.Fields), len(start.Families), start.Problems)
	}
	start.Layout.Title = "Bachelor of Science"
	w := o.sendDesign(t, "owner", path+"/design", map[string]any{"revision": 1, "name": "Diploma 2026", "layout": start.Layout})
	if s := readSaved(t, w); w.Code != http.StatusOK || s.Revision != 2 {
		t.Fatalf("saving: status = %d, revision = %d, want 200 and 2", w.Code, s.Revision)
	}
	w = o.sendDesign(t, "owner", path+"/design/publish", map[string]any{"revision": 2})
	if s := readSaved(t, w); w.Code != http.StatusOK || s.URL != path || w.Header().Get("Location") != "" {
		t.Fatalf("publishing: status = %d, answer %+v, want 200, the address %s and no header Location", w.Code, s, path)
	}
	page := o.get("owner", path)
	for _, want := range []string{"Diploma 2026", "Published", "Version 1"} {
		if !strings.Contains(visibleText(t, page), want) {
			t.Errorf("the page of the template lacks %q", want)
		}
	}
	for _, name := range []string{"/picture.png", "/design/page.png?page=1", "/picture.png?page=1&sample=arabic"} {
		if w := o.get("owner", path+name); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" {
			t.Errorf("%s: status = %d, want 200 and a picture", name, w.Code)
		}
	}
	if w := o.get("issuer", path); strings.Contains(w.Body.String(), "/design") {
		t.Error("the page for an issuer has a link to the designer")
	}
	exported := o.get("owner", path+"/export")
	if exported.Code != http.StatusOK || !strings.Contains(exported.Header().Get("Content-Disposition"), ".cvtemplate") {
		t.Fatalf("exporting: status = %d, headers %v, want 200 and a .cvtemplate file", exported.Code, exported.Header())
	}
	w = o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "import"}, [3]string{"name", "Imported"}, [3]string{"file", exported.Body.String(), "diploma.cvtemplate"})
	if imported := o.layoutOf(t, strings.TrimSuffix(w.Header().Get("Location"), "/design")); imported.Name != "Imported" || imported.Layout.Title != "Bachelor of Science" {
		t.Errorf("the imported template has the name %q and the title %q, want Imported and Bachelor of Science", imported.Name, imported.Layout.Title)
	}
	copied := o.post("owner", path+"/duplicate", nil).Header().Get("Location")
	if text := visibleText(t, o.get("owner", copied)); !strings.Contains(text, "Copy of Diploma 2026") {
		t.Errorf("the copy shows %q, want Copy of Diploma 2026", text)
	}
	o.post("owner", copied+"/archive", nil)
	if text := visibleText(t, o.get("owner", o.pathOf("templates"))); strings.Contains(text, "Copy of") {
		t.Error("the list shows an archived template")
	}
	if text := visibleText(t, o.get("owner", o.pathOf("templates")+"?archived=1")); !strings.Contains(text, "Copy of") {
		t.Error("the list of archived templates lacks the template")
	}
	if w := o.get("owner", copied+"/design"); w.Code != http.StatusBadRequest {
		t.Errorf("the designer of an archived template: status = %d, want 400", w.Code)
	}
	o.post("owner", copied+"/restore", nil)
	if w := o.get("owner", copied+"/delete"); !strings.Contains(visibleText(t, w), "cannot be undone") {
		t.Error("the page does not say that deleting cannot be undone")
	}
	if w := o.post("owner", copied+"/delete", nil); w.Code != http.StatusSeeOther || o.get("owner", copied).Code != http.StatusNotFound {
		t.Error("the template was not deleted")
	}
}

// If all templates are archived, the list says so, and has the tab of the archived templates.
func TestAllTemplatesArchived(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "letterpress")
	o.post("owner", path+"/archive", nil)
	w := o.get("owner", o.pathOf("templates"))
	checkPage(t, "the list", w, http.StatusOK, "All templates are archived")
	if !strings.Contains(w.Body.String(), "?archived=1") || strings.Contains(visibleText(t, w), "No templates yet") {
		t.Error("the list lacks the tab of the archived templates, or says that there are no templates")
	}
}

// The form of a new template shows each problem at its control.
func TestNewTemplateProblems(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, one := range []struct {
		field, text string
		parts       [][3]string
	}{
		{"design_name", "The name must have", [][3]string{{"from", "design"}, {"name", " "}, {"design", "token"}}},
		{"upload_file", "Choose a file first.", [][3]string{{"from", "upload"}, {"name", "X"}}},
		{"upload_file", "The file is not a PDF, PNG or JPEG file.", [][3]string{{"from", "upload"}, {"name", "X"}, {"file", "text", "x.txt"}}},
		{"upload_file", "SVG drawing", [][3]string{{"from", "upload"}, {"name", "X"}, {"file", "<svg xmlns='http://www.w3.org/2000/svg'/>", "x.svg"}}},
		{"import_file", "is not an exported template", [][3]string{{"from", "import"}, {"file", "text", "x.cvtemplate"}}},
	} {
		w := o.sendParts(t, o.pathOf("templates"), "", one.parts...)
		if body := w.Body.String(); w.Code != http.StatusUnprocessableEntity || !strings.Contains(body, `id="`+one.field+`-problem"`) || !strings.Contains(visibleText(t, w), one.text) {
			t.Errorf("%v: status = %d, want 422 and %q at %s; page %s", one.parts, w.Code, one.text, one.field, visibleText(t, w))
		}
	}
	w := o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "upload"}, [3]string{"file", string(pdftest.Page("x")), "My design.pdf"})
	if start := o.layoutOf(t, strings.TrimSuffix(w.Header().Get("Location"), "/design")); start.Name != "My design" {
		t.Errorf("the name of the template is %q, want My design, the name of the file", start.Name)
	}
}

// The second change of the same revision gets the status 409 and overwrites nothing.
func TestDesignerRefusesOldRevision(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	layout := o.layoutOf(t, path).Layout
	for i, want := range []int{http.StatusOK, http.StatusConflict} {
		layout.Title = fmt.Sprint("Title ", i)
		if w := o.sendDesign(t, "admin", path+"/design", map[string]any{"revision": 1, "name": "Diploma", "layout": layout}); w.Code != want || readSaved(t, w).Message == "" && want == http.StatusConflict {
			t.Errorf("change %d: status = %d, want %d, and a message with 409", i, w.Code, want)
		}
	}
	if got := o.layoutOf(t, path).Layout.Title; got != "Title 0" {
		t.Errorf("the title is %q, want Title 0, the title of the first change", got)
	}
	if w := o.sendDesign(t, "owner", path+"/design/publish", map[string]any{"revision": 1}); w.Code != http.StatusConflict {
		t.Errorf("publishing an old revision: status = %d, want 409", w.Code)
	}
}

// The requests of the designer have limits. Requests from other sites are refused.
func TestDesignerLimits(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	field := design.Field{ID: "f", Kind: design.Text, Page: 1, Box: design.Box{1, 1, 10, 10}, Text: "x", Font: design.Font{Family: "Inter"}, Size: 8}
	many := make([]design.Field, maxDesignFields+1)
	for i := range many {
		many[i] = field
		many[i].ID = fmt.Sprint("f", i)
	}
	large := field
	large.Text = strings.Repeat("x", maxJSON)
	for _, one := range []struct {
		path    string
		content any
		status  int
	}{
		{"", map[string]any{"revision": 1, "layout": design.Layout{Fields: many}}, http.StatusUnprocessableEntity},
		{"/shape", map[string]any{"fields": many}, http.StatusUnprocessableEntity},
		{"/draw.png", map[string]any{"layout": design.Layout{Fields: many}}, http.StatusUnprocessableEntity},
		{"", map[string]any{"revision": 1, "layout": design.Layout{Fields: []design.Field{large}}}, http.StatusRequestEntityTooLarge},
		{"/shape", map[string]any{"fields": []design.Field{large}}, http.StatusRequestEntityTooLarge},
		{"/shape", "{", http.StatusBadRequest},
		{"/shape", `{"fields": "text"}`, http.StatusBadRequest},
	} {
		if w := o.sendDesign(t, "owner", path+"/design"+one.path, one.content); w.Code != one.status || readSaved(t, w).Message == "" {
			t.Errorf("POST design%s: status = %d, want %d with a message; body %.200s", one.path, w.Code, one.status, w.Body)
		}
	}
	for _, route := range []string{"", "/shape", "/draw.png", "/publish", "/pictures", "/fields"} {
		r := o.request("owner", http.MethodPost, path+"/design"+route, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := o.send(r); w.Code != http.StatusForbidden {
			t.Errorf("POST design%s from another site: status = %d, want 403", route, w.Code)
		}
	}
	if w := o.sendDesign(t, "issuer", path+"/design", map[string]any{"revision": 1}); w.Code != http.StatusForbidden {
		t.Errorf("saving as an issuer: status = %d, want 403", w.Code)
	}
}

// The response to POST design/shape has the outlines of the texts of the fields, with the values of a
// sample. The texts of problems are in the language of the request.
func TestDesignerShapes(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	fields := []design.Field{
		{ID: "a", Kind: design.Name, Page: 1, Box: design.Box{10, 10, 300, 40}, Text: "{name}", Font: design.Font{Family: "Inter"}, Size: 20, MinSize: 8},
		{ID: "b", Kind: design.Name, Page: 1, Box: design.Box{10, 10, 12, 40}, Text: "{name}", Font: design.Font{Family: "Inter"}, Size: 20, MinSize: 18},
		{ID: "c", Kind: design.Text, Page: 1, Box: design.Box{10, 10, 300, 40}, Text: "{institution} {reference} {column:Grade}", Font: design.Font{Family: "Inter"}, Size: 10},
	}
	shapes := func(sample string, own *ownValues) map[string]shapedView {
		w := o.sendDesign(t, "owner", path+"/design/shape?lang=de", map[string]any{"fields": fields, "sample": sample, "values": own})
		var answer struct{ Shapes map[string]shapedView }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("status = %d, error %v, want 200 and JSON", w.Code, err)
		}
		return answer.Shapes
	}
	got := shapes("typical", &ownValues{Name: "Chidinma Obi"})
	if a := got["a"]; a.Text != "Chidinma Obi" || a.Size != 20 || a.Lines != 1 || !strings.HasPrefix(a.D, "M") || a.Problem != nil {
		t.Errorf("the shape of the name is %+v, want an outline in one line of 20 pt", a)
	}
	if b := got["b"]; b.Problem == nil || b.Problem.Code != design.CodeNoRoom || !strings.Contains(b.Problem.Text, "kleinsten Größe") {
		t.Errorf("the narrow field has the problem %+v, want no_room in German", b.Problem)
	}
	if c := got["c"].Text; !strings.Contains(c, "Northern & Western University") || !strings.Contains(c, "NWU-") || !strings.Contains(c, "Grade") {
		t.Errorf("the text is %q, want the institution, its prefix and the name of the column", c)
	}
	if a := shapes("missing", nil)["a"]; a.Problem == nil || a.Problem.Code != design.CodeMissingCharacters || !strings.Contains(a.Problem.Text, "U+13000") {
		t.Errorf("the sample with a missing character has the problem %+v, want %s with U+13000", a.Problem, design.CodeMissingCharacters)
	}
	for _, s := range (texts{english(t).language}).samples() {
		if strings.HasPrefix(s.Label, "template_sample.") {
			t.Errorf("the catalog lacks %s", s.Label)
		}
	}
}

// A draft with problems cannot be published. The problems name their fields.
func TestPublishShowsProblems(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	layout := design.Layout{Fields: []design.Field{{ID: "f1", Kind: design.Text, Label: "Greeting", Page: 1, Box: design.Box{10, 10, 99, 40}, Text: "Hello {nam}", Font: design.Font{Family: "Inter"}, Size: 20}}}
	w := o.sendDesign(t, "owner", path+"/design", map[string]any{"revision": 1, "name": "Diploma", "layout": layout})
	if s := readSaved(t, w); len(s.Problems) != 3 || s.Problems[0].Field != "f1" || s.Problems[0].Code != design.CodePlaceholder || !strings.Contains(s.Problems[0].Text, "{nam}") {
		t.Errorf("the problems are %+v, want the placeholder, the missing name and the missing QR code", s.Problems)
	}
	w = o.sendDesign(t, "owner", path+"/design/publish", map[string]any{"revision": 2})
	if s := readSaved(t, w); w.Code != http.StatusUnprocessableEntity || len(s.Problems) != 3 {
		t.Errorf("publishing: status = %d, problems %+v, want 422 and the same problems", w.Code, s.Problems)
	}
	w = o.post("owner", path+"/design/publish", url.Values{"revision": {"2"}})
	if text := visibleText(t, w); w.Code != http.StatusUnprocessableEntity || !strings.Contains(text+w.Body.String(), "Greeting: There is no placeholder {nam}") {
		t.Errorf("publishing without a script: status = %d, page %s, want 422 and the problem of the field Greeting", w.Code, text)
	}
	if text := visibleText(t, o.get("owner", path)); !strings.Contains(text, "Correct these problems before you publish") || !strings.Contains(text, "exactly one QR code") {
		t.Errorf("the page of the template shows %q, want the problems", text)
	}
}

// Without a script, fields are added, changed, moved and deleted with forms.
func TestDesignerWithoutScript(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	before := o.layoutOf(t, path).Layout
	change := func(form url.Values) *httptest.ResponseRecorder {
		form.Set("revision", fmt.Sprint(o.layoutOf(t, path).Revision))
		return o.post("owner", path+"/design/fields", form)
	}
	to := change(url.Values{"action": {"add"}, "kind": {"text"}}).Header().Get("Location")
	id := strings.TrimPrefix(to, path+"/design?field=")
	if page := o.get("owner", to); !strings.Contains(page.Body.String(), `name="x"`) {
		t.Errorf("%s lacks the form of the new field", to)
	}
	form := url.Values{
		"action": {"save"}, "field": {id}, "label": {"Motto"}, "text": {"Per aspera"}, "family": {"Jost"}, "weight": {"600"}, "size": {"12,5"}, "min_size": {"8"}, "lines": {"2"}, "leading": {"1.2"},
		"tracking": {"10"}, "color": {"#102030"}, "x": {"10"}, "y": {"20"}, "w": {"100"}, "h": {"10"}, "page": {"1"}, "rotate": {"0"}, "align": {"right"}, "valign": {"top"}, "required": {"yes"},
	}
	if w := change(form); w.Code != http.StatusSeeOther {
		t.Fatalf("status = %d, want 303; page %s", w.Code, visibleText(t, w))
	}
	fields := o.layoutOf(t, path).Layout.Fields
	f := fields[len(fields)-1]
	if want := (design.Box{28.35, 56.69, 283.46, 28.35}); len(fields) != len(before.Fields)+1 || f.ID != id || f.Label != "Motto" || f.Text != "Per aspera" || f.Size != 12.5 || f.Box != want || f.Font.Weight != 600 || f.Align != "right" || !f.Required {
		t.Errorf("the field is %+v, want the values of the form", f)
	}
	form.Set("x", "left")
	if w := change(form); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "Enter a number.") {
		t.Errorf("a word as a position: status = %d, want 422 and the problem", w.Code)
	}
	change(url.Values{"action": {"up"}, "field": {id}})
	if fields := o.layoutOf(t, path).Layout.Fields; fields[len(fields)-2].ID != id {
		t.Error("the field was not moved up")
	}
	change(url.Values{"action": {"delete"}, "field": {id}})
	if fields := o.layoutOf(t, path).Layout.Fields; len(fields) != len(before.Fields) {
		t.Errorf("fields after deleting one = %d, want %d", len(fields), len(before.Fields))
	}
	if w := o.post("owner", path+"/design/fields", url.Values{"action": {"add"}, "kind": {"text"}, "revision": {"1"}}); w.Code != http.StatusConflict {
		t.Errorf("an old revision: status = %d, want 409", w.Code)
	}
}

func TestPicturesOfFields(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "token")
	w := o.sendParts(t, path+"/design/pictures", "application/json", [3]string{"file", string(samplePNG(t)), "seal.png"})
	var answer struct{ ID, Message string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || len(answer.ID) != 64 {
		t.Fatalf("status = %d, answer %s, want 200 and an id of 64 characters", w.Code, w.Body)
	}
	got := o.get("owner", path+"/design/pictures/"+answer.ID)
	if got.Header().Get("Content-Type") != "image/png" || !bytes.Equal(got.Body.Bytes(), samplePNG(t)) || !strings.Contains(got.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the picture has the headers %v, want the uploaded PNG file with a sandbox policy", got.Header())
	}
	w = o.sendParts(t, path+"/design/pictures", "application/json", [3]string{"file", "<svg/>", "seal.png"})
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusUnprocessableEntity || answer.Message == "" {
		t.Errorf("a file that is not a picture: status = %d, answer %s, want 422 and a message", w.Code, w.Body)
	}
}

// A font is stored only if the form confirms that the font may be used.
func TestFonts(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	font, err := os.ReadFile("../../typeset/testdata/SourceSerifVariable-abc.ttf")
	if err != nil {
		t.Fatal(err)
	}
	file := [3]string{"font", string(font), "serif.ttf"}
	if w := o.sendParts(t, o.pathOf("fonts"), "", file); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `id="allowed-problem"`) {
		t.Errorf("a font without the confirmation: status = %d, want 422 and the problem", w.Code)
	}
	if w := o.sendParts(t, o.pathOf("fonts"), "", [3]string{"allowed", "yes"}, [3]string{"font", "text", "serif.ttf"}); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `id="font-problem"`) {
		t.Errorf("a file that is not a font: status = %d, want 422 and the problem", w.Code)
	}
	if w := o.sendParts(t, o.pathOf("fonts"), "", [3]string{"allowed", "yes"}, file); w.Code != http.StatusSeeOther {
		t.Fatalf("status = %d, want 303; page %s", w.Code, visibleText(t, w))
	}
	list, err := o.panel.Templates.Fonts(t.Context(), o.inst.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("fonts = %v, error %v, want one", list, err)
	}
	families := o.layoutOf(t, o.newTemplate(t, "token")).Families
	if families[0].Name != list[0].Info.Family || families[0].Group != "Your fonts" {
		t.Errorf("the first family is %+v, want the uploaded font", families[0])
	}
	if text := visibleText(t, o.get("owner", o.pathOf("fonts/"+list[0].ID+"/delete"))); !strings.Contains(text, list[0].Info.Family) {
		t.Errorf("the page before deleting a font is %q, want the name of the font", text)
	}
	o.post("owner", o.pathOf("fonts/"+list[0].ID+"/delete"), nil)
	if list, err := o.panel.Templates.Fonts(t.Context(), o.inst.ID); err != nil || len(list) != 0 {
		t.Errorf("fonts = %v, error %v, want none", list, err)
	}
}

// The page of the designer and its assets are not larger than maxWeight.
func TestWeightOfTheDesigner(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "meridian")
	page := o.get("owner", path+"/design").Body.Bytes()
	total := o.weight(t, page)
	if total > maxWeight {
		t.Errorf("the designer and its assets have %d compressed bytes, want at most %d", total, maxWeight)
	}
	t.Logf("page: %d bytes, compressed %d bytes, with its assets %d bytes", len(page), compressed(t, page), total)
}

// The catalog has texts for the listed codes of problems, and for each property in fieldProperties.
func TestTextsOfTemplateProblems(t *testing.T) {
	t.Parallel()
	words, l := english(t), &design.Layout{}
	for _, code := range []string{
		design.CodeMissingCharacters, design.CodeNoRoom, design.CodeValueMissing, design.CodeValueUnknown, design.CodePlaceholder, design.CodeQRMissing, design.CodeQRTooSmall,
		design.CodeQRCovered, design.CodeNameMissing, design.CodeFieldsOverlap, template.CodeQRNotReadable, design.CodeFieldInvalid, design.CodeSignatoryMissing, template.CodeSignatoryLeft,
	} {
		if text := words.problemText(design.Problem{Code: code, Detail: "x"}, l); strings.HasPrefix(text, "template_problem.") {
			t.Errorf("the catalog lacks %s", text)
		}
	}
	// In English, the text about missing characters is the same as that of the API and the command line.
	for _, characters := range []string{"王 (U+738B)", "😀 (U+1F600)"} {
		if got, want := words.missingCharacters(characters), design.MissingCharacters(characters); got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
		if key, _, _ := findDomain(design.MissingCharacters(characters)); key == "" {
			t.Errorf("the catalog does not translate the text for %s", characters)
		}
	}
	for _, property := range fieldProperties {
		if text := words.problemText(design.Problem{Code: design.CodeFieldInvalid, Detail: property}, l); strings.HasPrefix(text, "template_problem.") {
			t.Errorf("the catalog lacks %s", text)
		}
	}
}
