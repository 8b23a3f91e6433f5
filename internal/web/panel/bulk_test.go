package panel

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
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

// stageFile stages a file of an institution and returns its UUID.
func (o *panelTest) stageFile(inst account.Institution) string {
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

// createDraft creates a bulk upload of an institution, with a list of one row. It first expires all other
// bulk uploads of the institution, so that they do not count toward the limit of open bulk uploads.
func (o *panelTest) createDraft(inst account.Institution) *bulkimport.Draft {
	o.tb.Helper()
	if err := o.DB.Tx(o.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(o.tb.Context(), `UPDATE bulk_import_drafts SET expires_at = 1 WHERE institution_id = $1`, inst.ID)
		return err
	}); err != nil {
		o.tb.Fatal(err)
	}
	d, err := o.panel.BulkImports.Create(o.tb.Context(), &inst, cert.Actor{Type: "user", ID: o.uploader, Name: "Sample"})
	if err != nil {
		o.tb.Fatal(err)
	}
	if err := o.panel.BulkImports.SetList(o.tb.Context(), d, "list.csv", strings.NewReader("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")); err != nil {
		o.tb.Fatal(err)
	}
	return d
}

// formFile is a file of a form.
type formFile struct {
	name    string
	content []byte
}

// field is a file control of a form with its files.
type field struct {
	name  string
	files []formFile
}

// sendFiles submits a form with one file control, as the issuer.
func (o *panelTest) sendFiles(target, name string, files ...formFile) *httptest.ResponseRecorder {
	o.tb.Helper()
	return o.sendFields(target, field{name, files})
}

// sendFields submits a form with several file controls, as the issuer.
func (o *panelTest) sendFields(target string, fields ...field) *httptest.ResponseRecorder {
	o.tb.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, control := range fields {
		for _, f := range control.files {
			part, err := form.CreateFormFile(control.name, f.name)
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
	upload := httptest.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.String(), &b)
	upload.TLS, upload.RemoteAddr, upload.Header = r.TLS, r.RemoteAddr, r.Header
	upload.Header.Set("Content-Type", form.FormDataContentType())
	return o.send(upload)
}

func TestSingleUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "the upload form", o.get("issuer", o.pathOf("upload")), http.StatusOK, "Upload a certificate", "PDF, JPG or PNG")
		checkPage(t, "no file", o.sendFiles(o.pathOf("upload"), "file"), http.StatusUnprocessableEntity, "Choose a PDF")
		checkPage(t, "an invalid file", o.sendFiles(o.pathOf("upload"), "file", formFile{"a.pdf", []byte("no PDF")}), http.StatusUnprocessableEntity, "PDF")
		w := o.sendFiles(o.pathOf("upload"), "file", formFile{"ada.pdf", vaulttest.PDF})
		page := w.Header().Get("Location")
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(page, o.pathOf("upload/")) {
			t.Fatalf("the upload: status = %d, Location = %q; want 303 and the page of the uploaded file: %s", w.Code, page, visibleText(t, w))
		}
		w = o.get("issuer", page)
		checkPage(t, "the preview", w, http.StatusOK, "ada.pdf", "Position of the QR code", "Bottom right", "Top left (no free space)", "Strip", "Issue certificate")
		if w := o.get("issuer", page+"/page.png"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("the picture: status = %d, header %v; want 200, the type image/png and a policy with sandbox", w.Code, w.Header())
		}
		form := url.Values{"certificate_title": {"BSc"}, "full_name": {""}, "applicant_email": {"not an address"}}
		checkPage(t, "invalid fields", o.post("issuer", page, form), http.StatusUnprocessableEntity, "The name is missing", "This e-mail address has no @")
		form.Set("full_name", "Ada")
		form.Set("applicant_email", "ada@example.org")
		form.Set("placement", "exact")
		checkPage(t, "an invalid placement", o.post("issuer", page, form), http.StatusUnprocessableEntity, "four numbers")
		form.Set("placement", "top-left")
		w = o.post("issuer", page, form)
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), o.pathOf("certificates/")) {
			t.Fatalf("the form: status = %d, want 303 and a redirect to the page of the result: %s", w.Code, visibleText(t, w))
		}
		checkPage(t, "the result", o.get("issuer", w.Header().Get("Location")), http.StatusOK, "Issuing the certificate of Ada", "ada@example.org is notified", "Upload another", "View certificate")
		if w := o.post("issuer", page, form); w.Code != http.StatusNotFound {
			t.Errorf("submitting the form twice: status = %d, want 404: %s", w.Code, visibleText(t, w))
		}
		var wanted, context string
		if err := d.QueryRowContext(t.Context(), `SELECT wanted_placement, trigger_context FROM certificates`).Scan(&wanted, &context); err != nil || !strings.Contains(wanted, "top-left") || context != "panel_upload" {
			t.Errorf("the certificate has the placement %s and the context %s (error %v), want top-left and panel_upload", wanted, context, err)
		}
		// If the certificate may already exist, the page shows a warning, and no certificate is created.
		page = o.sendFiles(o.pathOf("upload"), "file", formFile{"ada.pdf", append(vaulttest.PDF, "% other"...)}).Header().Get("Location")
		w = o.post("issuer", page, form)
		checkPage(t, "a duplicate", w, http.StatusConflict, "This certificate already exists", "Check the certificates below first")
		if strings.Contains(w.Body.String(), `name="sure"`) {
			t.Error("a duplicate, which is refused in any case, can be confirmed")
		}
		form.Set("applicant_email", "ada.b@example.org")
		checkPage(t, "a similar certificate", o.post("issuer", page, form), http.StatusConflict, "This certificate may already exist", "I checked these certificates")
		form.Set("sure", "1")
		if w := o.post("issuer", page, form); w.Code != http.StatusSeeOther {
			t.Errorf("the confirmed form: status = %d, want 303: %s", w.Code, visibleText(t, w))
		}
		// A staged file is visible only to its institution.
		page = o.sendFiles(o.pathOf("upload"), "file", formFile{"b.pdf", vaulttest.PDF}).Header().Get("Location")
		if w := o.get("outsider", strings.Replace(page, o.inst.Slug, o.other.Slug, 1)); w.Code != http.StatusNotFound {
			t.Errorf("a staged file for another institution: status = %d, want 404", w.Code)
		}
	})
}

