package bulkimport_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// Suggest recognizes the column with the names of the uploaded files, even if the files were added after
// the list.
func TestColumnsAreRecognisedByTheFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.create()
		k.ok(k.SetList(t.Context(), draft, "x.csv", strings.NewReader("Degree,Person,Contact,No,Born,Board meeting\nBSc,Ada Obi,ada@example.org,7001,2001-02-03,30.06.2026\nBSc,Bea Roth,bea@example.org,7002,2002-03-04,30.06.2026\n")))
		k.file(draft, "7001.pdf")
		if got := fmt.Sprint(k.review(draft).Suggest().Columns); got != "map[email:2 full_name:1 issue_date:5 title:0]" {
			t.Errorf("with one of two files the suggestion is %s, want no column of files", got)
		}
		k.file(draft, "7002.pdf")
		v := k.review(draft)
		if got := fmt.Sprint(v.Suggest().Columns); got != "map[email:2 file:3 full_name:1 issue_date:5 title:0]" {
			t.Errorf("with both files the suggestion is %s, want also the column of files", got)
		}
		m := v.Suggest()
		if got := fmt.Sprint(v.UnusedColumns(m)); got != "[{4 false}]" {
			t.Errorf("the unused columns are %s, want only the dates of birth", got)
		}
		delete(m.Columns, sheet.IssueDate)
		if got := fmt.Sprint(v.UnusedColumns(m)); got != "[{4 false} {5 true}]" {
			t.Errorf("without a column for the date of issue the unused columns are %s, want the last one with Dates = true", got)
		}
		k.ok(k.SetMapping(t.Context(), k.reload(draft), m))
		if got := fmt.Sprint(k.review(draft).Suggest().Columns); got != "map[email:2 file:3 full_name:1 title:0]" {
			t.Errorf("after the confirmation the suggestion is %s, want the confirmed columns", got)
		}
	})
}

func TestDateOrigins(t *testing.T) {
	t.Parallel()
	k := newFixture(t, dbtest.SQLite(t))
	draft := k.create()
	k.file(draft, "a.pdf")
	list := "Title,Name,Email,File,Date\nBSc,Ada,a@example.org,a.pdf,30.06.2026\nBSc,Bea,b@example.org,a.pdf,28.02.2026\nBSc,Cy,c@example.org,a.pdf,\nBSc,Di,d@example.org,a.pdf,\nBSc,Eli,invalid,a.pdf,\n"
	draft = k.list(draft, list)
	k.ok(k.Fix(t.Context(), draft, 4, map[sheet.Column]string{sheet.IssueDate: "1 July 2026"}))
	today := cert.Today(k.Now())
	want := bulkimport.DateOrigins{List: 2, Corrected: 1, Today: 1, First: "2026-02-28", Last: "2026-07-01", Now: today}
	if got := k.review(draft).DateOrigins(); got != want {
		t.Errorf("DateOrigins() = %+v, want %+v", got, want)
	}
	m := draft.Mapping
	m.Defaults = map[sheet.Column]string{sheet.IssueDate: "2027-01-01"}
	k.ok(k.SetMapping(t.Context(), draft, m))
	want = bulkimport.DateOrigins{List: 2, Corrected: 1, Same: 1, First: "2026-02-28", Last: "2027-01-01", Now: today}
	if got := k.review(draft).DateOrigins(); got != want {
		t.Errorf("with a date for rows without one: DateOrigins() = %+v, want %+v", got, want)
	}
}

