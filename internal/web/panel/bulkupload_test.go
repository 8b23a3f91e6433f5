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
	classList   = field{"list", []sent{{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,nobody,bea.pdf\n")}}}
	classFiles  = field{"files", []sent{{"ada.pdf", vaulttest.PDF}, {"bea.pdf", vaulttest.PDF}}}
	brokenList  = field{"list", []sent{{"class.csv", []byte("a,b\n")}}}
	brokenFiles = field{"files", []sent{{"a.zip", []byte("no ZIP")}}}
)

// Both buttons accept all chosen files, and valid input is stored even if other input is invalid.
func TestUploadListAndFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		begin := func() string { return o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location") }
		for _, button := range []string{"/list", "/files"} {
			draft := begin()
			w := o.redirects(t, "issuer", o.sendFields(draft+button, classList, classFiles), draft+"/columns")
			says(t, "both"+button, w, http.StatusOK, "The list was read: 2 rows. The files were taken.")
			says(t, "the files"+button, o.get("issuer", draft), http.StatusOK, "class.csv , 2 rows.", "2 files .", "Go on to the columns", "ends by itself on")
			o.redirects(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
			says(t, "its columns are known"+button, o.get("issuer", draft), http.StatusOK, "Go on to the rows", "Rows (1 to correct)")

			draft = begin()
			w = o.sendFields(draft+button, brokenList, classFiles)
			says(t, "a bad list"+button, w, http.StatusUnprocessableEntity, "no rows below it", "2 files .")
			if got := w.Header().Get(takenHeader); got != "files" {
				t.Errorf("taken with a bad list: %q", got)
			}
			w = o.sendFields(draft+button, classList, brokenFiles)
			says(t, "a bad ZIP"+button, w, http.StatusUnprocessableEntity, "The ZIP is damaged", "class.csv , 2 rows.")
			if got := w.Header().Get(takenHeader); got != "list" {
				t.Errorf("taken with a bad ZIP: %q", got)
			}
			if w = o.sendFields(draft+button, brokenList, brokenFiles); w.Code != http.StatusUnprocessableEntity || w.Header().Get(takenHeader) != "" {
				t.Errorf("all is bad: %d, %q", w.Code, w.Header().Get(takenHeader))
			}
			o.post("issuer", draft+"/discard", nil)
		}
	})
}

// If there is no file yet, no row is reported as wrong for it, and nothing can be submitted.
func TestRowsWithoutFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		o.redirects(t, "issuer", o.sendFields(draft+"/list", classList), draft+"/columns")
		w := o.redirects(t, "issuer", o.post("issuer", draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), draft+"/rows?show=problems")
		says(t, "no files", w, http.StatusOK, "No files yet 1 row waits for its file.", "Rows (1 to correct)", "With problems 1", "This e-mail address has no @")
		if text := words(t, w); strings.Contains(text, "was uploaded") || strings.Contains(text, "Skip all") {
			t.Errorf("a file that is still to come is a problem: %s", text)
		}
		says(t, "one of them", o.get("issuer", draft+"/rows"), http.StatusOK, "Waits for its file")
		w = o.get("issuer", draft+"/submit")
		says(t, "nothing to submit yet", w, http.StatusOK, "No files yet: add them first")
		if !strings.Contains(w.Body.String(), `<button type="submit" disabled>Submit</button>`) {
			t.Error("it can be submitted")
		}

		w = o.sendFields(draft+"/files", classFiles)
		o.redirects(t, "issuer", w, draft)
		says(t, "one problem", o.get("issuer", draft+"/submit"), http.StatusOK, "1 row has a problem: correct or skip it")
		w = o.redirects(t, "issuer", o.post("issuer", draft+"/rows/3", url.Values{"email": {"bea@example.org"}}), draft+"/rows?show=problems")
		says(t, "corrected", w, http.StatusOK, "Row 3 was saved. No row has a problem any more.")
		o.redirects(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")

		// Existing certificates are not submitted a second time.
		o.settleInto("all rows are done", func() bool {
			return strings.Contains(words(t, o.get("issuer", draft+"/progress")), "All 2 rows are done: 2 made.")
		})
		if text := words(t, o.get("issuer", draft+"/progress")); strings.Contains(text, "became no certificate") || strings.Contains(text, "Correct") {
			t.Errorf("all became certificates, and yet: %s", text)
		}
		again := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
		list := field{"list", []sent{{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")}}}
		o.redirects(t, "issuer", o.sendFields(again+"/list", list, classFiles), again+"/columns")
		o.redirects(t, "issuer", o.post("issuer", again+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}), again+"/rows?show=problems")
		w = o.get("issuer", again+"/submit")
		says(t, "there already", w, http.StatusOK, "Certificates that will be made 0", "No certificate would come of it: the row that is left is a certificate already.")
		if !strings.Contains(w.Body.String(), `<button type="submit" disabled>Submit</button>`) {
			t.Error("what is there already can be submitted")
		}
		says(t, "submitted all the same", o.post("issuer", again+"/submit", nil), http.StatusBadRequest, "there is nothing to submit")
		o.redirects(t, "issuer", o.post("issuer", again+"/rows/2", url.Values{"do": {"skip"}}), again+"/rows?show=problems")
		says(t, "skipped", o.get("issuer", again+"/submit"), http.StatusOK, "All rows are skipped.")
	})
}