// checkPlacements checks that a person can choose one placement for all rows and another placement
// for row 2.
func (o *panelTest) checkPlacements(t *testing.T, draft string) {
	t.Helper()
	w := o.get("issuer", draft+"/placement")
	checkPage(t, "the placement of all rows", w, http.StatusOK, "as an example", "Bottom right", "Extra page", "Default (free space on the page)", "Save and continue")
	if body := w.Body.String(); !strings.Contains(body, ` data-full-name="Ada" data-title="BSc"`) {
		t.Errorf("the page lacks the texts Ada and BSc for the extra page: %s", body)
	}
	checkPage(t, "an invalid placement", o.post("issuer", draft+"/placement", url.Values{"placement": {"exact"}, "x": {"a"}}), http.StatusUnprocessableEntity, "four numbers")
	checkPage(t, "an unknown placement", o.post("issuer", draft+"/placement", url.Values{"placement": {"middle"}}), http.StatusUnprocessableEntity, "placement must be one of")
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/placement", url.Values{"placement": {"strip"}}), draft+"/submit")
	w = o.get("issuer", draft+"/rows/2")
	checkPage(t, "the placement of a row", w, http.StatusOK, "Same as all rows (strip below the page)", "Position of the QR code")
	_, rest, _ := strings.Cut(w.Body.String(), `<noscript><img src="`)
	picture, _, _ := strings.Cut(rest, `"`)
	picture = html.UnescapeString(picture)
	if w := o.get("issuer", picture); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" {
		t.Errorf("the picture of a row: status = %d, header %v; want 200 and the type image/png", w.Code, w.Header())
	}
	if w := o.get("admin", picture); w.Code != http.StatusNotFound {
		t.Errorf("the picture of a row for another member: status = %d, want 404", w.Code)
	}
	row := url.Values{"email": {"ada@example.org"}, "placement": {"exact"}, "x": {"500"}}
	checkPage(t, "an invalid placement of a row", o.post("issuer", draft+"/rows/2", row), http.StatusUnprocessableEntity, "four numbers")
	for name, value := range map[string]string{"x": "60", "y": "80", "width": "30", "height": "15"} {
		row.Set(name, value)
	}
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/2", row), draft+"/rows?show=problems")
	w = o.get("issuer", draft+"/rows/2")
	if body := w.Body.String(); !strings.Contains(body, `id="place-exact" name="placement" value="exact" checked`) || !strings.Contains(body, `name="x" type="number" min="0" max="100" step="any" value="60.0"`) {
		t.Errorf("the form does not show the saved placement of the row: %s", body)
	}
	checkPage(t, "the row's placement in the list of rows", o.get("issuer", draft+"/rows"), http.StatusOK, "QR code: Custom position")
	checkPage(t, "the row's placement on the page for all rows", o.get("issuer", draft+"/placement"), http.StatusOK, "1 row has its own position", "Row 2")
}

