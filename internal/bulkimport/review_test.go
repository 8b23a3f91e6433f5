package bulkimport_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestRowProblems checks the problems of rows with one error each, and then corrects or skips the rows.
func TestRowProblems(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,First name,Surname,E-Mail,File,Date\n"+
			"BSc,Ada,Lovelace,ada@example.org,ada.pdf,30/06/2026\n"+ // 2, valid
			",Bea,Best,bea@example.org,bea.pdf,30/06/2026\n"+ // 3
			"BSc,Cy,Cox,nobody,cy.pdf,30/06/2026\n"+ // 4
			"BSc,Di,Dow,di@example.org,missing.pdf,30/06/2026\n"+ // 5
			"BSc,Ed,Ely,ed@example.org,ed.pdf,31/02/2026\n"+ // 6
			"BSc,Fi,Fox,fi@example.org,broken.pdf,30/06/2026\n"+ // 7
			"BSc,Ada,Lovelace,ADA@example.org,ada.pdf,30/06/2026\n"+ // 8, the same as 2
			"BSc,Gu,G\uFFFDnter,gu@example.org,gu.pdf,\n") // 9
		for _, name := range []string{"ada.pdf", "bea.pdf", "cy.pdf", "ed.pdf", "gu.pdf", "nobody.pdf"} {
			k.file(draft, name)
		}
		if _, err := k.AddFile(t.Context(), k.inst, draft, "broken.pdf", strings.NewReader("%PDF-1.7 and no more")); err != nil {
			t.Fatal(err)
		}
		v := k.review(draft)
		if v.Valid != 2 || v.Invalid != 6 || v.Order != sheet.DayFirst || len(v.Unused) != 1 || v.Unused[0].Path != "nobody.pdf" ||
			len(v.Refused) != 1 || len(v.Missing) != 1 || v.Missing[0].Number != 5 {
			t.Fatalf("the review has %d valid and %d invalid rows, the order %q, unused files %v, refused files %v, rows without a file %v, want 2, 6, day first, nobody.pdf, one, row 5",
				v.Valid, v.Invalid, v.Order, v.Unused, v.Refused, v.Missing)
		}
		if first := v.Rows[0]; first.Text.FullName != "Ada Lovelace" || first.Text.IssueDate != "2026-06-30" ||
			first.File.Path != "ada.pdf" || first.Shared != nil {
			t.Errorf("the first row is %+v, want Ada Lovelace on 2026-06-30 with ada.pdf, which is not a shared file", first)
		}
		for number, want := range map[int]struct {
			column sheet.Column
			code   cert.Code
			detail string
		}{
			3: {sheet.Title, cert.CodeRequired, ""}, 4: {sheet.Email, cert.CodeNotEmail, ""}, 5: {sheet.File, bulkimport.CodeNoFile, "missing.pdf"},
			6: {sheet.IssueDate, cert.CodeNotDate, ""}, 7: {sheet.File, cert.CodeRefusedFile, "PDF"}, 9: {sheet.Name, bulkimport.CodeLostCharacter, ""},
		} {
			row, err := v.Row(number)
			k.ok(err)
			if len(row.Problems) != 1 {
				t.Errorf("problems of row %d = %v, want %v", number, row.Problems, want)
				continue
			}
			if p := row.Problems[0]; p.Column != want.column || p.Code != want.code || !strings.Contains(p.Detail, want.detail) {
				t.Errorf("problems of row %d = %v, want %v", number, row.Problems, want)
			}
		}
		if row, err := v.Row(8); err != nil || row.DuplicateOf != 2 {
			t.Errorf("row 8 is a duplicate of row %d, want 2; error %v", row.DuplicateOf, err)
		}

		var b bytes.Buffer
		k.ok(v.WriteErrors(&b, codeOf))
		list, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(list) != 7 || list[1][6] != "3" || list[1][7] != "title: required" {
			t.Errorf("the rows of errors.csv are %q, want 7 with the header, first row 3 with the problem of its title; error %v", list, err)
		}

		for number, texts := range map[int]map[sheet.Column]string{
			3: {sheet.Title: " BSc "}, 4: {sheet.Email: "cy@example.org"}, 5: {sheet.File: "nobody"}, 6: {sheet.IssueDate: "28/02/2026"}, 9: {sheet.Name: "Gu Günter"},
		} {
			k.ok(k.Fix(t.Context(), k.reload(draft), number, texts))
		}
		if n, err := k.SkipAll(t.Context(), k.reload(draft), bulkimport.ShowProblems); err != nil || n != 1 {
			t.Errorf("%d rows with problems were skipped, want 1; error %v", n, err)
		}
		if n, err := k.SkipAll(t.Context(), k.reload(draft), bulkimport.ShowDuplicate); err != nil || n != 1 {
			t.Errorf("%d duplicates were skipped, want 1; error %v", n, err)
		}
		if v := k.review(draft); v.Invalid != 0 || v.Valid != 6 || v.Skipped != 2 || v.Rows[4].Text.IssueDate != "2026-02-28" || len(v.Unused) != 0 {
			t.Errorf("after the corrections: %d invalid, %d valid and %d skipped rows; row 6 is %+v, want 0, 6, 2, 2026-02-28 and no unused file", v.Invalid, v.Valid, v.Skipped, v.Rows[4])
		}
		// A correction that equals the text in the list deletes the stored correction.
		k.ok(k.Fix(t.Context(), k.reload(draft), 4, map[sheet.Column]string{sheet.Email: "nobody"}))
		if n := one[int](k, `SELECT count(*) FROM bulk_import_rows WHERE number = 4 AND fixed IS NULL`); n != 1 {
			t.Error("a correction that equals the text in the list is stored")
		}
		k.ok(k.Skip(t.Context(), k.reload(draft), 7, false))
		if v := k.review(draft); v.Invalid != 2 || v.Skipped != 1 {
			t.Errorf("after a skipped row is included again: %d invalid rows, want 2 and one skipped row", v.Invalid)
		}
		if err := k.Fix(t.Context(), k.reload(draft), 99, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("correction of an unknown row: error = %v, want fault.NotFound", err)
		}
	})
}

