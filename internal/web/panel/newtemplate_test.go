package panel

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// A template from a built-in design has texts in the chosen language.
func TestLanguageOfTemplate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	w := o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "design"}, [3]string{"name", "Urkunde"}, [3]string{"design", "heritage"}, [3]string{"paper", "a4"}, [3]string{"language", "de"})
	start := o.layoutOf(t, strings.TrimSuffix(w.Header().Get("Location"), "/design"))
	if start.Layout.Language != "de" || start.Layout.Title != "Urkunde" || start.Layout.Fields[1].Label != "Institution" || start.Layout.Fields[2].Label != "Überschrift" {
		t.Errorf("layout = %+v, want the title Urkunde and German labels", start.Layout)
	}
	w = o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "design"}, [3]string{"name", "x"}, [3]string{"design", "heritage"}, [3]string{"language", "xx"})
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `id="design_language-problem"`) {
		t.Errorf("unknown language: status = %d, want 422 and a problem of the language; page %s", w.Code, visibleText(t, w))
	}
	// The form selects the language of the page.
	if page := o.get("owner", o.pathOf("templates/new")+"?lang=ar").Body.String(); !strings.Contains(page, `<option value="ar" lang="ar" selected>`) {
		t.Error("the form of the Arabic page does not select Arabic")
	}
}

// A template keeps its fields when its design is replaced. The designer names the fields that were moved.
// A form with an old revision changes nothing.
func TestReplaceDesign(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "heritage")
	form := o.get("owner", path+"/design/replace")
	if form.Code != http.StatusOK || !strings.Contains(form.Body.String(), `name="revision" value="1"`) {
		t.Fatalf("form: status = %d, want 200 and revision 1; page %s", form.Code, visibleText(t, form))
	}
	send := func(revision string) *httptest.ResponseRecorder {
		return o.sendParts(t, path+"/design/replace", "", [3]string{"from", "upload"}, [3]string{"revision", revision}, [3]string{"page", ""}, [3]string{"file", string(pdftest.Blank(400, 300)), "small.pdf"})
	}
	w := send("1")
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther || to.Path != path+"/design" || !slices.Contains(to.Query()["moved"], "qr") {
		t.Fatalf("status = %d, Location = %v, error %v, want 303 and the designer with the moved field qr; page %s", w.Code, to, err, visibleText(t, w))
	}
	page := o.get("owner", to.String())
	if !strings.Contains(page.Body.String(), "<li><bdi>QR code</bdi></li>") {
		t.Errorf("the designer does not list the moved QR code: %s", visibleText(t, page))
	}
	start := o.layoutOf(t, path)
	if start.Revision != 2 || start.Pages[0].Width != 400 || start.Name != "Diploma" {
		t.Errorf("revision = %d, pages = %v, name = %s, want revision 2, a width of 400 and Diploma", start.Revision, start.Pages, start.Name)
	}
	if w := send("1"); w.Code != http.StatusConflict {
		t.Errorf("an old revision: status = %d, want 409", w.Code)
	}
	w = o.sendParts(t, path+"/design/replace", "", [3]string{"revision", "2"}, [3]string{"from", "upload"}, [3]string{"file", "no design", "x.pdf"})
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `id="upload_file-problem"`) {
		t.Errorf("an invalid file: status = %d, want 422 and a problem of the file; page %s", w.Code, visibleText(t, w))
	}
}

// The designer shows a template with the texts of a row of a list.
func TestListInDesigner(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.newTemplate(t, "heritage")
	start := o.layoutOf(t, path)
	start.Layout.Fields[3].Text = "Grade {column:Grade}"
	if w := o.sendDesign(t, "owner", path+"/design", map[string]any{"revision": 1, "name": "Diploma", "layout": start.Layout}); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	w := o.sendParts(t, path+"/design/list", "application/json", [3]string{"list", "Name;E-Mail;Grade\nAda Obi;ada@example.org;A\nWilhelmina Montgomery;w@example.org;\n", "list.csv"})
	var list struct {
		Rows    []listedRow
		Longest int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Rows) != 2 || list.Longest != 1 || list.Rows[0].Columns["Grade"] != "A" || strings.Contains(w.Body.String(), "example.org") {
		t.Fatalf("status = %d, error %v, want two rows without e-mail addresses, the second with the longest name: %s", w.Code, err, w.Body)
	}
	for i, want := range []string{"Grade A", ""} {
		w := o.sendDesign(t, "owner", path+"/design/shape", map[string]any{"fields": start.Layout.Fields, "sample": "typical", "values": map[string]any{"row": list.Rows[i]}})
		var answer struct{ Shapes map[string]shapedView }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err, w.Body)
		}
		if got := answer.Shapes["name"].Text; got != list.Rows[i].Name {
			t.Errorf("row %d: name = %q, want %q", i, got, list.Rows[i].Name)
		}
		if got := strings.TrimSpace(answer.Shapes[start.Layout.Fields[3].ID].Text); got != want {
			t.Errorf("row %d: text = %q, want %q", i, got, want)
		}
	}
	if w := o.sendParts(t, path+"/design/list", "application/json", [3]string{"list", "Name\n", "list.csv"}); w.Code != http.StatusUnprocessableEntity || readSaved(t, w).Message == "" {
		t.Errorf("a list without rows: status = %d, want 422 and a message: %s", w.Code, w.Body)
	}
}

// The page of a template has the size of the picture that it shows. Pages of a design may have different sizes.
func TestSizeOfTemplatePictures(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	file := pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<>>>>", "<</Type/Page/Parent 2 0 R/MediaBox[0 0 842 595]/Resources<<>>>>")
	w := o.sendParts(t, o.pathOf("templates"), "", [3]string{"from", "upload"}, [3]string{"name", "X"}, [3]string{"file", string(file), "x.pdf"})
	path := strings.TrimSuffix(w.Header().Get("Location"), "/design")
	for page, want := range map[string]string{"1": `width="848" height="1200"`, "2": `width="1200" height="848"`} {
		if body := o.get("owner", path+"?page="+page).Body.String(); !strings.Contains(body, want) {
			t.Errorf("page %s: the picture does not have %s", page, want)
		}
	}
}