// A list with a cell that is too long is rejected. For a stored list with long cells, the page of the columns
// is small, and the other pages are shown.
func TestPagesOfAListWithLongCellsAreSmall(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
	size, rows := 31<<20, 100
	if testing.Short() {
		size, rows = 1<<20, 10
	}
	long := strings.Repeat("&", size)
	w := o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte("Title,Name,Email,File\n" + long + ",Ada,ada@example.org,ada.pdf\n")})
	checkPage(t, "a long cell", w, http.StatusUnprocessableEntity, fmt.Sprintf("The cell in row 2, column 1 (“Title”) has %d characters", size))

	var list strings.Builder
	list.WriteString("Title,Name,Email,File,Issued,Details\n")
	for i := range rows {
		fmt.Fprintf(&list, "BSc,Ada,ada%d@example.org,ada.pdf,30.06.2026,x\n", i)
	}
	o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte(list.String())}), draft+"/columns")
	text := `"` + strings.Repeat("&@", 5000) + `"`
	o.Exec(`UPDATE bulk_import_rows SET cells = $1`, "["+strings.Repeat(text+",", 5)+text+"]")
	w = o.get("issuer", draft+"/columns")
	checkPage(t, "the columns", w, http.StatusOK, "Title: &@&@")
	if most := 200 << 10; w.Body.Len() > most {
		t.Errorf("the page of the columns has %d bytes, want at most %d", w.Body.Len(), most)
	}
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}, "issue_date": {"4"}, "details": {"5"}}),
		draft+"/rows?show=problems")
	for _, page := range []string{"/rows", "/rows/2", "/placement", "/submit"} {
		checkPage(t, page, o.get("issuer", draft+page), http.StatusOK, "class.csv")
	}
}

// After a file is removed, the row that names the file has a problem. After a file with the same name is
// added, the row is valid again.
func TestRemoveFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")}), draft+"/columns")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		checkPage(t, "no files", o.get("issuer", draft+"/files"), http.StatusOK, "No files yet")
		checkPage(t, "the placement without a file", o.get("issuer", draft+"/placement"), http.StatusOK, "No file to show yet")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/files", "files", formFile{"ada.pdf", vaulttest.PDF}, formFile{"other.pdf", vaulttest.PDF}), draft+"/files")
		w := o.get("issuer", draft+"/files?q=ADA")
		checkPage(t, "files", w, http.StatusOK, "1 file.", "ada.pdf", "Row 2")
		checkPage(t, "valid rows", o.get("issuer", draft+"/rows"), http.StatusOK, "To check 1", "Ready 0")
		_, rest, _ := strings.Cut(w.Body.String(), `name="file" value="`)
		id, _, _ := strings.Cut(rest, `"`)
		form := url.Values{"file": {id}, "page": {"1"}, "q": {"ada"}}
		for range 2 { // a double click
			o.followRedirect(t, "issuer", o.post("issuer", draft+"/files/remove", form), draft+"/files?page=1&q=ada")
		}
		checkPage(t, "after removing the file", o.get("issuer", draft+"/files?q=ada"), http.StatusOK, "No file matches")
		checkPage(t, "the row without its file", o.get("issuer", draft+"/rows?show=problems"), http.StatusOK, "Errors 1", "The file “ada.pdf” was not found.")
		checkPage(t, "submitting rows with problems", o.post("issuer", draft+"/submit", nil), http.StatusBadRequest, "1 row has errors")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/files", "files", formFile{"ada.pdf", vaulttest.PDF}), draft+"/files")
		checkPage(t, "after adding the file again", o.get("issuer", draft+"/rows"), http.StatusOK, "To check 1", "Ready 0")
	})
}

