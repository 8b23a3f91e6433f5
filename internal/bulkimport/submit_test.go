package bulkimport_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

func archiveLeft(t *testing.T) func(blob.Info) error {
	return func(i blob.Info) error {
		if strings.HasSuffix(i.Key, "."+cert.ArchiveKind) {
			t.Errorf("%s is still there", i.Key)
		}
		return nil
	}
}

// TestFromListToResults covers all steps of a list: duplicates of existing certificates and within
// the list, a certificate that fails and is retried, and rejected rows that are corrected and
// submitted again.
func TestFromListToResults(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		k.SetPartSize(3)
		first := k.list(k.create(), rows(1))
		k.file(first, "0.pdf")
		k.ok(k.Submit(t.Context(), first, nil))
		k.finish(first)

		draft := k.list(k.create(), rows(7)+"BSc Physics,Twin,person.1@example.org,1.pdf,2026-06-30\n"+"=cmd(),Left out,out@example.org,none.pdf,\n")
		for i := range 7 {
			k.file(draft, fmt.Sprintf("%d.pdf", i))
		}
		k.sealer.refuse.Store("2.pdf", true)
		k.ok(k.Skip(t.Context(), k.again(draft), 10, true))
		k.ok(k.Fix(t.Context(), k.again(draft), 3, map[sheet.Column]string{sheet.Name: "Persona Una"}))
		run, err := k.DryRun(t.Context(), k.again(draft))
		k.ok(err)
		if run.Made != 6 || run.Batches != 3 || len(run.Existing) != 1 || run.Existing[0].Number != 2 || len(run.Duplicates) != 1 || run.Duplicates[0].Number != 9 ||
			len(run.Shared) != 1 || run.Shared[0].Path != "1.pdf" || len(run.Shared[0].Rows) != 2 {
			t.Fatalf("%d made in %d batches, existing %v, twins %v, shared %v", run.Made, run.Batches, run.Existing, run.Duplicates, run.Shared)
		}
		// A double click submits once, also from two windows.
		stale := k.again(draft)
		k.ok(k.Submit(t.Context(), k.again(draft), nil))
		k.ok(k.Submit(t.Context(), stale, nil))
		k.ok(k.Submit(t.Context(), k.again(draft), nil))
		p := k.finish(draft)
		if p.Total != 8 || p.Approved != 5 || p.Failed != 1 || p.Rejected != 2 || p.Percent() != 100 || len(p.Batches) != 3 {
			t.Fatalf("%+v", p)
		}
		if n := one[int](k, `SELECT count(*) FROM certificates WHERE trigger_context = 'panel_bulk_upload' AND creator_type = 'user' AND creator_id = 7`); n != 7 {
			t.Errorf("%d certificates by the registrar", n)
		}

		var b bytes.Buffer
		k.ok(k.WriteResults(t.Context(), k.again(draft), k.Links.Verify, codesOf, &b))
		list, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(list) != 10 {
			t.Fatalf("%q, %v", list, err)
		}
		for row, want := range map[int]string{1: "rejected", 2: "approved", 3: "failed", 8: "rejected", 9: "skipped"} {
			if got := list[row]; got[5] != fmt.Sprint(row+1) || got[6] != want {
				t.Errorf("results.csv, row %d: %q", row, got)
			}
		}
		if list[1][11] == "" || list[2][8] != k.Links.Verify(list[2][7]) || list[3][10] == "" || list[9][0] != "'=cmd()" {
			t.Errorf("results.csv: %q", list)
		}
		// The results contain the list's text, the issued text, and the reason for rows without a
		// certificate.
		if got := list[2]; got[1] != "Person 1" || !slices.Equal(got[12:], []string{"BSc Physics", "Persona Una", "person.1@example.org", "2026-06-30", "", "1.pdf"}) ||
			strings.Join(list[1][12:], "") != "" || list[9][10] != "file: no_file: none.pdf" {
			t.Errorf("what was issued: %q", list)
		}

		// A retry covers failed certificates only.
		k.sealer.refuse.Delete("2.pdf")
		if _, err := k.RetryFailed(t.Context(), k.inst, k.again(draft), nil); err != nil {
			t.Fatal(err)
		}
		k.Until("the failed one is retried", func() bool {
			return one[int](k, `SELECT count(*) FROM certificate_tasks WHERE finished_at IS NULL`) == 0
		})
		p = k.finish(draft)
		if p.Approved != 6 || p.Failed != 0 || p.Rejected != 2 {
			t.Errorf("%+v", p)
		}
		if n := one[int](k, `SELECT coalesce(sum(succeeded), 0) FROM certificate_tasks`); n != 1 {
			t.Errorf("%d were retried", n)
		}

		// A rejected row can be corrected, and still has its file.
		again, err := k.Again(t.Context(), k.again(draft), k.person)
		k.ok(err)
		v := k.review(again)
		if len(v.Rows) != 3 || v.Valid != 2 || v.Invalid != 1 || len(v.Files) != 2 {
			t.Fatalf("%d rows, %d valid, %d invalid, %d files", len(v.Rows), v.Valid, v.Invalid, len(v.Files))
		}
		k.ok(k.Fix(t.Context(), k.again(again), 9, map[sheet.Column]string{sheet.Email: "twin@example.org"}))
		k.ok(k.Skip(t.Context(), k.again(again), 10, true))
		if n, err := k.SkipExisting(t.Context(), k.again(again)); err != nil || n != 1 {
			t.Errorf("%d skipped, %v", n, err)
		}
		k.Advance(25 * time.Hour)
		k.ok(k.Batches.SweepStaged(t.Context()))
		k.ok(k.Submit(t.Context(), k.again(again), nil))
		if p := k.finish(again); p.Total != 1 || p.Approved != 1 {
			t.Errorf("%+v", p)
		}
	})
}

