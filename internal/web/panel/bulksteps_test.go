package panel

import (
	"bytes"
	"encoding/csv"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/sheet"
)

// beginBulk starts a bulk upload with a list and files, and saves the meanings of the columns.
func (o *panelTest) beginBulk(t *testing.T, list string, columns url.Values, files ...formFile) (draft string) {
	t.Helper()
	draft = o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
	o.followRedirect(t, "issuer", o.sendFields(draft+"/list", field{"list", []formFile{{"class.csv", []byte(list)}}}, field{"files", files}), draft+"/columns")
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", columns), draft+"/rows?show=problems")
	return draft
}

var fourColumns = url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}}

// personPage returns a PDF that contains the name of a person.
func personPage(name string) formFile {
	return formFile{strings.ToLower(name) + ".pdf", pdftest.Page(name)}
}

// On one page, rows with errors can be corrected, skipped, or assigned to a suggested file.
func TestRowsAreCorrectedTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		list := "Title,Name,Email,File\nBSc,Ada,invalid,ada.pdf\nBSc,,bea@example.org,bea.pdf\nBSc,Cy,invalid,cy.pdf\nBSc,Di Ito,di@example.org,missing.pdf\nBSc,Eli,eli@gmial.com,eli.pdf\n"
		draft := o.beginBulk(t, list, fourColumns, personPage("Ada"), personPage("Bea"), personPage("Cy"), formFile{"Ito, Di.pdf", pdftest.Page("Di Ito")}, personPage("Eli"))
		w := o.get("issuer", draft+"/rows?show=problems")
		checkPage(t, "the rows with errors", w, http.StatusOK, "Errors 4", "Row 2 Ada", "Row 3", "The name is missing.", "Row 5 Di Ito", "Use Ito, Di.pdf", "Save corrections", "Files 1 missing", "Rows 4 errors")
		for _, control := range []string{`name="r2-email" type="text" value="invalid"`, `name="r3-full_name"`, `name="r5-file"`, `name="use-r5-file" value="Ito, Di.pdf"`} {
			if !strings.Contains(w.Body.String(), control) {
				t.Errorf("the page lacks the control %s", control)
			}
		}
		if strings.Contains(w.Body.String(), `name="r2-full_name"`) {
			t.Error("the page has a control for the name in row 2, want controls only for fields with errors")
		}
		form := url.Values{"do": {"fix"}, "show": {"problems"}, "r2-email": {"ada@example.org\x00"}, "r3-full_name": {"Bea"}}
		w = o.post("issuer", draft+"/rows", form)
		checkPage(t, "a character that cannot be stored", w, http.StatusUnprocessableEntity, "one character cannot be stored", "Errors 4")
		if !strings.Contains(w.Body.String(), `name="r3-full_name" type="text" value="Bea"`) || !strings.Contains(w.Body.String(), `href="#r2-email"`) {
			t.Error("the page lacks the corrected name of row 3, or the link to the invalid address of row 2")
		}
		form = url.Values{
			"do": {"fix"}, "show": {"problems"}, "r2-email": {"ada@example.org"}, "r3-full_name": {"Bea"}, "r4-email": {"still invalid"}, "skip_row": {"4"}, "r5-file": {"missing.pdf"}, "use-r5-file": {"Ito, Di.pdf"},
		}
		w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", form), draft+"/rows?show=problems")
		checkPage(t, "after the corrections", w, http.StatusOK, "The corrections were saved. No errors are left.", "Errors 0", "To check 1", "Ready 3", "Skipped 1", "Rows 1 to check", "1 row should be checked before you continue.", "Check 1 row Continue")
		w = o.get("issuer", draft+"/rows?show=doubtful")
		checkPage(t, "rows to check", w, http.StatusOK, "To check 1", "Row 6 Eli", "Use eli@gmail.com")
		o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows", url.Values{"do": {"fix"}, "show": {"doubtful"}, "r6-email": {"eli@gmial.com"}, "use-r6-email": {"eli@gmail.com"}}), draft+"/rows?show=doubtful")
		checkPage(t, "all rows", o.get("issuer", draft+"/rows?q=ELI"), http.StatusOK, "eli@ gmail.com", "All 5")
		if text := visibleText(t, o.get("issuer", draft+"/rows?q=ELI")); strings.Contains(text, "bea@") {
			t.Errorf("the search for ELI shows another row: %s", text)
		}
	})
}