// The pages show warnings about rows that may assign a certificate to the wrong person. Skipped rows cause
// no warnings.
func TestDoubtfulRowsAreShown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		list := "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,bea@gmial.com,ada.pdf\n"
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte(list)}), draft+"/columns")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/files", "files", formFile{"ada.pdf", vaulttest.PDF}), draft+"/files")
		w := o.get("issuer", draft+"/submit")
		checkPage(t, "the page before the submission", w, http.StatusOK, "1 file is used by several rows", "Row 2 , Ada ; Row 3 , Bea", "1 e-mail address may be misspelled", "bea@gmial.com . Did you mean gmail.com in the e-mail address?", "Issue 2 certificates")
		if body := w.Body.String(); !strings.Contains(body, `href="`+draft+`/rows/3?from=summary"`) || !strings.Contains(body, `<section class="note wait"><h2>1 file`) {
			t.Error("the page lacks the link to row 3 or the section about the file that several rows use")
		}
		checkPage(t, "the list of doubtful rows", o.get("issuer", draft+"/rows?show=doubtful"), http.StatusOK, "To check 2", "The same file is used by Row 3 , Bea", "Did you mean gmail.com")
		checkPage(t, "the form of a doubtful row", o.get("issuer", draft+"/rows/3"), http.StatusOK, "Please check this row.", "The same file is used by Row 2 , Ada", "Did you mean gmail.com")
		o.post("issuer", draft+"/rows/3", url.Values{"do": {"skip"}})
		if text := visibleText(t, o.get("issuer", draft+"/submit")); strings.Contains(text, "used by several") || strings.Contains(text, "misspelled") {
			t.Errorf("the page still shows a warning after the row was skipped: %s", text)
		}
	})
}

