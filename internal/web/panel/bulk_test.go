package panel

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// staged stages a file of an institution.
func (o *panelTest) staged(inst account.Institution) string {
	o.tb.Helper()
	var staged *batch.StagedFile
	err := o.panel.Certs.Receive(o.tb.Context(), inst.UUID, cert.NewIncoming("diploma.pdf", bytes.NewReader(vaulttest.PDF)), func(f *cert.File) (err error) {
		staged, err = o.panel.Batches.Stage(o.tb.Context(), &inst, f, nil)
		return err
	})
	if err != nil {
		o.tb.Fatal(err)
	}
	return staged.UUID
}

// draft creates a bulk upload with one row. It ends earlier ones, so that they do not count toward
// the limit of open uploads.
func (o *panelTest) draft(inst account.Institution) *bulkimport.Draft {
	o.tb.Helper()
	if err := o.DB.Tx(o.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(o.tb.Context(), `UPDATE bulk_import_drafts SET expires_at = 1 WHERE institution_id = $1`, inst.ID)
		return err
	}); err != nil {
		o.tb.Fatal(err)
	}
	d, err := o.panel.BulkImports.Create(o.tb.Context(), &inst, cert.Actor{Type: "user", ID: o.maker, Name: "Sample"})
	if err != nil {
		o.tb.Fatal(err)
	}
	if err := o.panel.BulkImports.TakeList(o.tb.Context(), d, "list.csv", strings.NewReader("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")); err != nil {
		o.tb.Fatal(err)
	}
	return d
}

// sent is a file of a form.
type sent struct {
	name    string
	content []byte
}

// field is a control of a form with its files.
type field struct {
	name  string
	files []sent
}

// sendFiles submits a form with files, as the issuer.
func (o *panelTest) sendFiles(target, name string, files ...sent) *httptest.ResponseRecorder {
	o.tb.Helper()
	return o.sendFields(target, field{name, files})
}

// sendFields submits a form with several file controls.
func (o *panelTest) sendFields(target string, fields ...field) *httptest.ResponseRecorder {
	o.tb.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, one := range fields {
		for _, f := range one.files {
			part, err := form.CreateFormFile(one.name, f.name)
			if err != nil {
				o.tb.Fatal(err)
			}
			if _, err := part.Write(f.content); err != nil {
				o.tb.Fatal(err)
			}
		}
	}
	if err := form.Close(); err != nil {
		o.tb.Fatal(err)
	}
	r := o.request("issuer", http.MethodPost, target, nil)
	plain := httptest.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.String(), &b)
	plain.TLS, plain.RemoteAddr, plain.Header = r.TLS, r.RemoteAddr, r.Header
	plain.Header.Set("Content-Type", form.FormDataContentType())
	return o.send(plain)
}

func TestSingleUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		says(t, "asked", o.get("issuer", o.pathOf("upload")), http.StatusOK, "Upload a certificate", "PDF, JPG or PNG")
		says(t, "nothing", o.sendFiles(o.pathOf("upload"), "file"), http.StatusUnprocessableEntity, "Choose a PDF")
		says(t, "no PDF", o.sendFiles(o.pathOf("upload"), "file", sent{"a.pdf", []byte("no PDF")}), http.StatusUnprocessableEntity, "PDF")
		w := o.sendFiles(o.pathOf("upload"), "file", sent{"ada.pdf", vaulttest.PDF})
		page := w.Header().Get("Location")
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(page, o.pathOf("upload/")) {
			t.Fatalf("%d %s: %s", w.Code, page, words(t, w))
		}
		w = o.get("issuer", page)
		says(t, "previewed", w, http.StatusOK, "ada.pdf", "Where the QR code goes", "Bottom right", "Top left (no blank room)", "A strip below the page")
		if !strings.Contains(w.Body.String(), `class="spot"`) {
			t.Error("the place is not drawn")
		}
		if w := o.get("issuer", page+"/page.png"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		form := url.Values{"certificate_title": {"BSc"}, "full_name": {""}, "applicant_email": {"nobody"}}
		says(t, "with faults", o.post("issuer", page, form), http.StatusUnprocessableEntity, "The name is missing", "This e-mail address has no @")
		form.Set("full_name", "Ada")
		form.Set("applicant_email", "ada@example.org")
		form.Set("placement", "exact")
		says(t, "a bad place", o.post("issuer", page, form), http.StatusUnprocessableEntity, "four numbers")
		form.Set("placement", "top-left")
		w = o.post("issuer", page, form)
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), o.pathOf("certificates/")) {
			t.Fatalf("%d %s", w.Code, words(t, w))
		}
		if w := o.post("issuer", page, form); w.Code != http.StatusNotFound {
			t.Errorf("twice clicked: %d %s", w.Code, words(t, w))
		}
		var wanted, context string
		if err := d.QueryRowContext(t.Context(), `SELECT wanted_placement, trigger_context FROM certificates`).Scan(&wanted, &context); err != nil || !strings.Contains(wanted, "top-left") || context != "panel_upload" {
			t.Errorf("%s, %s, %v", wanted, context, err)
		}
		// The page warns of a duplicate before it is made.
		page = o.sendFiles(o.pathOf("upload"), "file", sent{"ada.pdf", append(vaulttest.PDF, "% other"...)}).Header().Get("Location")
		says(t, "a duplicate", o.post("issuer", page, form), http.StatusConflict, "This certificate is there already", "Look at the certificates below first")
		form.Set("applicant_email", "ada.b@example.org")
		says(t, "one alike", o.post("issuer", page, form), http.StatusConflict, "This may be there already", "I looked at what is there")
		form.Set("sure", "1")
		if w := o.post("issuer", page, form); w.Code != http.StatusSeeOther {
			t.Errorf("looked at: %d %s", w.Code, words(t, w))
		}
		// A staged file is visible only to its institution.
		page = o.sendFiles(o.pathOf("upload"), "file", sent{"b.pdf", vaulttest.PDF}).Header().Get("Location")
		if w := o.get("stranger", strings.Replace(page, o.mine.Slug, o.other.Slug, 1)); w.Code != http.StatusNotFound {
			t.Errorf("a stranger: %d", w.Code)
		}
	})
}

