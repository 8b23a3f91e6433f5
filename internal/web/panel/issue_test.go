package panel

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	certtemplate "github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

// published publishes a template with the required column "Final grade", the column "Supervisor" and a
// default title. It returns the path of the page of the template.
func (o *panelTest) published(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	made, err := o.Templates.Create(ctx, certtemplate.NewTemplate{Institution: &o.inst, Name: "Diploma", BuiltIn: "letterpress"})
	if err != nil {
		t.Fatal(err)
	}
	layout := made.Draft.Layout
	for i, text := range []string{"{column:Final grade}", "{column:Supervisor}"} {
		layout.Fields = append(layout.Fields, design.Field{
			ID: fmt.Sprintf("column%d", i), Kind: design.Column, Page: 1, Box: design.Box{20, 4 + 12*float64(i), 120, 10}, Text: text,
			Font: design.Font{Family: "Inter"}, Size: 8, MinSize: 6, Required: i == 0,
		})
	}
	layout.Title = "Bachelor of Arts"
	if made, err = o.Templates.Save(ctx, &o.inst, made.UUID, certtemplate.Draft{Revision: made.Draft.Revision, Layout: layout}); err == nil {
		_, err = o.Templates.Publish(ctx, &o.inst, made.UUID, made.Draft.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.pathOf("templates/" + made.UUID)
}

// gradeControl is the name of the control for the column "Final grade".
const gradeControl = "values-46696e616c206772616465"

// A certificate can be issued with a form. The page shows each problem at its control. A request for the
// picture of the certificate creates no certificate.
func TestIssueOneCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		path := o.published(t)
		checkPage(t, "template", o.get("issuer", path), http.StatusOK, "Issue a certificate", "Issue from a list")
		body := o.get("issuer", path+"/issue").Body.String()
		for _, want := range []string{`value="Bachelor of Arts"`, `id="` + gradeControl + `"`, "Final grade", "Supervisor", `formaction="` + path + `/issue/draw.png"`} {
			if !strings.Contains(body, want) {
				t.Errorf("the form lacks %s", want)
			}
		}
		form := url.Values{"full_name": {"Zoë 𓀀"}, "applicant_email": {"zoe"}, "certificate_title": {"Bachelor of Arts"}, "issue_date": {"2026-06-30"}}
		w := o.post("issuer", path+"/issue", form)
		checkPage(t, "a form with problems", w, http.StatusUnprocessableEntity, "Name: No font of this template has the characters", "Final grade is missing", "This e-mail address has no @")
		if !strings.Contains(w.Body.String(), `id="`+gradeControl+`-problem"`) {
			t.Error("the page shows no problem at the control for the missing column")
		}
		// A picture is drawn without the text of a required column, but not with characters that no font
		// has.
		r := o.request("issuer", http.MethodPost, path+"/issue/draw.png", form)
		r.Header.Set(web.ScriptHeader, "1")
		w = o.send(r)
		var answer struct{ Problems []entryProblem }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusUnprocessableEntity || len(answer.Problems) != 1 || answer.Problems[0].Control != "full_name" {
			t.Errorf("the response to the script: status = %d, body = %s, error %v; want 422 and one problem of full_name", w.Code, w.Body, err)
		}
		checkPage(t, "the picture without a script", o.post("issuer", path+"/issue/draw.png", form), http.StatusUnprocessableEntity, "No font of this template")
		if w := o.post("issuer", path+"/issue/draw.png", url.Values{"full_name": {"Zoë"}}); w.Code != http.StatusOK || w.Body.String() != vaulttest.Picture {
			t.Errorf("the picture without a required column: status = %d, body = %.80s; want 200 and the picture", w.Code, w.Body)
		}
		form.Set("full_name", "Zoë Smith")
		form.Set("applicant_email", "zoe@example.org")
		form.Set(gradeControl, "A")
		w = o.post("issuer", path+"/issue", form)
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.HasSuffix(to, "/uploaded") {
			t.Fatalf("status = %d, Location = %q, want 303 and an address that ends in /uploaded: %s", w.Code, to, visibleText(t, w))
		}
		checkPage(t, "the page after the form", o.get("issuer", w.Header().Get("Location")), http.StatusOK, "Issuing the certificate of Zoë Smith", "Issue another")
		checkPage(t, "the number of certificates", o.get("issuer", path), http.StatusOK, "1 certificate issued")
		// If the same form is sent again, the page shows the existing certificate.
		w = o.post("issuer", path+"/issue", form)
		checkPage(t, "the same form again", w, http.StatusConflict, "This certificate already exists")
		if strings.Contains(w.Body.String(), `name="sure"`) {
			t.Error("a duplicate, which is refused in any case, can be confirmed")
		}
		if err := o.Templates.Archive(t.Context(), &o.inst, path[strings.LastIndex(path, "/")+1:]); err != nil {
			t.Fatal(err)
		}
		checkPage(t, "an archived template", o.get("issuer", path+"/issue"), http.StatusBadRequest, "is archived")
	})
}