// TestDoubtfulRows checks that a row is doubtful if a row of another certificate has the same file, or
// if the domain of its address is misspelt.
func TestDoubtfulRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,Name,Email,File\n"+
			"BSc,Ada,ada@example.org,ada.pdf\n"+
			"BSc,Bea,bea@gmial.com,bea.pdf\n"+
			"BSc,Cy,cy@example.org,ADA\n"+
			"BSc,Di,di@example.org,di.pdf\n"+
			"BSc,Ed,ed@example.org,Ada.PDF\n")
		for _, name := range []string{"ada.pdf", "bea.pdf", "di.pdf"} {
			k.file(draft, name)
		}
		run, err := k.DryRun(t.Context(), k.reload(draft))
		k.ok(err)
		if run.Valid != 5 || len(run.Shared) != 1 || run.Shared[0].Path != "ada.pdf" || run.Shared[0].More(2) != 1 ||
			len(run.Misspelt) != 1 || run.Misspelt[0].Number != 3 || run.Misspelt[0].SuggestedDomain != "gmail.com" {
			t.Fatalf("%d valid rows, shared files %v, misspelt rows %v, want 5, ada.pdf of three rows, and row 3", run.Valid, run.Shared, run.Misspelt)
		}
		var doubtful []int
		for _, row := range run.Of(bulkimport.ShowDoubtful) {
			doubtful = append(doubtful, row.Number)
		}
		if !slices.Equal(doubtful, []int{2, 4, 6, 3}) {
			t.Errorf("doubtful rows = %v, want 2, 4 and 6 with the same file, and then 3 with a misspelt domain", doubtful)
		}
		if others := run.Rows[2].Sharers(1); len(others) != 1 || others[0].Text.FullName != "Ada" || run.Rows[2].MoreSharers(1) != 1 || run.Rows[3].Sharers(1) != nil {
			t.Errorf("rows with the same file as row 4 = %v, want Ada and one more, and none for row 5", others)
		}
		// A skipped row uses no file, even if it names a file.
		k.ok(k.Skip(t.Context(), k.reload(draft), 4, true))
		k.ok(k.Skip(t.Context(), k.reload(draft), 5, true))
		k.ok(k.Fix(t.Context(), k.reload(draft), 3, map[sheet.Column]string{sheet.Email: "bea@gmail.com"}))
		run, err = k.DryRun(t.Context(), k.reload(draft))
		k.ok(err)
		if len(run.Shared) != 1 || len(run.Shared[0].Rows) != 2 || run.Rows[2].Shared != nil || len(run.Misspelt) != 0 || len(run.Unused) != 0 {
			t.Errorf("without rows 4 and 5: shared files %v, misspelt rows %v, unused files %v, want one shared file of two rows, and none of the others", run.Shared, run.Misspelt, run.Unused)
		}
		k.ok(k.Skip(t.Context(), k.reload(draft), 6, true))
		if v := k.review(draft); len(v.Shared) != 0 || len(v.Of(bulkimport.ShowDoubtful)) != 0 {
			t.Errorf("shared files without row 6 = %v, want none, and no doubtful rows", v.Shared)
		}
	})
}