// TestBulkUpload performs all steps of a bulk upload, without the scripts of the pages.
func TestBulkUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "no bulk uploads", o.get("issuer", o.pathOf("bulk")), http.StatusOK, "No bulk uploads yet")
		w := o.post("issuer", o.pathOf("bulk"), nil)
		draft := w.Header().Get("Location")
		checkPage(t, "a new bulk upload", o.get("issuer", draft), http.StatusOK, "Upload the list", "Files (optional)", "List missing")
		checkPage(t, "no list", o.sendFiles(draft+"/list", "list"), http.StatusUnprocessableEntity, "Choose the list.")
		checkPage(t, "an invalid list", o.sendFiles(draft+"/list", "list", formFile{"a.csv", []byte("a,b\n")}), http.StatusUnprocessableEntity, "no rows below it")
		list := "Award,Person,Mail address,Document\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bob,not an address,bob.pdf\nBSc,Cy,cy@example.org,missing.pdf\nBSc,Di,di@example.org,refuse.pdf\n"
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte(list)}), draft+"/columns")
		checkPage(t, "columns", o.get("issuer", draft+"/columns"), http.StatusOK, "Award: BSc", "Date format", "No column is used for the issue date.")
		checkPage(t, "missing columns", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "email": {"2"}, "file": {"3"}}), http.StatusUnprocessableEntity, "Choose the column with the full name")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")

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
		checkPage(t, "a broken ZIP", o.sendFiles(draft+"/files", "files", formFile{"a.zip", archive.Bytes()[:50]}), http.StatusUnprocessableEntity, "damaged")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/files", "files", formFile{"a.zip", archive.Bytes()}, formFile{"refuse.pdf", vaulttest.PDF}, formFile{"other.pdf", vaulttest.PDF}, formFile{"bad.pdf", nil}), draft+"/files")
		o.Until("the ZIP is unpacked", func() bool { return !strings.Contains(visibleText(t, o.get("issuer", draft+"/files")), "Unpacking") })
		checkPage(t, "files", o.get("issuer", draft+"/files?show=refused"), http.StatusOK, "All files 5", "Invalid files 1", "bad.pdf", "Missing files 1", "Row 4 , Cy : missing.pdf", "Files 1 missing")
		checkPage(t, "rows", o.get("issuer", draft+"/rows?show=problems"), http.StatusOK, "Errors 2", "To check 2", "Ready 0", "This e-mail address has no @", "The file “missing.pdf” was not found.", "2 files are not used by any row.", "Rows 2 errors")
		checkPage(t, "unused files", o.get("issuer", draft+"/files?show=unused"), http.StatusOK, "other.pdf")
		w = o.get("issuer", draft+"/errors.csv")
		if rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll(); err != nil || len(rows) != 3 {
			t.Errorf("errors.csv: rows %v, error %v; want the heading and 2 rows", rows, err)
		}
		checkPage(t, "submitting rows with problems", o.post("issuer", draft+"/submit", nil), http.StatusBadRequest, "2 rows have errors")
		checkPage(t, "an invalid correction", o.post("issuer", draft+"/rows/3", url.Values{"email": {"still no address"}}), http.StatusOK, "This e-mail address has no @", "Row 3 was saved, but it still has errors.")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/3", url.Values{"email": {"bob@example.org"}}), draft+"/rows/4")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/4", url.Values{"do": {"skip"}}), draft+"/rows?show=problems")
		o.checkPlacements(t, draft)
		checkPage(t, "dry run", o.get("issuer", draft+"/submit"), http.StatusOK, "Issue 3 certificates", "2 unused files", "Strip below the page", "1 row has its own position", "All certificates get today’s date")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
		o.processUntil("all rows are done", func() bool {
			return strings.Contains(visibleText(t, o.get("auditor", draft+"/progress")), "All 3 rows are processed: 2 approved, 1 failed. 1 row of the list was skipped.")
		})
		checkPage(t, "a finished bulk upload", o.get("issuer", draft+"/progress"), http.StatusOK, "Rows to issue 3", "Approved 2", "Failed 1", "Skipped 1", "Retry 1 failed row", "2 rows without a certificate",
			"Row 4, Cy : skipped. The file “missing.pdf” was not found.", "Row 5, Di : failed.", "Correct 1 row in a new bulk upload")
		if text := visibleText(t, o.get("auditor", draft+"/progress")); strings.Contains(text, "Correct 1 row") {
			t.Errorf("the page for an auditor has the button to correct rows: %s", text)
		}
		checkPage(t, "the list of bulk uploads", o.get("issuer", o.pathOf("bulk")), http.StatusOK, "class.csv 4 rows Done")
		if w := o.get("auditor", draft+"/events"); w.Header().Get("Content-Type") != "text/event-stream" || !strings.Contains(w.Body.String(), `"approved":2,"failed":1,"rejected":0,"finished":true`) {
			t.Errorf("the event stream: header %v, body %s; want the type text/event-stream and a finished upload with 2 approved and 1 failed", w.Header(), w.Body)
		}
		w = o.get("issuer", draft+"/results.csv")
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 5 || rows[1][5] != "approved" || rows[3][5] != "skipped" || rows[4][5] != "failed" {
			t.Errorf("results.csv: rows %q, error %v; want the heading and 4 rows, of which the first is approved, the third skipped and the fourth failed", rows, err)
		}
		var ofRow, ofAll string
		if err := d.QueryRowContext(t.Context(), `SELECT min(wanted_placement), max(wanted_placement) FROM certificates`).Scan(&ofRow, &ofAll); err != nil ||
			ofRow != `{"mode":"exact","page":1,"box":[0.6,0.8,0.9,0.95]}` || ofAll != `{"mode":"strip","page":1}` {
			t.Errorf("the certificates have the placements %s and %s (error %v), want the exact box of row 2 and a strip", ofRow, ofAll, err)
		}
		checkPage(t, "batches", o.get("auditor", o.pathOf("batches")), http.StatusOK, "class.csv", "With errors")
		w = o.post("issuer", draft+"/again", nil)
		checkPage(t, "a new bulk upload with the remaining rows", o.get("issuer", w.Header().Get("Location")), http.StatusOK, "All 1", "Cy")
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates`).Scan(&n); err != nil || n != 3 {
			t.Errorf("got %d certificates, error %v; want 3", n, err)
		}
		if w := o.get("admin", w.Header().Get("Location")); w.Code != http.StatusNotFound {
			t.Errorf("an open bulk upload for another member: status = %d, want 404", w.Code)
		}
	})
}