// The upload of a corrected errors.csv replaces only the rows in the file.
func TestCorrectedErrorsAreUploaded(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,invalid,bea.pdf\n", fourColumns, personPage("Ada"), personPage("Bea"))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(o.get("issuer", draft+"/errors.csv").Body.String(), "\uFEFF"))).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][5] != "This e-mail address has no @." {
		t.Fatalf("errors.csv has the rows %q, error %v; want the row of Bea with its error", rows, err)
	}
	rows[1][2] = "bea@example.org"
	var corrected bytes.Buffer
	if err := csv.NewWriter(&corrected).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	w := o.followRedirect(t, "issuer", o.sendFiles(draft+"/list", "list", formFile{"errors.csv", corrected.Bytes()}), draft+"/rows?show=problems")
	checkPage(t, "after the corrections", w, http.StatusOK, "1 row was replaced by its correction.", "No errors", "All 2")
	w = o.sendFiles(draft+"/list", "list", formFile{"errors.csv", corrected.Bytes()})
	checkPage(t, "the same file again", w, http.StatusUnprocessableEntity, "Row 3 of the list has changed since this file was downloaded", "Download errors.csv again")
	upload, err := o.BulkImports.ByUUID(t.Context(), o.inst.ID, o.people.persons["issuer"].ID, draft[strings.LastIndex(draft, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		corrected.String(): "domain.bulk_fixed_changed", "Title,Name,Email,File,Row in the list,Errors\nBSc,Bea,bea@example.org,bea.pdf,3,\n": "domain.bulk_fixed_no_code",
	} {
		_, err := o.BulkImports.Import(t.Context(), upload, "errors.csv", strings.NewReader(file))
		refusal, ok := errors.AsType[*fault.Error](err)
		if !ok || len(refusal.Fields) != 1 {
			t.Fatalf("Import() = %v, want an error of one field", err)
		}
		if key, _, _ := findDomain(refusal.Fields[0].Messages[0]); key != want {
			t.Errorf("the catalog has the message %q as %q, want %s", refusal.Fields[0].Messages[0], key, want)
		}
	}
}

// A list that is uploaded among the files becomes the list of the bulk upload. If the bulk upload already
// has a list, the uploaded list is refused.
func TestListAmongFiles(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.post("issuer", o.pathOf("bulk"), nil).Header().Get("Location")
	list := formFile{"class.csv", []byte("Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n")}
	w := o.followRedirect(t, "issuer", o.sendFiles(draft+"/files", "files", personPage("Ada"), list), draft+"/columns")
	checkPage(t, "a list among the files", w, http.StatusOK, "The list was uploaded: 1 row. The files were uploaded.", "class.csv")
	w = o.sendFiles(draft+"/files", "files", formFile{"other.XLSX", []byte("PK\x03\x04")}, personPage("Bea"))
	checkPage(t, "another list", w, http.StatusUnprocessableEntity, "“other.XLSX” is a list, not the file of a certificate. Replace the list to use it.", "bea.pdf", "All files 2", "Invalid files 0")
}

// A bulk upload is discarded only after a confirmation, which shows the name of the list.
func TestDiscardAsksForConfirmation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\n", fourColumns, personPage("Ada"))
	if body := o.get("issuer", draft).Body.String(); strings.Contains(body, `action="`+draft+`/discard"`) || !strings.Contains(body, `href="`+draft+`/discard"`) {
		t.Error("the page of the list has a form to discard the bulk upload, or has no link to the confirmation")
	}
	checkPage(t, "the confirmation", o.get("issuer", draft+"/discard"), http.StatusOK, "Discard class.csv ?", "1 row", "1 file", "This cannot be undone.", "Cancel")
	checkPage(t, "after the question", o.get("issuer", draft), http.StatusOK, "class.csv")
	w := o.followRedirect(t, "issuer", o.post("issuer", draft+"/discard", nil), o.pathOf("bulk"))
	checkPage(t, "after the confirmation", w, http.StatusOK, "The bulk upload was discarded.", "No bulk uploads yet")
	if w := o.get("issuer", draft); w.Code != http.StatusNotFound {
		t.Errorf("the discarded bulk upload: status = %d, want 404", w.Code)
	}
}

