package panel

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// checkLacks reports an error for each unwanted text that a page contains.
func checkLacks(t *testing.T, what, text string, unwanted ...string) {
	t.Helper()
	for _, part := range unwanted {
		if strings.Contains(text, part) {
			t.Errorf("%s: the page contains %q, want a page without it: %s", what, part, text)
		}
	}
}

// Rows to check are sorted by kind, with duplicates first. A person can accept all rows of a kind or one
// row, and can take back the acceptances.
func TestRowsAreCheckedByKind(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		list := "Title,Name,Email,File\nBSc,Grace Hopper,grace@example.org,hedy.pdf\nBSc,Bea Obi,bea@gmial.com,bea.pdf\nBSc,Zoë Díaz,zoe@example.org,zoe.pdf\nBSc,Zoë Díaz,zoe@example.org,zoe.pdf\n"
		draft := o.beginBulk(t, list, fourColumns, formFile{"hedy.pdf", pdftest.Page("We certify that Hedy Lamarr")}, formFile{"bea.pdf", pdftest.Page("Bea Obi")}, formFile{"zoe.pdf", pdftest.Page("Zoë Díaz")})
		w := o.get("issuer", draft+"/rows?show=doubtful")
		checkPage(t, "the rows to check", w, http.StatusOK, "To check 3", "Ready 1", "All 3 Duplicates 1 Addresses 1 Names 1", "This is the same certificate as Row 4 , Zoë Díaz .", "Skip this duplicate", "Use bea@gmail.com", "Rows 3 to check")
		text := visibleText(t, w)
		if duplicate, address, name := strings.Index(text, "Row 5 Zoë"), strings.Index(text, "Row 3 Bea"), strings.Index(text, "Row 2 Grace"); duplicate < 0 || duplicate > address || address > name {
			t.Errorf("the rows are not in the order duplicate, address, name: %s", text)
		}
		checkLacks(t, "the duplicate", text, "The same file is used by")
		if !strings.Contains(w.Body.String(), `<span class="below bulk-warning">This is the same certificate as`) {
			t.Error("the duplicate is not marked as a warning")
		}
		checkPage(t, "the errors", o.get("issuer", draft+"/rows?show=problems"), http.StatusOK, "No errors", "3 rows should be checked before you continue.", "Check 3 rows Continue")

		w = o.get("issuer", draft+"/rows?show=doubtful-names")
		checkPage(t, "the names", w, http.StatusOK, "Row 2 Grace Hopper", "Mark all as checked")
		checkLacks(t, "the names", visibleText(t, w), "Row 3", "Row 5")
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", url.Values{"do": {"accept"}, "show": {"doubtful-names"}}), draft+"/rows?show=doubtful")
		checkPage(t, "after the names", w, http.StatusOK, "1 row was marked as checked.", "To check 2", "Ready 2", "1 row is marked as checked. Check again")
		checkLacks(t, "after the names", visibleText(t, w), "Row 2 Grace")
		checkLacks(t, "the summary after the names", visibleText(t, o.get("issuer", draft+"/submit")), "does not appear")

		form := url.Values{"do": {"fix"}, "show": {"doubtful"}, "fine_row": {"3"}, "r3-email": {"bea@gmial.com"}}
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", form), draft+"/rows?show=doubtful")
		checkPage(t, "after one row", w, http.StatusOK, "To check 1", "Ready 3", "2 rows are marked as checked")
		w = o.get("issuer", draft+"/rows?show=doubtful-duplicates")
		checkPage(t, "the duplicates", w, http.StatusOK, "Skip 1 duplicate")
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", url.Values{"skip": {"duplicates"}, "show": {"doubtful"}}), draft+"/rows?show=doubtful")
		checkPage(t, "after the duplicates", w, http.StatusOK, "No rows left to check", "Skipped 1", "Rows (done)")
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", url.Values{"do": {"reopen"}}), draft+"/rows?show=doubtful")
		checkPage(t, "after checking again", w, http.StatusOK, "To check 2")
		if w := o.post("issuer", draft+"/rows", url.Values{"do": {"accept"}, "show": {"problems"}}); w.Code != http.StatusBadRequest {
			t.Errorf("accepting rows with errors: status = %d, want 400", w.Code)
		}
		// After a row is accepted, the next row is still the one that followed it in the list of rows to
		// check.
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/3", url.Values{"do": {"fine"}, "show": {"doubtful"}}), draft+"/rows/2?show=doubtful")
		checkPage(t, "the next row to check", w, http.StatusOK, "Row 3 was marked as checked.")
	})
}