// placed chooses a placement for all rows, and another one for row 2.
func (o *panelTest) placed(t *testing.T, draft string) {
	t.Helper()
	w := o.get("issuer", draft+"/placement")
	says(t, "for all rows", w, http.StatusOK, "as an example", "Bottom right", "A page of its own", "As your settings say: a blank place on the page", "A blank place on the page")
	says(t, "a bad place", o.post("issuer", draft+"/placement", url.Values{"placement": {"exact"}, "x": {"a"}}), http.StatusUnprocessableEntity, "four numbers")
	says(t, "no such place", o.post("issuer", draft+"/placement", url.Values{"placement": {"middle"}}), http.StatusUnprocessableEntity, "placement must be one of")
	o.redirects(t, "issuer", o.post("issuer", draft+"/placement", url.Values{"placement": {"strip"}}), draft+"/submit")
	w = o.get("issuer", draft+"/rows/2")
	says(t, "a row", w, http.StatusOK, "As for all rows", "Where the QR code goes")
	_, rest, _ := strings.Cut(w.Body.String(), `<image href="`)
	picture, _, _ := strings.Cut(rest, `"`)
	if w := o.get("issuer", picture); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" {
		t.Errorf("the page of a row: %d %v", w.Code, w.Header())
	}
	if w := o.get("admin", picture); w.Code != http.StatusNotFound {
		t.Errorf("the page of a row to a colleague: %d", w.Code)
	}
	row := url.Values{"email": {"ada@example.org"}, "placement": {"exact"}, "x": {"500"}}
	says(t, "a bad place for a row", o.post("issuer", draft+"/rows/2", row), http.StatusUnprocessableEntity, "four numbers")
	for name, value := range map[string]string{"x": "60", "y": "80", "width": "30", "height": "15"} {
		row.Set(name, value)
	}
	o.redirects(t, "issuer", o.post("issuer", draft+"/rows/2", row), draft+"/rows?show=problems")
	w = o.get("issuer", draft+"/rows/2")
	if body := w.Body.String(); !strings.Contains(body, `id="place-exact" name="placement" value="exact" checked`) || !strings.Contains(body, `name="x" type="number" min="0" max="100" step="any" value="60.0"`) {
		t.Errorf("the place of the row is forgotten: %s", body)
	}
	says(t, "its place in the list", o.get("issuer", draft+"/rows"), http.StatusOK, "QR code: The place you chose")
	says(t, "and among all", o.get("issuer", draft+"/placement"), http.StatusOK, "1 row has a place of their own", "Row 2")
}