// After a person accepts the doubts about a row, the row is ready until it changes or Reopen is called.
func TestDoubtsAreAccepted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,Name,Email,File\n"+
			"BSc,Ada,ada@gmial.com,ada.pdf\n"+
			"BSc,Bea,bea@gmial.com,bea.pdf\n"+
			"BSc,Ada,ada@gmial.com,ada.pdf\n")
		for _, name := range []string{"ada.pdf", "bea.pdf"} {
			k.file(draft, name)
		}
		numbers := func(v *bulkimport.Review, show bulkimport.Show) (list []int) {
			for _, row := range v.Of(show) {
				list = append(list, row.Number)
			}
			return list
		}
		// Two rows of one certificate are duplicates, and their file is not shared. Only the second row
		// has the doubt DoubtDuplicate.
		v := k.review(draft)
		if got := numbers(v, bulkimport.ShowDoubtful); !slices.Equal(got, []int{4, 2, 3}) || len(v.Shared) != 0 || v.Rows[2].DuplicateOf != 2 ||
			!slices.Equal(numbers(v, bulkimport.ShowOf(bulkimport.DoubtDuplicate)), []int{4}) {
			t.Fatalf("the doubtful rows are %v and the shared files %v, want 4, 2 and 3, and none; row 4 is a duplicate", got, v.Shared)
		}
		addresses := bulkimport.ShowOf(bulkimport.DoubtAddress)
		if got := numbers(v, addresses); !slices.Equal(got, []int{4, 2, 3}) {
			t.Fatalf("the rows with misspelt addresses are %v, want 4, 2 and 3", got)
		}
		k.ok(k.Accept(t.Context(), v, bulkimport.DoubtAddress, v.Of(addresses)))
		v = k.review(draft)
		if !slices.Equal(numbers(v, bulkimport.ShowDoubtful), []int{4}) || !slices.Equal(numbers(v, bulkimport.ShowReady), []int{2, 3}) || v.Accepted() != 3 {
			t.Errorf("after the addresses are accepted: doubtful %v, ready %v, accepted %d; want 4, 2 and 3, and 3", numbers(v, bulkimport.ShowDoubtful), numbers(v, bulkimport.ShowReady), v.Accepted())
		}
		k.ok(k.Accept(t.Context(), v, "", v.Of(bulkimport.ShowDoubtful)))
		k.ok(k.Fix(t.Context(), k.reload(draft), 3, map[sheet.Column]string{sheet.Email: "bea.2@gmial.com"}))
		if got := numbers(k.review(draft), bulkimport.ShowDoubtful); !slices.Equal(got, []int{3}) {
			t.Errorf("after row 3 has another address: doubtful %v, want 3", got)
		}
		k.ok(k.Reopen(t.Context(), k.reload(draft)))
		if v = k.review(draft); len(v.Of(bulkimport.ShowDoubtful)) != 3 || v.Accepted() != 0 {
			t.Errorf("after Reopen: doubtful %v, accepted %d; want three rows, and 0", numbers(v, bulkimport.ShowDoubtful), v.Accepted())
		}
	})
}

// TestAmbiguousDates checks that a person must set the order of ambiguous dates.
func TestAmbiguousDates(t *testing.T) {
	t.Parallel()
	k := newFixture(t, dbtest.Open(t, t.TempDir(), ""))
	draft := k.list(k.create(), "Title,Name,Email,File,Date\nBSc,Ada,a@example.org,a.pdf,03/04/2026\n")
	k.file(draft, "a.pdf")
	v := k.review(draft)
	if got := v.Rows[0].Problems; len(got) != 1 || got[0].Column != sheet.IssueDate || got[0].Code != bulkimport.CodeAmbiguousDate {
		t.Fatalf("the problems are %v, want an ambiguous date", got)
	}
	for order, want := range map[sheet.Order]string{sheet.DayFirst: "2026-04-03", sheet.MonthFirst: "2026-03-04"} {
		m := v.Mapping
		m.Dates = order
		k.ok(k.SetMapping(t.Context(), k.reload(draft), m))
		if got := k.review(draft).Rows[0]; got.Text.IssueDate != want || len(got.Problems) > 0 {
			t.Errorf("with the order %s the row is %+v, want a valid date in this order", order, got)
		}
	}
}