// The results explain skipped rows. Only those with a problem are copied to the next draft, with
// their files.
func TestResultsExplainSkippedRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		first := k.list(k.create(), rows(1))
		k.file(first, "0.pdf")
		k.ok(k.Submit(t.Context(), first, nil))
		if list, err := k.List(t.Context(), k.inst.ID, k.person.ID); err != nil || len(list) != 1 || list[0].Done {
			t.Errorf("it is done before it began: %v, %v", list, err)
		}
		k.finish(first)

		draft := k.list(k.create(), rows(4)+"BSc Physics,Twin,person.1@example.org,1.pdf,2026-06-30\nBSc Physics,Bad,bad@example.org,bad.pdf,2026-06-30\n")
		for _, name := range []string{"0.pdf", "1.pdf", "2.pdf", "3.pdf", "unused.pdf"} {
			k.file(draft, name)
		}
		bad, err := k.AddFile(t.Context(), k.inst, k.again(draft), "bad.pdf", strings.NewReader("no PDF"))
		k.ok(err)
		for _, row := range []int{2, 5, 6, 7} {
			k.ok(k.Skip(t.Context(), k.again(draft), row, true))
		}
		k.ok(k.Submit(t.Context(), k.again(draft), nil))
		if p := k.finish(draft); p.Total != 2 || p.Approved != 2 || p.Skipped != 4 {
			t.Fatalf("%+v", p)
		}
		if list, err := k.List(t.Context(), k.inst.ID, k.person.ID); err != nil || len(list) != 2 || !list[0].Done || !list[1].Done {
			t.Errorf("it is not done: %v, %v", list, err)
		}
		results, err := k.Results(t.Context(), k.again(draft))
		k.ok(err)
		left := bulkimport.Left(results)
		if len(left) != 4 {
			t.Fatalf("%d rows became no certificate", len(left))
		}
		for i, want := range []cert.Problem{
			{Code: cert.CodeDuplicate, Detail: left[0].ExistingUUID}, {Code: bulkimport.CodeLeftOut}, {Code: bulkimport.CodeSameRow, Limit: 3},
			{Field: cert.FieldFile, Code: cert.CodeRefusedFile, Detail: bad.Problem},
		} {
			if got := left[i]; got.Status != bulkimport.StatusSkipped || len(got.Reasons) != 1 || got.Reasons[0].Problem != want || got.Again != (i == 3) {
				t.Errorf("row %d: %s, %v, again %t; want %v", got.Number, got.Status, got.Reasons, got.Again, want)
			}
		}
		if left[0].ExistingUUID == "" {
			t.Error("the certificate that there is already is not named")
		}
		again, err := k.Again(t.Context(), k.again(draft), k.person)
		k.ok(err)
		if v := k.review(again); len(v.Rows) != 1 || v.Rows[0].Number != 7 || len(v.Files) != 1 || v.Files[0].Problem != bad.Problem {
			t.Errorf("again: %+v, %+v", v.Rows, v.Files)
		}
		if _, err := k.Again(t.Context(), k.again(first), k.person); !fault.Is(err, fault.BadRequest) {
			t.Errorf("nothing is left, and yet: %v", err)
		}
	})
}