// A file can be removed. Its row then lacks a file, and is complete again with another file of that
// name.
func TestRemoveFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		o.redirects(t, "issuer", o.sendFiles(draft+"/list", "list", sent{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")}), draft+"/columns")
		o.redirects(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		says(t, "no files", o.get("issuer", draft+"/files"), http.StatusOK, "No files yet")
		says(t, "no place yet", o.get("issuer", draft+"/placement"), http.StatusOK, "No file to show yet")
		o.redirects(t, "issuer", o.sendFiles(draft+"/files", "files", sent{"ada.pdf", vaulttest.PDF}, sent{"other.pdf", vaulttest.PDF}), draft)
		w := o.get("issuer", draft+"/files?q=ADA")
		says(t, "files", w, http.StatusOK, "1 file of 2", "ada.pdf", "Row 2")
		says(t, "in order", o.get("issuer", draft+"/rows"), http.StatusOK, "In order 1")
		_, rest, _ := strings.Cut(w.Body.String(), `name="file" value="`)
		id, _, _ := strings.Cut(rest, `"`)
		form := url.Values{"file": {id}, "page": {"1"}, "q": {"ada"}}
		for range 2 { // a double click
			o.redirects(t, "issuer", o.post("issuer", draft+"/files/remove", form), draft+"/files?page=1&q=ada")
		}
		says(t, "gone", o.get("issuer", draft+"/files?q=ada"), http.StatusOK, "No such file")
		says(t, "missing", o.get("issuer", draft+"/rows?show=problems"), http.StatusOK, "With problems 1", "No file with the name")
		says(t, "not ready", o.post("issuer", draft+"/submit", nil), http.StatusBadRequest, "1 row has a problem")
		o.redirects(t, "issuer", o.sendFiles(draft+"/files", "files", sent{"ada.pdf", vaulttest.PDF}), draft)
		says(t, "in order again", o.get("issuer", draft+"/rows"), http.StatusOK, "In order 1")
	})
}

// Rows that would assign a certificate to another person are named and linked to each other.
func TestDoubtfulRowsAreShown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		list := "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,bea@gmial.com,ada.pdf\n"
		o.redirects(t, "issuer", o.sendFiles(draft+"/list", "list", sent{"class.csv", []byte(list)}), draft+"/columns")
		o.redirects(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		o.redirects(t, "issuer", o.sendFiles(draft+"/files", "files", sent{"ada.pdf", vaulttest.PDF}), draft)
		w := o.get("issuer", draft+"/submit")
		says(t, "before it is submitted", w, http.StatusOK, "1 file is used by several rows", "row 2, Ada ; row 3, Bea", "1 e-mail address seems misspelt", "bea@gmial.com – is gmail.com meant?", "Submit 2 certificates")
		if body := w.Body.String(); !strings.Contains(body, `href="`+draft+`/rows/3"`) || !strings.Contains(body, `<section class="note wait"><h2>1 file`) {
			t.Error("the rows are not led to")
		}
		says(t, "among the rows", o.get("issuer", draft+"/rows?show=doubtful"), http.StatusOK, "To look at 2", "Look at it", "also be that of row 3 , Bea", "Is gmail.com meant")
		says(t, "on the row", o.get("issuer", draft+"/rows/3"), http.StatusOK, "Look whether this is right", "also be that of row 2 , Ada", "Is gmail.com meant")
		o.post("issuer", draft+"/rows/3", url.Values{"do": {"skip"}})
		if text := words(t, o.get("issuer", draft+"/submit")); strings.Contains(text, "used by several") || strings.Contains(text, "misspelt") {
			t.Errorf("the skipped row is spoken of still: %s", text)
		}
	})
}