// A missing file can be added on the page of the rows or on the page of its row. The file gets the name in
// the list, if there is one.
func TestFileIsAddedInItsRow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,bea@example.org,bea\nBSc,Cy,cy@example.org,\nBSc,Di,di@example.org,di.pdf\n", fourColumns, personPage("Di"))
		w := o.get("issuer", draft+"/rows?show=problems")
		checkPage(t, "the rows", w, http.StatusOK, "Errors 3", "Add this file")
		if body := w.Body.String(); !strings.Contains(body, `action="`+draft+`/rows/2/file?list=1&amp;show=problems" enctype="multipart/form-data" id="add-2"`) || strings.Contains(body, `id="add-5"`) {
			t.Error("the page lacks the form to add the file of row 2, or has a form for row 5, whose file exists")
		}
		w = o.followRedirect(t, "issuer", o.sendFiles(draft+"/rows/2/file?list=1&show=problems", "upload", formFile{"scan 17.pdf", pdftest.Page("Ada")}), draft+"/rows?show=problems")
		checkPage(t, "after the file of row 2", w, http.StatusOK, "The file of row 2 was added.", "Errors 2", "Row 3 Bea")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/rows/3/file", "upload", formFile{"scan.pdf", pdftest.Page("Bea")}), draft+"/rows/3")
		o.followRedirect(t, "issuer", o.sendFiles(draft+"/rows/4/file?list=1&show=problems", "upload", formFile{"cyril.pdf", pdftest.Page("Cy")}), draft+"/rows?show=problems")
		checkPage(t, "the files", o.get("issuer", draft+"/files"), http.StatusOK, "ada.pdf", "bea.pdf", "cyril.pdf", "All files 4", "Unused files 0")
		checkPage(t, "the rows with their files", o.get("issuer", draft+"/rows?show=ready"), http.StatusOK, "Ready 4")
		checkPage(t, "no file", o.sendFiles(draft+"/rows/2/file", "upload"), http.StatusUnprocessableEntity, "Choose the file of this row.")
	})
}

func TestWantedName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ wanted, uploaded, want string }{
		{"ada.pdf", "scan.PDF", "ada.pdf"}, {"ada.pdf", "scan.png", "ada.png"}, {"x/ada", "scan.pdf", "x/ada.pdf"}, {"Dr. Ada", "scan.pdf", "Dr. Ada.pdf"}, {"", "scan.pdf", "scan.pdf"},
	} {
		if got := wantedName(tc.wanted, tc.uploaded); got != tc.want {
			t.Errorf("wantedName(%q, %q) = %q, want %q", tc.wanted, tc.uploaded, got, tc.want)
		}
	}
}

// The page of the columns shows the number of recognized columns until the columns are saved. It shows one
// warning about a missing issue date.
func TestRecognizedColumns(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
	if body := o.get("issuer", draft).Body.String(); !strings.Contains(body, `data-both="Upload list and files"`) {
		t.Error("the button of the list lacks the label for an upload of the list and files")
	}
	list := "Title,Name,Email,File,Room\nBSc,Ada,ada@example.org,ada.pdf,12\n"
	o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"class.csv", []byte(list)}), draft+"/columns")
	w := o.get("issuer", draft+"/columns")
	checkPage(t, "the columns", w, http.StatusOK, "Recognized columns: 4 of 5.", "No column is used for the issue date.")
	if body := w.Body.String(); !strings.Contains(body, `<button type="submit" form="mapping">Save and review rows</button>`) || !strings.Contains(body, `data-date-hint hidden>`) {
		t.Error("the page lacks the button to save the columns, or does not hide the hint about the date")
	}
	o.post("issuer", draft+"/columns", fourColumns)
	checkLacks(t, "the columns after they were saved", visibleText(t, o.get("issuer", draft+"/columns")), "Recognized columns")
}