// The page of the columns and the summary show the origin of the issue dates.
func TestOriginOfTheIssueDates(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	list := "Title,Name,Email,File,Board meeting,Exam\nBSc,Ada,ada@example.org,ada.pdf,30.06.2026,01.06.2026\nBSc,Bea,bea@example.org,bea.pdf,28.06.2026,02.06.2026\n"
	draft := o.beginBulk(t, list, fourColumns, personPage("Ada"), personPage("Bea"))
	checkPage(t, "columns without a date", o.get("issuer", draft+"/columns"), http.StatusOK, "Unused columns 2", "Board meeting : 30.06.2026, 28.06.2026 This column contains dates. Is it the issue date?", "No column is used for the issue date.")
	w := o.get("issuer", draft+"/submit")
	checkPage(t, "the summary without a date", w, http.StatusOK, "All certificates get today’s date", "Choose the issue date")
	if !strings.Contains(w.Body.String(), `<section class="note wait"><h2>All certificates get today’s date`) {
		t.Error("the section about today’s date does not have the classes note and wait")
	}
	columns := url.Values{"issue_date": {"4"}}
	maps.Copy(columns, fourColumns)
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/columns", columns), draft+"/rows?show=problems")
	w = o.get("issuer", draft+"/submit")
	checkPage(t, "the summary with a date", w, http.StatusOK, "28 June 2026 – 30 June 2026 from the column Board meeting")
	if text := visibleText(t, w); strings.Contains(text, "today") {
		t.Errorf("the summary mentions today’s date although all rows have a date: %s", text)
	}
	o.post("issuer", draft+"/rows/3", url.Values{"issue_date": {""}})
	checkPage(t, "the summary with one date", o.get("issuer", draft+"/submit"), http.StatusOK, "30 June 2026 from the column Board meeting", "1 row without a date gets the date on which the list is submitted")
}

// The pages warn about a name that does not appear in the file of its row, until the name is corrected.
func TestNameThatIsNotInTheFile(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Grace Hopper,grace@example.org,hedy.pdf\n", fourColumns, personPage("Ada"), formFile{"hedy.pdf", pdftest.Page("We certify that Hedy Lamarr")})
	checkPage(t, "the rows to check", o.get("issuer", draft+"/rows?show=doubtful"), http.StatusOK, "To check 1", "Row 3 Grace Hopper", "Grace Hopper does not appear in this file.")
	checkPage(t, "the row", o.get("issuer", draft+"/rows/3"), http.StatusOK, "Grace Hopper does not appear in this file.")
	checkPage(t, "the summary", o.get("issuer", draft+"/submit"), http.StatusOK, "1 name does not appear in its file", "Row 3 , Grace Hopper : hedy.pdf", "Issue 2 certificates")
	o.post("issuer", draft+"/rows", url.Values{"do": {"fix"}, "r3-full_name": {"Hedy Lamarr"}})
	if text := visibleText(t, o.get("issuer", draft+"/submit")); strings.Contains(text, "does not appear") {
		t.Errorf("the summary warns about a corrected name: %s", text)
	}
}

// The page of a valid row has a link to the next valid row, and a button that saves only the position.
func TestPositionsRowByRow(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	list := "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,invalid,bea.pdf\nBSc,Cy,cy@example.org,cy.pdf\n"
	draft := o.beginBulk(t, list, fourColumns, personPage("Ada"), personPage("Bea"), personPage("Cy"))
	if body := o.get("issuer", draft+"/submit").Body.String(); !strings.Contains(body, `href="`+draft+`/rows/2?show=valid">Check row by row`) {
		t.Error("the summary has no link to the first valid row")
	}
	w := o.get("issuer", draft+"/rows/2?show=valid")
	checkPage(t, "the first valid row", w, http.StatusOK, "Next 1 of 2", "Use this position")
	if !strings.Contains(w.Body.String(), `href="`+draft+`/rows/4?show=valid" rel="next"`) || strings.Contains(w.Body.String(), `rel="prev"`) {
		t.Error("the page has no link to the next valid row, or has a link to a previous row")
	}
	form := url.Values{"do": {"place"}, "show": {"valid"}, "placement": {"strip"}, "email": {"ignored"}}
	w = o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/2", form), draft+"/rows/4?show=valid")
	checkPage(t, "the next valid row", w, http.StatusOK, "The position of row 2 was saved.", "Previous 2 of 2")
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/rows/4", form), draft+"/rows?show=valid")
	text := visibleText(t, o.get("issuer", draft+"/rows?show=valid"))
	if strings.Count(text, "QR code:") < 2 || !strings.Contains(text, "ada@") || strings.Contains(text, "ignored") {
		t.Errorf("the rows do not have their positions, or another field was saved: %s", text)
	}
}

// If a row has no name, the progress shows its e-mail address.
func TestRowWithoutANameIsIdentified(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,,bea@example.org,bea.pdf\n", fourColumns, personPage("Ada"), personPage("Bea"))
	o.post("issuer", draft+"/rows/3", url.Values{"do": {"skip"}})
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
	checkPage(t, "the progress", o.get("issuer", draft+"/progress"), http.StatusOK, "0 of 1 rows processed", "1 row of the list was skipped.")
	o.processUntil("the row is processed", func() bool {
		return strings.Contains(visibleText(t, o.get("issuer", draft+"/progress")), "is processed")
	})
	checkPage(t, "the result", o.get("issuer", draft+"/progress"), http.StatusOK, "The row is processed: 1 approved. 1 row of the list was skipped.", "Row 3, bea@example.org : skipped. The name is missing.")
}