// If another version of the template is published after the form for one certificate was loaded, the form is
// shown again with the typed values, and the certificate is issued only after another look.
func TestIssueAfterPublication(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		ctx, path := t.Context(), o.published(t)
		id := path[strings.LastIndex(path, "/")+1:]
		supervisor := controlOfField(certtemplate.ValueField("Supervisor"))
		form := url.Values{
			"full_name": {"Zoë Smith"}, "applicant_email": {"zoe@example.org"}, "certificate_title": {"Bachelor of Arts"}, "issue_date": {"2026-06-30"}, gradeControl: {"A"},
			supervisor: {"Prof. Obi"}, "version": hiddenValues(o.get("issuer", path+"/issue"), "version"),
		}
		made, err := o.Templates.ByUUID(ctx, o.inst.ID, id)
		if err != nil {
			t.Fatal(err)
		}
		layout := made.Published.Layout
		layout.Fields = slices.DeleteFunc(slices.Clone(layout.Fields), func(f design.Field) bool { return f.Text == "{column:Supervisor}" })
		if made, err = o.Templates.Save(ctx, &o.inst, id, certtemplate.Draft{Revision: made.Published.Revision, Layout: layout}); err == nil {
			_, err = o.Templates.Publish(ctx, &o.inst, id, made.Draft.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		// A form that shows problems of the picture remains the form of the old version.
		problem := maps.Clone(form)
		problem["full_name"] = []string{"Zoë 𓀀"}
		if got := hiddenValues(o.post("issuer", path+"/issue/draw.png", problem), "version"); !slices.Equal(got, form["version"]) {
			t.Errorf("version of the form after a problem of the picture = %v, want %v", got, form["version"])
		}
		w := o.post("issuer", path+"/issue", form)
		checkPage(t, "the form of the old version", w, http.StatusConflict, "Another version of the template has been published")
		if body := w.Body.String(); !strings.Contains(body, `value="Zoë Smith"`) || strings.Contains(body, supervisor) {
			t.Errorf("the form that is shown again lacks the typed name, or has the column Supervisor: %s", body)
		}
		form["version"] = hiddenValues(w, "version")
		if w := o.post("issuer", path+"/issue", form); w.Code != http.StatusSeeOther {
			t.Errorf("after another look: status = %d, want 303: %s", w.Code, visibleText(t, w))
		}
		var n int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM certificates`).Scan(&n); err != nil || n != 1 {
			t.Errorf("number of certificates = %d, error %v, want 1", n, err)
		}
	})
}

// A list for a template has no steps for files and positions. The problems of its rows can be corrected on
// the page, errors.csv contains them, and the summary shows examples of the certificates.
func TestListOfTemplate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, page := range []string{"bulk", "upload"} {
		if strings.Contains(o.get("owner", o.pathOf(page)).Body.String(), "Create certificates from a template") {
			t.Errorf("the page %s offers templates, but the institution has no template", page)
		}
	}
	path := o.published(t)
	for _, page := range []string{"bulk", "upload"} {
		checkPage(t, page, o.get("owner", o.pathOf(page)), http.StatusOK, "Create certificates from a template")
	}
	draft := o.post("owner", path+"/list", nil).Header().Get("Location")
	w := o.get("owner", draft)
	checkPage(t, "the list", w, http.StatusOK, "Diploma, version 1", "Final grade (required)", "Supervisor", "No other files are needed")
	if body := w.Body.String(); strings.Contains(body, "/files") || strings.Contains(body, "/placement") {
		t.Error("a list for a template has steps for files or positions")
	}
	if csv := o.get("owner", draft+"/example.csv").Body.String(); !strings.Contains(csv, `"Full name","E-mail","Title","Issue date","Details","Expires on","Final grade","Supervisor"`) {
		t.Errorf("example.csv = %q, want the columns of the template", csv)
	}
	workbook := o.get("owner", draft+"/example.xlsx").Body.Bytes()
	if _, err := zip.NewReader(bytes.NewReader(workbook), int64(len(workbook))); err != nil {
		t.Errorf("the workbook is invalid: %v", err)
	}
	checkPage(t, "a file", o.sendParts(t, draft+"/list", "", [3]string{"files", "%PDF-1.7", "ada.pdf"}), http.StatusBadRequest, "no files are needed")
	o.sendParts(t, draft+"/list", "", [3]string{"list", "Name,Mail,Grade of the exam\nAda Obi,ada@example.org,A\nZoë 𓀀,zoe@example.org,B\nمحمد علي,ali@example.org,C\n", "class.csv"})
	checkPage(t, "columns", o.get("owner", draft+"/columns"), http.StatusOK, "Rows without a title get “Bachelor of Arts”", "Final grade", "The template requires this text")
	columns := url.Values{"full_name": {"0"}, "email": {"1"}, "title": {"-1"}}
	checkPage(t, "a required column is missing", o.post("owner", draft+"/columns", columns), http.StatusUnprocessableEntity, "The template requires “Final grade”")
	columns.Set(gradeControl, "2")
	if w := o.post("owner", draft+"/columns", columns); w.Code != http.StatusSeeOther {
		t.Fatalf("status = %d, want 303: %s", w.Code, visibleText(t, w))
	}
	checkPage(t, "rows", o.get("owner", draft+"/rows?show=problems"), http.StatusOK, "No font of this template has the characters", "𓀀")
	if csv := o.get("owner", draft+"/errors.csv").Body.String(); !strings.Contains(csv, "No font of this template has the characters") || strings.Contains(csv, "Ada") {
		t.Errorf("errors.csv = %q, want only the row with the missing characters", csv)
	}
	fix := url.Values{"do": {"fix"}, "show": {"problems"}, "r3-full_name": {"Zoë Smith"}, "r3-" + gradeControl: {"B+"}}
	if w := o.post("owner", draft+"/rows", fix); w.Code != http.StatusSeeOther {
		t.Fatalf("status = %d, want 303: %s", w.Code, visibleText(t, w))
	}
	w = o.get("owner", draft+"/submit")
	checkPage(t, "summary", w, http.StatusOK, "Issue 3 certificates", "First row", "Longest name", "Script: Arabic", "Examples")
	if !strings.Contains(w.Body.String(), draft+"/rows/2/certificate.png?v=") {
		t.Error("the summary has no picture of the certificate of the first row")
	}
	if w := o.get("owner", draft+"/rows/3/certificate.png"); w.Code != http.StatusOK || w.Body.String() != vaulttest.Picture {
		t.Errorf("the picture of a row: status = %d, body = %.80s; want 200 and the picture", w.Code, w.Body)
	}
	checkPage(t, "row", o.get("owner", draft+"/rows/3"), http.StatusOK, "Final grade")
	if w := o.post("owner", draft+"/submit", nil); w.Code != http.StatusSeeOther {
		t.Fatalf("status = %d, want 303: %s", w.Code, visibleText(t, w))
	}
	checkPage(t, "progress", o.get("owner", draft+"/progress"), http.StatusOK, "class.csv")
	checkPage(t, "bulk uploads", o.get("owner", o.pathOf("bulk")), http.StatusOK, "From the template Diploma")
}

// Another institution cannot use a template for a certificate, a list or a picture.
func TestTemplateOfAnotherInstitution(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.published(t)
	foreign := strings.Replace(path, o.inst.Slug, o.other.Slug, 1)
	for _, target := range []string{"/issue", "/list", "/issue/draw.png"} {
		if w := o.post("outsider", foreign+target, url.Values{"full_name": {"Ada"}}); w.Code != http.StatusNotFound {
			t.Errorf("POST %s of another institution's template: status = %d, want 404", target, w.Code)
		}
	}
}