func TestMappingOfTheLastList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.create()
		k.ok(k.SetList(t.Context(), draft, "x.csv", strings.NewReader("Wer,Wohin,Was\nAda,a@example.org,a.pdf\n")))
		draft = k.reload(draft)
		if len(draft.Mapping.Columns) != 2 || draft.Mapping.Remembered || draft.Mapped {
			t.Fatalf("the detected mapping is %v, want the address and the file, not remembered and not confirmed", draft.Mapping)
		}
		err := k.SetMapping(t.Context(), draft, bulkimport.Mapping{Columns: map[sheet.Column]int{sheet.Name: 0, sheet.Email: 7}})
		if e, ok := err.(interface{ Unwrap() error }); err == nil || !ok || !fault.Is(err, fault.Invalid) {
			t.Fatalf("a mapping without title and file: error = %v, %v, want fault.Invalid", err, e)
		}
		for _, field := range []string{"title", "email", "file"} {
			if !strings.Contains(err.Error(), field) {
				t.Errorf("the error does not name %s: %v", field, err)
			}
		}
		m := bulkimport.Mapping{
			Columns:  map[sheet.Column]int{sheet.Name: 0, sheet.Email: 1, sheet.File: 2},
			Defaults: map[sheet.Column]string{sheet.Title: "BSc Physik"}, Dates: sheet.DayFirst,
		}
		k.ok(k.SetMapping(t.Context(), draft, m))
		other := k.create()
		k.ok(k.SetList(t.Context(), other, "y.csv", strings.NewReader("WAS;wohin;wer\nb.pdf;b@example.org;Bea\n")))
		k.file(other, "b.pdf")
		v := k.review(other)
		if v.Mapping.Columns[sheet.Name] != 2 || v.Rows[0].Text.FullName != "Bea" || v.Rows[0].Text.Title != "BSc Physik" || v.Order != sheet.DayFirst || v.Valid != 1 || !v.Mapping.Remembered {
			t.Errorf("the mapping is %+v and the first row %+v, want the mapping of the last list with these columns and the valid row of Bea", v.Mapping, v.Rows[0])
		}
		// The mappings of one institution are not used for another institution.
		mapping, err := k.LastMapping(t.Context(), k.institution("UTH").ID, []string{"Wer", "Wohin", "Was"})
		if err != nil || len(mapping.Columns) != 0 {
			t.Errorf("the mapping for another institution is %v, want none; error %v", mapping, err)
		}
	})
}

// TestDraftVisibility checks that a draft is not visible to other institutions, nor to other
// members before it is submitted.
func TestDraftVisibility(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), rows(2))
		k.file(draft, "0.pdf")
		k.file(draft, "1.pdf")
		other := k.institution("UTH")
		for name, f := range map[string]func() error{
			"another member before the submission": func() error { _, err := k.ByUUID(t.Context(), k.inst.ID, 8, draft.UUID); return err },
			"another institution":                  func() error { _, err := k.ByUUID(t.Context(), other.ID, k.person.ID, draft.UUID); return err },
			"invalid UUID":                         func() error { _, err := k.ByUUID(t.Context(), k.inst.ID, k.person.ID, "x"); return err },
		} {
			if err := f(); !fault.Is(err, fault.NotFound) {
				t.Errorf("draft for %s: error = %v, want fault.NotFound", name, err)
			}
		}
		if list, err := k.List(t.Context(), k.inst.ID, 8); err != nil || len(list) != 0 {
			t.Errorf("another member sees %d drafts before the submission, want 0; error %v", len(list), err)
		}
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		if _, err := k.ByUUID(t.Context(), k.inst.ID, 8, draft.UUID); err != nil {
			t.Errorf("another member does not see the submitted draft: %v", err)
		}
		if list, err := k.List(t.Context(), other.ID, k.person.ID); err != nil || len(list) != 0 {
			t.Errorf("another institution sees %d drafts, want 0; error %v", len(list), err)
		}
		if err := k.Fix(t.Context(), draft, 2, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("a correction after the submission: error = %v, want fault.BadRequest", err)
		}
		if err := k.SetList(t.Context(), draft, "x.csv", strings.NewReader(rows(1))); !fault.Is(err, fault.BadRequest) {
			t.Errorf("another list after the submission: error = %v, want fault.BadRequest", err)
		}
		if _, err := k.AddFile(t.Context(), k.inst, draft, "a.pdf", bytes.NewReader(vaulttest.PDF)); !fault.Is(err, fault.BadRequest) {
			t.Errorf("another file after the submission: error = %v, want fault.BadRequest", err)
		}
		if err := k.Discard(t.Context(), draft); !fault.Is(err, fault.BadRequest) {
			t.Errorf("discarding a submitted draft: error = %v, want fault.BadRequest", err)
		}
	})
}