// The summary states the limit of the institution that the submission would exceed. If the limit is lowered after
// the submission, the progress states it.
func TestBulkUploadAboveLimit(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	limit := func(n int64) {
		if err := o.Accounts.SetLimits(t.Context(), o.inst.ID, account.Limits{Certificates: n}); err != nil {
			t.Fatal(err)
		}
	}
	draft := o.beginBulk(t, "Title,Name,Email,File\nBSc,Ada,ada@example.org,ada.pdf\nBSc,Bea,bea@example.org,bea.pdf\n", fourColumns, personPage("Ada"), personPage("Bea"))
	const reason = "This would exceed the monthly limit of the institution “Northern & Western University” on new certificates. Limit: 1; used: 0."
	limit(1)
	w := o.get("issuer", draft+"/submit")
	checkPage(t, "the summary", w, http.StatusOK, reason)
	if strings.Contains(w.Body.String(), "Issue 2 certificates") {
		t.Error("the summary has a button to issue certificates above the limit, want a disabled one")
	}
	checkPage(t, "the refused submission", o.post("issuer", draft+"/submit", nil), http.StatusForbidden, reason)
	limit(2)
	checkPage(t, "the summary below the limit", o.get("issuer", draft+"/submit"), http.StatusOK, "Issue 2 certificates")
	o.followRedirect(t, "issuer", o.post("issuer", draft+"/submit", nil), draft+"/progress")
	limit(1)
	o.processUntil("the rows are refused", func() bool {
		return strings.Contains(visibleText(t, o.get("issuer", draft+"/progress")), "All 2 rows are processed")
	})
	checkPage(t, "the progress", o.get("issuer", draft+"/progress"), http.StatusOK,
		"Some rows could not be submitted: "+reason, "You can submit them again.", "Row 2, Ada : not submitted. "+reason)
	if csv := o.get("issuer", draft+"/results.csv").Body.String(); strings.Count(csv, reason) != 2 {
		t.Errorf("results.csv = %q, want the limit as the reason of both rows", csv)
	}
}

// The catalog has all messages of bulk uploads whose keys are built at run time.
func TestKeysOfBulkUploads(t *testing.T) {
	t.Parallel()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	english := catalog.Languages()[0]
	check := func(key string) {
		if !english.Has(key) {
			t.Errorf("the catalog has no message %s", key)
		}
	}
	for _, column := range columnLabels {
		check(column.label)
		if column.hint != "" {
			check(column.hint)
		}
	}
	for _, column := range bulkimport.Fields {
		check("bulk_field." + string(column))
	}
	for _, column := range []sheet.Column{sheet.Title, sheet.Name, sheet.Email, sheet.File} {
		check("bulk_problem.unmapped_" + string(column))
	}
	say := texts{english}
	for _, code := range []cert.Code{
		bulkimport.CodeAmbiguousDate, bulkimport.CodeLostCharacter, bulkimport.CodeNoFile, bulkimport.CodeManyFiles, bulkimport.CodeSameRow, bulkimport.CodeSkipped,
		bulkimport.CodeNoColumn, bulkimport.CodeNoDefault, bulkimport.CodeNoOrder, cert.CodeNotDate,
	} {
		p := bulkimport.Problem{Column: sheet.Name, Paths: []string{"a", "b"}, Problem: cert.Problem{Code: code}}
		if text := say.listMessage(p, "x"); strings.HasPrefix(text, "bulk_") {
			t.Errorf("the problem %s has no message", code)
		}
	}
	for name, text := range notices {
		if strings.HasPrefix(text, "bulk_") && !english.Has(text) {
			t.Errorf("the notice %s has no message", name)
		}
	}
	counted := regexp.MustCompile(`count \$?\w*(?:\.Page)? "(bulk[a-z_.]+)"|count\("(bulk[a-z_.]+)"`)
	found := 0
	for _, folder := range []string{"templates/", ""} {
		files, err := os.ReadDir("./" + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.IsDir() || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			source, err := os.ReadFile(folder + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range counted.FindAllStringSubmatch(string(source), -1) {
				found++
				check(m[1] + m[2] + "_one")
				check(m[1] + m[2] + "_many")
			}
		}
	}
	if found < 20 {
		t.Errorf("the templates and the code use %d messages about a number, want at least 20", found)
	}
}