// One button saves the position and continues. The step is then done, even with the default position.
func TestPositionStepIsDone(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n", fourColumns, personPage("Ada"))
	w := o.get("issuer", draft+"/placement")
	checkPage(t, "the position", w, http.StatusOK, "Save and continue")
	if strings.Contains(w.Body.String(), `">Continue</a>`) {
		t.Error("the page also has a link to continue, want only the button")
	}
	w = o.get("issuer", draft+"/submit")
	checkLacks(t, "the steps before", visibleText(t, w), "Position (done)")
	w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/placement", url.Values{"placement": {""}}), draft+"/submit")
	checkPage(t, "the summary", w, http.StatusOK, "Position (done)", "Automatic: free space on the page")
}

// After corrections are saved, the same page of the list is shown, or the last page if there are fewer
// pages now.
func TestCorrectionsKeepThePage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	var list strings.Builder
	list.WriteString("Title,Name,Email,File\n")
	for i := range 102 {
		fmt.Fprintf(&list, "BSc,Person %d,invalid,%d.pdf\n", i, i)
	}
	draft := o.beginBulk(t, list.String(), fourColumns)
	w := o.get("issuer", draft+"/rows?show=problems&page=2")
	if !strings.Contains(w.Body.String(), `<input type="hidden" name="page" value="2">`) {
		t.Error("the form lacks the control with the number of the page")
	}
	form := url.Values{"do": {"fix"}, "show": {"problems"}, "page": {"2"}, "r102-email": {"a@example.org"}}
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", form), draft+"/rows?page=2&show=problems")
	form = url.Values{"do": {"fix"}, "show": {"problems"}, "page": {"2"}, "r103-email": {"b@example.org"}}
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", form), draft+"/rows?show=problems")
}

// The page of a row that was opened from the summary suggests an address. After a correction, it redirects
// to the summary.
func TestRowOfTheSummary(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@gmial.com,ada.pdf\n", fourColumns, personPage("Ada"))
	w := o.get("issuer", draft+"/submit")
	checkPage(t, "the summary", w, http.StatusOK, "1 e-mail address may be misspelled")
	checkLacks(t, "the summary of one row", visibleText(t, w), "Show all")
	row := o.linkTo(w, "Row 2")
	w = o.get("issuer", row)
	checkPage(t, "the row", w, http.StatusOK, "Use ada@gmail.com", "Back to summary")
	w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/2", url.Values{"from": {"summary"}, "email": {"ada@gmial.com"}, "use-email": {"ada@gmail.com"}}), draft+"/submit")
	checkLacks(t, "the summary after the correction", visibleText(t, w), "misspelled")
}

// The button that saves the position of one row comes before the picture of the page.
func TestButtonIsBesideThePosition(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n", fourColumns, personPage("Ada"))
	body := o.get("issuer", draft+"/rows/2?show=valid").Body.String()
	button, stage := strings.Index(body, `value="place">Use this position`), strings.Index(body, `class="stage"`)
	if button < 0 || button > stage {
		t.Error("the button that saves the position is missing, or comes after the picture")
	}
}

// The last event about the unpacking contains the final state of the step of the files.
func TestEventsOfUnpacking(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,bea@example.org,bea.pdf\n", fourColumns, personPage("Ada"))
	w := o.get("issuer", draft+"/events")
	if w.Header().Get("Content-Type") != "text/event-stream" || !strings.Contains(w.Body.String(), `{"state":"wrong","text":"1 missing","finished":true}`) {
		t.Errorf("the events: header %v, body %s; want an event stream with the end of the unpacking and 1 missing file", w.Header(), w.Body)
	}
}
