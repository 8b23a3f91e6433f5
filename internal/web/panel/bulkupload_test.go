package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

var (
	classList   = field{"list", []formFile{{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,not an address,bea.pdf\n")}}}
	classFiles  = field{"files", []formFile{{"ada.pdf", vaulttest.PDF}, {"bea.pdf", vaulttest.PDF}}}
	brokenList  = field{"list", []formFile{{"class.csv", []byte("a,b\n")}}}
	brokenFiles = field{"files", []formFile{{"a.zip", []byte("no ZIP")}}}
)

// Both addresses for uploads accept a list and files. A valid list or valid files are stored even if the
// rest of the form is invalid.
func TestUploadListAndFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		begin := func() string { return o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location") }
		for _, button := range []string{"/list", "/files"} {
			draft := begin()
			w := o.followRedirect(t, "issuer", o.sendFields(draft+button, classList, classFiles), draft+"/columns")
			checkPage(t, "the list and the files "+button, w, http.StatusOK, "The list was uploaded: 2 rows. The files were uploaded.", "Columns not confirmed", "Files (done)")
			checkPage(t, "the page of the list "+button, o.get("issuer", draft), http.StatusOK, "class.csv , 2 rows", "Continue", "expires on")
			o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
			w = o.get("issuer", draft)
			checkPage(t, "after assigning the columns "+button, w, http.StatusOK, "Columns (done)", "Rows 1 error")
			if !strings.Contains(w.Body.String(), `<a class="button" href="`+draft+`/rows?show=problems">Continue</a>`) {
				t.Error("the page of the list has no link to the rows with errors")
			}

			draft = begin()
			w = o.sendFields(draft+button, brokenList, classFiles)
			checkPage(t, "an invalid list "+button, w, http.StatusUnprocessableEntity, "no rows below it", "Files (done)")
			if got := w.Header().Get(storedHeader); got != "files" {
				t.Errorf("an invalid list: stored controls = %q, want files", got)
			}
			w = o.sendFields(draft+button, classList, brokenFiles)
			checkPage(t, "an invalid ZIP "+button, w, http.StatusUnprocessableEntity, "The ZIP is damaged", "List (done)")
			if got := w.Header().Get(storedHeader); got != "list" {
				t.Errorf("an invalid ZIP: stored controls = %q, want list", got)
			}
			if w = o.sendFields(draft+button, brokenList, brokenFiles); w.Code != http.StatusUnprocessableEntity || w.Header().Get(storedHeader) != "" {
				t.Errorf("an invalid list and an invalid ZIP: status = %d, want 422; stored controls = %q, want none", w.Code, w.Header().Get(storedHeader))
			}
			o.post("issuer", draft+"/discard", nil)
		}
	})
}

// TestReloadKeepsTypedText checks that the pages of a bulk upload whose archive is being unpacked are loaded
// again by a script, which keeps what was typed, and never by a header.
func TestReloadKeepsTypedText(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newPanelTest(t, d)
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada,ada.pdf\n", fourColumns, personPage("Ada"))
	const script, withoutScript = `data-reload="3"`, `<noscript><meta http-equiv="refresh" content="3"></noscript>`
	for _, path := range []string{"/files", "/rows", "/submit"} {
		if body := o.get("issuer", draft+path).Body.String(); strings.Contains(body, script) || strings.Contains(body, withoutScript) {
			t.Errorf("%s is loaded again although no archive is being unpacked", path)
		}
	}
	if _, err := d.Writer().ExecContext(t.Context(), `
		INSERT INTO bulk_import_archives (draft_id, name, blob_key, status, entries) SELECT id, 'a.zip', 'none', 'unpacking', 2 FROM bulk_import_drafts`); err != nil {
		t.Fatal(err)
	}
	for path, hasNoFields := range map[string]bool{"/files": true, "/rows": true, "/submit": true, "/rows?show=problems": false} {
		w := o.get("issuer", draft+path)
		body := w.Body.String()
		if !strings.Contains(body, script) || strings.Contains(body, withoutScript) != hasNoFields || w.Header().Get("Refresh") != "" {
			t.Errorf("%s: loaded again by a script %v, without JavaScript %v, by a header %q; want true, %v and none", path,
				strings.Contains(body, script), strings.Contains(body, withoutScript), w.Header().Get("Refresh"), hasNoFields)
		}
	}
	w := o.post("issuer", draft+"/rows", url.Values{"do": {"fix"}, "show": {"problems"}, "title-1": {strings.Repeat("x", 300)}})
	if strings.Contains(w.Body.String(), script) {
		t.Error("the page with problems after a form is loaded again, and would submit the form again")
	}
}

// Until a file is uploaded, a missing file is not reported as a problem of its row, and the list
// cannot be submitted. After the upload, the list can be submitted when its rows have no problem.
func TestRowsWithoutFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		o.followRedirect(t, "issuer", o.sendFields(draft+"/list", classList), draft+"/columns")
		w := o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		checkPage(t, "no files", w, http.StatusOK, "No files yet 1 row is waiting for its file.", "Rows 1 error", "Errors 1", "This e-mail address has no @")
		if text := visibleText(t, w); strings.Contains(text, "was not found") || strings.Contains(text, "Skip all") {
			t.Errorf("the page reports a missing file as a problem, or has the button to skip all rows: %s", text)
		}
		checkPage(t, "a row without its file", o.get("issuer", draft+"/rows"), http.StatusOK, "Waiting for its file")
		w = o.get("issuer", draft+"/submit")
		checkPage(t, "the submission without files", w, http.StatusOK, "No files yet. Add files")
		if !strings.Contains(w.Body.String(), `<button type="submit" disabled>Issue certificates</button>`) {
			t.Error("the button to submit is not disabled without files")
		}

		w = o.sendFields(draft+"/files", classFiles)
		o.followRedirect(t, "issuer", w, draft+"/files")
		checkPage(t, "the submission with one problem", o.get("issuer", draft+"/submit"), http.StatusOK, "1 row has errors. Correct or skip")
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/3", url.Values{"email": {"bea@example.org"}}), draft+"/rows?show=problems")
		checkPage(t, "after the correction", w, http.StatusOK, "Row 3 was saved. No errors are left.")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")

		// A list whose certificates all exist cannot be submitted.
		o.processUntil("all rows are done", func() bool {
			return strings.Contains(visibleText(t, o.get("issuer", draft+"/progress")), "All 2 rows are processed: 2 approved.")
		})
		if text := visibleText(t, o.get("issuer", draft+"/progress")); strings.Contains(text, "without a certificate") || strings.Contains(text, "Correct") {
			t.Errorf("all rows became certificates, but the page lists rows without a certificate, or has the button to correct rows: %s", text)
		}
		again := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		list := field{"list", []formFile{{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")}}}
		o.followRedirect(t, "issuer", o.sendFields(again+"/list", list, classFiles), again+"/columns")
		o.followRedirect(t, "issuer", o.post("issuer", again+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), again+"/rows?show=problems")
		w = o.get("issuer", again+"/submit")
		checkPage(t, "an existing certificate", w, http.StatusOK, "Certificates to issue 0", "The remaining row already has a certificate.")
		if !strings.Contains(w.Body.String(), `<button type="submit" disabled>Issue certificates</button>`) {
			t.Error("the button to submit is not disabled for an existing certificate")
		}
		checkPage(t, "submitting an existing certificate", o.post("issuer", again+"/submit", nil), http.StatusBadRequest, "there is nothing to submit")
		o.followRedirect(t, "issuer", o.post("issuer", again+"/rows/2", url.Values{"do": {"skip"}}), again+"/rows?show=problems")
		checkPage(t, "all rows skipped", o.get("issuer", again+"/submit"), http.StatusOK, "All rows are skipped.")
	})
}