// FixAll corrects some rows and skips others in one operation. If one correction is refused, FixAll changes
// no row.
func TestFixAll(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,Name,Email,File\nBSc,Ada,invalid,a.pdf\nBSc,,bea@example.org,a.pdf\nBSc,Cy,invalid,a.pdf\n")
		k.file(draft, "a.pdf")
		texts := map[int]map[sheet.Column]string{2: {sheet.Email: "ada@example.org"}, 3: {sheet.Name: "Bea\x00"}}
		err := k.FixAll(t.Context(), draft, texts, []int{4})
		if !fault.Is(err, fault.Invalid) {
			t.Fatalf("FixAll() with a character that cannot be stored: error = %v, want fault.Invalid", err)
		}
		if v := k.review(draft); v.Invalid != 3 || v.Skipped != 0 {
			t.Errorf("after the refusal %d rows have errors and %d are skipped, want 3 and 0", v.Invalid, v.Skipped)
		}
		texts[3] = map[sheet.Column]string{sheet.Name: "Bea"}
		k.ok(k.FixAll(t.Context(), draft, texts, []int{4}))
		if v := k.review(draft); v.Valid != 2 || v.Skipped != 1 || v.Rows[1].Text.FullName != "Bea" {
			t.Errorf("after FixAll() %d rows are valid and %d are skipped, want 2 and 1", v.Valid, v.Skipped)
		}
		if err := k.FixAll(t.Context(), draft, map[int]map[sheet.Column]string{9: {}}, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("FixAll() of an unknown row: error = %v, want fault.NotFound", err)
		}
	})
}

// Import replaces only the rows that the corrected file of errors contains. In another draft, Import
// stores the same file as a new list.
func TestImportCorrectedErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,Name,Email,File\nBSc,Ada,ada@example.org,a.pdf\nBSc,Bea,invalid,b.pdf\nBSc,,cy@example.org,c.pdf\n")
		for _, name := range []string{"a.pdf", "b.pdf", "c.pdf"} {
			k.file(draft, name)
		}
		k.ok(k.Fix(t.Context(), draft, 3, map[sheet.Column]string{sheet.Title: "MSc"}))
		k.ok(k.Skip(t.Context(), draft, 4, true))
		k.ok(k.Skip(t.Context(), draft, 4, false))
		var errors bytes.Buffer
		k.ok(k.review(draft).WriteErrors(&errors, func(_ *bulkimport.Row, p bulkimport.Problem) string { return string(p.Code) }))
		k.ok(k.Skip(t.Context(), draft, 4, true))
		corrected := strings.Replace(strings.Replace(errors.String(), `"invalid"`, `"bea@example.org"`, 1), `"",`, `"Cy",`, 1)
		n, err := k.Import(t.Context(), k.reload(draft), "errors.csv", strings.NewReader(corrected))
		if err != nil || n != 2 {
			t.Fatalf("Import() = %d, %v; want 2 corrected rows", n, err)
		}
		v := k.review(draft)
		var rows []string
		for _, row := range v.Rows {
			rows = append(rows, fmt.Sprint(row.Number, row.Text.Title, row.Text.FullName, row.Text.Email, row.Skipped, len(row.Problems)))
		}
		if want := []string{"2BScAdaada@example.orgfalse0", "3MScBeabea@example.orgfalse0", "4BScCycy@example.orgfalse0"}; !slices.Equal(squeeze(rows), want) || v.Total != 3 || !v.Mapped || v.ListName != "class of 2026.csv" {
			t.Errorf("the rows are %q of list %q, want %q and an unchanged list", squeeze(rows), v.ListName, want)
		}
		if _, err := k.Import(t.Context(), k.reload(draft), "errors.csv", strings.NewReader(corrected)); !fault.Is(err, fault.Invalid) {
			t.Errorf("Import() of a file that was imported before: error = %v, want fault.Invalid", err)
		}
		unknown := strings.Replace(corrected, `"3"`, `"33"`, 1)
		if _, err := k.Import(t.Context(), k.reload(draft), "errors.csv", strings.NewReader(unknown)); !fault.Is(err, fault.Invalid) {
			t.Errorf("Import() of a row that the list does not have: error = %v, want fault.Invalid", err)
		}
		other := k.create()
		if n, err := k.Import(t.Context(), other, "errors.csv", strings.NewReader(corrected)); err != nil || n != 0 || k.reload(other).Total != 2 {
			t.Errorf("Import() into another draft = %d, %v with %d rows; want a new list of 2 rows", n, err, k.reload(other).Total)
		}
	})
}

// errorsOf returns the file that WriteErrors writes for a draft.
func (k *fixture) errorsOf(d *bulkimport.Draft) string {
	k.t.Helper()
	var b strings.Builder
	k.ok(k.review(d).WriteErrors(&b, func(_ *bulkimport.Row, p bulkimport.Problem) string { return string(p.Code) }))
	return b.String()
}