// TestDraftExpiresWithItsFiles checks that the sweeps keep the files of a draft until the draft expires,
// and then delete the draft and its files.
func TestDraftExpiresWithItsFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		remaining, discarded := k.list(k.create(), rows(1)), k.create()
		k.file(remaining, "0.pdf")
		k.file(discarded, "a.pdf")
		k.ok(k.Discard(t.Context(), discarded))
		sweep := func() {
			t.Helper()
			k.ok(k.Sweep(t.Context()))
			k.ok(k.Batches.SweepStaged(t.Context()))
		}
		k.Advance(bulkimport.Life - 1e9)
		sweep()
		if n := one[int](k, `SELECT count(*) FROM staged_files`); n != 1 {
			t.Fatalf("%d files are staged before the draft expires, want 1", n)
		}
		if v := k.review(remaining); v.Valid != 1 {
			t.Fatalf("the row is %+v, want a valid row", v.Rows[0])
		}
		k.Advance(2e9)
		if _, err := k.ByUUID(t.Context(), k.inst.ID, k.person.ID, remaining.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("expired draft: error = %v, want fault.NotFound", err)
		}
		sweep()
		k.Advance(6 * 60e9)
		sweep()
		var left []string
		for _, table := range []string{"bulk_import_drafts", "bulk_import_rows", "bulk_import_files", "staged_files"} {
			if n := one[int](k, `SELECT count(*) FROM `+table); n != 0 {
				left = append(left, fmt.Sprint(table, " ", n))
			}
		}
		if len(left) > 0 || one[int64](k, `SELECT coalesce(sum(bytes), 0) FROM staged_usage`) != 0 {
			t.Errorf("records or staged bytes of expired drafts still exist: %v", left)
		}
	})
}

func TestFilesCanBeReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.create()
		if _, err := k.AddFile(t.Context(), k.inst, draft, "a.pdf", strings.NewReader("no PDF")); err != nil {
			t.Fatal(err)
		}
		if v := k.review(draft); len(v.Refused) != 1 {
			t.Fatalf("the files are %+v, want one refused file", v.Files)
		}
		k.file(draft, "a.pdf")
		k.file(draft, "a.pdf")
		v := k.review(draft)
		if len(v.Files) != 1 || v.Files[0].Problem != "" {
			t.Fatalf("the files are %+v, want one valid file", v.Files)
		}
		// A file without a folder replaces the only file with its name, which may be in a folder.
		for _, name := range []string{"Bachelor/Ö b.pdf", "Bachelor/c.pdf", "Master/c.pdf", "Bachelor/xÖ b.pdf"} {
			_, err := k.AddFile(t.Context(), k.inst, draft, name, strings.NewReader("no PDF"))
			k.ok(err)
		}
		k.file(draft, "Ö b.pdf")
		k.file(draft, "c.pdf")
		var names []string
		for _, f := range k.review(draft).Files {
			if f.Path != "a.pdf" {
				names = append(names, fmt.Sprint(f.Path, " ", f.Problem == ""))
				k.ok(k.RemoveFile(t.Context(), draft, f.ID))
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); got != "Bachelor/c.pdf false, Bachelor/xÖ b.pdf false, Bachelor/Ö b.pdf true, Master/c.pdf false, c.pdf true" {
			t.Errorf("the files and whether they are valid are %s, want the only file with the name to be replaced, and otherwise a new file", got)
		}
		k.ok(k.RemoveFile(t.Context(), draft, v.Files[0].ID))
		if err := k.RemoveFile(t.Context(), draft, v.Files[0].ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("removing a removed file: error = %v, want fault.NotFound", err)
		}
		k.Advance(10 * 60e9)
		k.ok(k.Batches.SweepStaged(t.Context()))
		if n := one[int](k, `SELECT count(*) FROM staged_files`); n != 0 {
			t.Errorf("%d files are still staged, want 0", n)
		}
		for _, name := range []string{"", "../a.pdf", "/etc/passwd", `C:\a.pdf`, "a/", strings.Repeat("x", 600)} {
			if _, err := k.AddFile(t.Context(), k.inst, draft, name, bytes.NewReader(vaulttest.PDF)); !fault.Is(err, fault.Invalid) {
				t.Errorf("file name %q: error = %v, want fault.Invalid", name, err)
			}
		}
		if slices.ContainsFunc(k.review(draft).Files, func(*bulkimport.File) bool { return true }) {
			t.Error("a file with an invalid name was added")
		}
	})
}