// TestSubmissionResumes runs jobs that stop between batches, and concurrent jobs: each
// row becomes one certificate.
func TestSubmissionResumes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		k.SetPartSize(4)
		draft := k.list(k.create(), rows(10))
		for i := range 10 {
			k.file(draft, fmt.Sprintf("%d.pdf", i))
		}
		k.ok(k.Submit(t.Context(), draft, nil))
		// The state after a crash during the second part.
		review := k.review(draft)
		for part := range 2 {
			k.ok(k.Part(t.Context(), k.inst, k.again(draft), part+1, 3, review.Rows[4*part:4*part+4]))
		}
		// The job is lost with the process, and a sweep adds another.
		if err := k.DB.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM river_job WHERE kind = 'bulk_import_submit'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		k.Advance(2 * bulkimport.LostAfter)
		k.ok(k.Sweep(t.Context()))
		k.ok(k.Sweep(t.Context()))
		if n := one[int](k, `SELECT count(*) FROM river_job WHERE kind = 'bulk_import_submit'`); n != 1 {
			t.Fatalf("%d jobs", n)
		}
		ended := make(chan error, 3)
		for range 3 {
			go func() { ended <- k.Service.Work(t.Context(), draft.ID) }()
		}
		for range 3 {
			<-ended // only one concurrent worker creates a part
		}
		p := k.finish(draft)
		if p.Total != 10 || p.Approved != 10 || len(p.Batches) != 3 {
			t.Errorf("%+v", p)
		}
		if n := one[int](k, `SELECT count(*) FROM batches`); n != 3 {
			t.Errorf("%d batches", n)
		}
		if n := one[int](k, `SELECT count(*) FROM certificates`); n != 10 {
			t.Errorf("%d certificates", n)
		}
	})
}

// TestResubmitRefusedPart removes files after the submission.
func TestResubmitRefusedPart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		k.SetPartSize(2)
		draft := k.list(k.create(), rows(3))
		for i := range 3 {
			k.file(draft, fmt.Sprintf("%d.pdf", i))
		}
		k.ok(k.Submit(t.Context(), draft, nil))
		if err := k.DB.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM staged_files WHERE file_name = '0.pdf'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		p := k.finish(draft)
		if p.Refused != 2 || p.Approved != 1 || len(p.Refusals) != 1 || p.Refusals[0].Problem == nil ||
			*p.Refusals[0].Problem != (cert.Problem{Field: cert.FieldFile, Code: batch.CodeUnknownFile}) {
			t.Fatalf("%+v", p)
		}
		again, err := k.Again(t.Context(), k.again(draft), k.person)
		k.ok(err)
		v := k.review(again)
		if len(v.Rows) != 2 || len(v.Missing) != 1 {
			t.Fatalf("%d rows, %d without a file", len(v.Rows), len(v.Missing))
		}
		k.file(again, "0.pdf")
		k.ok(k.Submit(t.Context(), k.again(again), nil))
		if p := k.finish(again); p.Approved != 2 {
			t.Errorf("%+v", p)
		}
	})
}

func TestSubmitIncompleteDraft(t *testing.T) {
	t.Parallel()
	k := newDesk(t, dbtest.Open(t, t.TempDir(), ""))
	draft := k.create()
	refused := func(says string) {
		t.Helper()
		err := k.Submit(t.Context(), k.again(draft), nil)
		if !fault.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		if d := k.again(draft); d.Status != bulkimport.Open {
			t.Errorf("it is %s", d.Status)
		}
	}
	refused("no list")
	k.ok(k.TakeList(t.Context(), draft, "a.csv", strings.NewReader(rows(1))))
	refused("columns")
	k.ok(k.SetMapping(t.Context(), k.again(draft), k.again(draft).Mapping))
	refused("1 row has a problem")
	k.ok(k.Skip(t.Context(), draft, 2, true))
	refused("nothing to submit")
	if _, err := k.Again(t.Context(), k.again(draft), k.person); !fault.Is(err, fault.BadRequest) {
		t.Errorf("again: %v", err)
	}
}

// TestTenThousandRows submits a list of the largest size.
func TestTenThousandRows(t *testing.T) {
	t.Parallel()
	k := newDesk(t, dbtest.Open(t, t.TempDir(), ""))
	text := rows(sheet.MaxRows)
	draft := k.create()
	k.file(draft, "one.pdf")
	k.ok(k.TakeList(t.Context(), draft, "all.csv", strings.NewReader(text)))
	draft = k.again(draft)
	m := draft.Mapping
	delete(m.Columns, sheet.File)
	m.Columns[sheet.File] = 0
	k.ok(k.SetMapping(t.Context(), draft, m))
	if v := k.review(draft); v.Invalid != sheet.MaxRows {
		t.Fatalf("%d rows without a file", v.Invalid)
	}
	// All rows use one file: the column of titles names it.
	k.file(draft, "BSc Physics.pdf")
	began := time.Now()
	v := k.review(draft)
	t.Logf("looking through %d rows took %v", len(v.Rows), time.Since(began))
	if v.Valid != sheet.MaxRows {
		t.Fatalf("%d rows are valid", v.Valid)
	}
	k.ok(k.Submit(t.Context(), k.again(draft), nil))
	k.ok(k.Service.Work(t.Context(), draft.ID))
	p, err := k.Progress(t.Context(), k.again(draft))
	k.ok(err)
	if p.Total != sheet.MaxRows || p.Processing != sheet.MaxRows || len(p.Batches) != 2 || p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
}