// Import refuses a corrected file of errors of another list, a file with one row that has changed since the file was
// written, and a file without codes, as earlier releases wrote it. It then changes no row.
func TestImportErrorsOfAnotherList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		const header = "Title,Name,Email,File\n"
		const january = header + "BSc,Ada,invalid,a.pdf\nBSc,Bea,invalid,b.pdf\n"
		const february = header + "BSc,Cy,invalid,c.pdf\nBSc,Di,invalid,d.pdf\n"
		first := k.list(k.create(), january)
		errors := k.errorsOf(first)
		without := regexp.MustCompile(`(?m),"(Row code|[a-z]{12})"\r$`).ReplaceAllString(errors, "\r")
		if strings.Count(without, "\n") != 3 || strings.Contains(without, "Row code") {
			t.Fatalf("the file of errors is %q, want a column of codes with 12 letters", errors)
		}
		refused := func(what string, draft *bulkimport.Draft, file, message string) {
			t.Helper()
			before := k.rowsOf(draft)
			if _, err := k.Import(t.Context(), k.reload(draft), "errors.csv", strings.NewReader(file)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), message) {
				t.Errorf("Import() of %s: error = %v, want fault.Invalid with %q", what, err, message)
			}
			if after := k.rowsOf(draft); after != before {
				t.Errorf("the rows after Import() of %s are %s, want %s", what, after, before)
			}
		}
		refused("a file without codes", first, without, "no column “Row code”")
		refused("a file of another draft", k.list(k.create(), february), errors, "Row 2 of the list has changed")
		refused("a file of a draft with the same list", k.list(k.create(), january), errors, "Row 2 of the list has changed")
		k.ok(k.Fix(t.Context(), k.reload(first), 3, map[sheet.Column]string{sheet.Name: "Bea Roth"}))
		refused("a file with one changed row", first, errors, "Row 3 of the list has changed")
		k.list(k.reload(first), header+"BSc,Eli,invalid,e.pdf\nBSc,Ada,invalid,a.pdf\nBSc,Bea,invalid,b.pdf\n")
		refused("a file of an earlier list of the draft", first, errors, "Row 2 of the list has changed")
		// A correction that the list has no column for is not in the file, and stays.
		k.ok(k.Fix(t.Context(), k.reload(first), 3, map[sheet.Column]string{sheet.Title: "MSc", sheet.Details: "With honors"}))
		for _, step := range [][2]string{{`"MSc"`, `"PhD"`}, {`"BSc"`, `"MA"`}} {
			file := strings.ReplaceAll(k.errorsOf(first), step[0], step[1])
			if n, err := k.Import(t.Context(), k.reload(first), "errors.csv", strings.NewReader(file)); err != nil || n != 3 {
				t.Errorf("Import() of the current file = %d, %v; want 3 rows", n, err)
			}
		}
		if got := k.rowsOf(first); got != "2 MA Eli ; 3 PhD Ada With honors; 4 MA Bea ; " {
			t.Errorf("the rows are %q, want the titles of both files", got)
		}
	})
}

// rowsOf returns the rows of a draft as text.
func (k *fixture) rowsOf(d *bulkimport.Draft) string {
	k.t.Helper()
	var b strings.Builder
	for _, row := range k.review(d).Rows {
		fmt.Fprintf(&b, "%d %s %s %s; ", row.Number, row.Text.Title, row.Text.FullName, row.Text.Details)
	}
	return b.String()
}

func squeeze(texts []string) []string {
	for i, text := range texts {
		texts[i] = strings.ReplaceAll(text, " ", "")
	}
	return texts
}

func TestRetryWithoutFailures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), rows(1))
		k.file(draft, "0.pdf")
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		k.finish(draft)
		if list, err := k.RetryFailed(t.Context(), k.inst, k.reload(draft), nil); !fault.Is(err, fault.BadRequest) || len(list) != 0 {
			t.Errorf("RetryFailed() without failed certificates = %v, %v; want no task and fault.BadRequest", list, err)
		}
	})
}