// TestBulkUpload follows all steps of a registrar, without JavaScript.
func TestBulkUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		says(t, "none yet", o.get("issuer", o.pathOf("bulk")), http.StatusOK, "No bulk uploads yet")
		w := o.post("issuer", o.pathOf("bulk"), nil)
		draft := w.Header().Get("Location")
		says(t, "begun", o.get("issuer", draft), http.StatusOK, "1. The list", "2. The files")
		says(t, "no list", o.sendFiles(draft+"/list", "list"), http.StatusUnprocessableEntity, "Choose the list first")
		says(t, "a bad list", o.sendFiles(draft+"/list", "list", sent{"a.csv", []byte("a,b\n")}), http.StatusUnprocessableEntity, "no rows below it")
		list := "Award,Person,Mail address,Document\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bob,nobody,bob.pdf\nBSc,Cy,cy@example.org,missing.pdf\nBSc,Di,di@example.org,refuse.pdf\n"
		o.redirects(t, "issuer", o.sendFiles(draft+"/list", "list", sent{"class.csv", []byte(list)}), draft+"/columns")
		says(t, "columns", o.get("issuer", draft+"/columns"), http.StatusOK, "Award: BSc,", "How dates are written")
		says(t, "columns are missing", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "email": {"2"}, "file": {"3"}}), http.StatusUnprocessableEntity, "Choose the column with the full name")
		o.redirects(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")

		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		for _, name := range []string{"diplomas/Ada.PDF", "diplomas/bob.pdf"} {
			part, err := z.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write(vaulttest.PDF); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		says(t, "a broken ZIP", o.sendFiles(draft+"/files", "files", sent{"a.zip", archive.Bytes()[:50]}), http.StatusUnprocessableEntity, "damaged")
		o.redirects(t, "issuer", o.sendFiles(draft+"/files", "files", sent{"a.zip", archive.Bytes()}, sent{"refuse.pdf", vaulttest.PDF}, sent{"other.pdf", vaulttest.PDF}, sent{"bad.pdf", nil}), draft)
		o.Until("the ZIP is unpacked", func() bool { return !strings.Contains(words(t, o.get("issuer", draft)), "is being unpacked") })
		says(t, "files", o.get("issuer", draft), http.StatusOK, "5 files", "1 cannot be used", "bad.pdf")
		says(t, "rows", o.get("issuer", draft+"/rows?show=problems"), http.StatusOK, "With problems 2", "In order 2", "This e-mail address has no @", "No file with the name", "Files that no row names", "other.pdf")
		w = o.get("issuer", draft+"/errors.csv")
		if rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll(); err != nil || len(rows) != 3 {
			t.Errorf("errors.csv: %v, %v", rows, err)
		}
		says(t, "not ready", o.post("issuer", draft+"/submit", nil), http.StatusBadRequest, "2 rows have problems")
		says(t, "corrected in vain", o.post("issuer", draft+"/rows/3", url.Values{"email": {"still nobody"}}), http.StatusOK, "This e-mail address has no @", "Row 3 was saved, but something is wrong with it still.")
		o.redirects(t, "issuer", o.post("issuer", draft+"/rows/3", url.Values{"email": {"bob@example.org"}}), draft+"/rows/4")
		o.redirects(t, "issuer", o.post("issuer", draft+"/rows/4", url.Values{"do": {"skip"}}), draft+"/rows?show=problems")
		o.placed(t, draft)
		says(t, "dry run", o.get("issuer", draft+"/submit"), http.StatusOK, "Submit 3 certificates", "2 files are not used", "A strip below the page", "1 row elsewhere")
		o.redirects(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
		o.redirects(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
		o.settleInto("all rows are done", func() bool {
			return strings.Contains(words(t, o.get("auditor", draft+"/progress")), "All 4 rows are done: 2 made, 1 failed, 1 skipped.")
		})
		says(t, "done", o.get("issuer", draft+"/progress"), http.StatusOK, "Approved 2", "Failed 1", "Skipped 1", "Retry 1 failed row", "2 rows that became no certificate",
			"Row 4 , Cy : skipped. No file with the name", "Row 5 , Di : failed.", "Correct 1 row in a new bulk upload")
		if text := words(t, o.get("auditor", draft+"/progress")); strings.Contains(text, "Correct 1 row") {
			t.Errorf("an auditor is offered to correct: %s", text)
		}
		says(t, "listed", o.get("issuer", o.pathOf("bulk")), http.StatusOK, "class.csv 4 rows Done")
		if w := o.get("auditor", draft+"/events"); w.Header().Get("Content-Type") != "text/event-stream" || !strings.Contains(w.Body.String(), `"approved":2,"failed":1,"rejected":0,"finished":true`) {
			t.Errorf("events: %v, %s", w.Header(), w.Body)
		}
		w = o.get("issuer", draft+"/results.csv")
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 5 || rows[1][5] != "approved" || rows[3][5] != "skipped" || rows[4][5] != "failed" {
			t.Errorf("results.csv: %q, %v", rows, err)
		}
		var own, all string
		if err := d.QueryRowContext(t.Context(), `SELECT min(wanted_placement), max(wanted_placement) FROM certificates`).Scan(&own, &all); err != nil ||
			own != `{"mode":"exact","page":1,"box":[0.6,0.8,0.9,0.95]}` || all != `{"mode":"strip","page":1}` {
			t.Errorf("the places of certificates: %s, %s, %v", own, all, err)
		}
		says(t, "batches", o.get("auditor", o.pathOf("batches")), http.StatusOK, "class.csv", "With errors")
		w = o.post("issuer", draft+"/again", nil)
		says(t, "again", o.get("issuer", w.Header().Get("Location")), http.StatusOK, "All 1", "Cy")
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates`).Scan(&n); err != nil || n != 3 {
			t.Errorf("%d certificates, %v", n, err)
		}
		if w := o.get("admin", w.Header().Get("Location")); w.Code != http.StatusNotFound {
			t.Errorf("a colleague sees what is in preparation: %d", w.Code)
		}
	})
}
