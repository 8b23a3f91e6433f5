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
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// TestFromListToResults submits a list with duplicates, a certificate that fails and a skipped row. It
// checks the results, retries the failed certificate, and submits corrected rows again.
func TestFromListToResults(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
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
		k.ok(k.Skip(t.Context(), k.reload(draft), 10, true))
		k.ok(k.Fix(t.Context(), k.reload(draft), 3, map[sheet.Column]string{sheet.Name: "Persona Una"}))
		run, err := k.DryRun(t.Context(), k.reload(draft))
		k.ok(err)
		if run.Certificates != 6 || run.Batches != 3 || len(run.Existing) != 1 || run.Existing[0].Number != 2 || len(run.Duplicates) != 1 || run.Duplicates[0].Number != 9 ||
			len(run.Shared) != 0 {
			t.Fatalf("%d certificates, %d batches, existing %v, duplicates %v, shared %v, want 6, 3, 2, 9, none", run.Certificates, run.Batches, run.Existing, run.Duplicates, run.Shared)
		}
		// Repeated submissions have no effect, even with an old state of the draft.
		stale := k.reload(draft)
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		k.ok(k.Submit(t.Context(), stale, nil))
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		p := k.finish(draft)
		if p.Total != 8 || p.Approved != 5 || p.Failed != 1 || p.Rejected != 2 || p.Percent() != 100 || len(p.Batches) != 3 {
			t.Fatalf("the progress is %+v, want 5 approved, 1 failed and 2 rejected of 8 rows in 3 batches", p)
		}
		if n := one[int](k, `SELECT count(*) FROM certificates WHERE trigger_context = 'panel_bulk_upload' AND creator_type = 'user' AND creator_id = 7`); n != 7 {
			t.Errorf("the person has %d certificates from the panel, want 7", n)
		}

		var b bytes.Buffer
		k.ok(k.WriteResults(t.Context(), k.reload(draft), k.Links.Verify, codesOf, &b))
		list, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(list) != 10 {
			t.Fatalf("the rows of results.csv are %q, want 10 with the header; error %v", list, err)
		}
		for row, want := range map[int]string{1: "rejected", 2: "approved", 3: "failed", 8: "rejected", 9: "skipped"} {
			if got := list[row]; got[5] != fmt.Sprint(row+1) || got[6] != want {
				t.Errorf("row %d of results.csv is %q, want the number of the row in the list and its status", row, got)
			}
		}
		if list[1][11] == "" || list[2][8] != k.Links.Verify(list[2][7]) || list[3][10] == "" || list[9][0] != "'=cmd()" {
			t.Errorf("the rows of results.csv are %q, want the existing certificate, the address, the error and the escaped formula", list)
		}
		// A row of the results has the texts of the list, and the text of the certificate or the reason
		// why there is none.
		if got := list[2]; got[1] != "Person 1" || !slices.Equal(got[12:], []string{"BSc Physics", "Persona Una", "person.1@example.org", "2026-06-30", "", "1.pdf", ""}) ||
			strings.Join(list[1][12:], "") != "" || list[9][10] != "file: no_file: none.pdf" {
			t.Errorf("the rows of results.csv are %q, want the issued text for row 3, none for row 2, and the reason of the skipped row", list)
		}

		k.sealer.refuse.Delete("2.pdf")
		if _, err := k.RetryFailed(t.Context(), k.inst, k.reload(draft), nil); err != nil {
			t.Fatal(err)
		}
		k.Until("the failed certificate is retried", func() bool {
			return one[int](k, `SELECT count(*) FROM certificate_tasks WHERE finished_at IS NULL`) == 0
		})
		p = k.finish(draft)
		if p.Approved != 6 || p.Failed != 0 || p.Rejected != 2 {
			t.Errorf("the progress is %+v, want 6 approved, none failed and 2 rejected", p)
		}
		if n := one[int](k, `SELECT coalesce(sum(succeeded), 0) FROM certificate_tasks`); n != 1 {
			t.Errorf("%d certificates were retried, want 1", n)
		}

		// A rejected row can be corrected and submitted again with the same file.
		again, err := k.Resubmit(t.Context(), k.reload(draft), k.person)
		k.ok(err)
		v := k.review(again)
		if len(v.Rows) != 3 || v.Valid != 2 || v.Invalid != 1 || len(v.Files) != 2 {
			t.Fatalf("the draft of the rejected rows has %d rows, %d valid, %d invalid, and %d files, want 3, 2, 1 and 2", len(v.Rows), v.Valid, v.Invalid, len(v.Files))
		}
		k.ok(k.Fix(t.Context(), k.reload(again), 9, map[sheet.Column]string{sheet.Email: "twin@example.org"}))
		k.ok(k.Skip(t.Context(), k.reload(again), 10, true))
		if n, err := k.SkipExisting(t.Context(), k.reload(again)); err != nil || n != 1 {
			t.Errorf("%d rows with an existing certificate were skipped, want 1; error %v", n, err)
		}
		k.Advance(25 * time.Hour)
		k.ok(k.Batches.SweepStaged(t.Context()))
		k.ok(k.Submit(t.Context(), k.reload(again), nil))
		if p := k.finish(again); p.Total != 1 || p.Approved != 1 {
			t.Errorf("the progress is %+v, want 1 approved of 1 row", p)
		}
	})
}

// The results explain why rows were skipped. Only the skipped rows with a problem are copied to the
// next draft, with their files.
func TestResultsExplainSkippedRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		first := k.list(k.create(), rows(1))
		k.file(first, "0.pdf")
		k.ok(k.Submit(t.Context(), first, nil))
		if list, err := k.List(t.Context(), k.inst.ID, k.person.ID); err != nil || len(list) != 1 || list[0].Done {
			t.Errorf("the list before the first batch is %v, want one draft that is not done; error %v", list, err)
		}
		k.finish(first)

		draft := k.list(k.create(), rows(4)+"BSc Physics,Twin,person.1@example.org,1.pdf,2026-06-30\nBSc Physics,Bad,bad@example.org,bad.pdf,2026-06-30\n")
		for _, name := range []string{"0.pdf", "1.pdf", "2.pdf", "3.pdf", "unused.pdf"} {
			k.file(draft, name)
		}
		bad, err := k.AddFile(t.Context(), k.inst, k.reload(draft), "bad.pdf", strings.NewReader("no PDF"))
		k.ok(err)
		for _, row := range []int{2, 5, 6, 7} {
			k.ok(k.Skip(t.Context(), k.reload(draft), row, true))
		}
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		if p := k.finish(draft); p.Total != 2 || p.Approved != 2 || p.Skipped != 4 {
			t.Fatalf("the progress is %+v, want 2 approved and 4 skipped", p)
		}
		if list, err := k.List(t.Context(), k.inst.ID, k.person.ID); err != nil || len(list) != 2 || !list[0].Done || !list[1].Done {
			t.Errorf("the list after both drafts are finished is %v, want two drafts that are done; error %v", list, err)
		}
		results, err := k.Results(t.Context(), k.reload(draft))
		k.ok(err)
		left := bulkimport.NotIssued(results)
		if len(left) != 4 {
			t.Fatalf("%d rows have no certificate, want 4", len(left))
		}
		for i, want := range []cert.Problem{
			{Code: cert.CodeDuplicate, Detail: left[0].ExistingUUID}, {Code: bulkimport.CodeSkipped}, {Code: bulkimport.CodeSameRow, Limit: 3},
			{Field: cert.FieldFile, Code: cert.CodeRefusedFile, Detail: bad.Problem},
		} {
			if got := left[i]; got.Status != bulkimport.StatusSkipped || len(got.Reasons) != 1 || got.Reasons[0].Problem != want || got.Again != (i == 3) {
				t.Errorf("row %d has the status %s, the reasons %v and Again = %t; want the reason %v", got.Number, got.Status, got.Reasons, got.Again, want)
			}
		}
		if left[0].ExistingUUID == "" {
			t.Error("the UUID of the existing certificate is missing")
		}
		again, err := k.Resubmit(t.Context(), k.reload(draft), k.person)
		k.ok(err)
		if v := k.review(again); len(v.Rows) != 1 || v.Rows[0].Number != 7 || len(v.Files) != 1 || v.Files[0].Problem != bad.Problem {
			t.Errorf("the draft of the skipped rows has the rows %+v and the files %+v, want only row 7 and its refused file", v.Rows, v.Files)
		}
		if _, err := k.Resubmit(t.Context(), k.reload(first), k.person); !fault.Is(err, fault.BadRequest) {
			t.Errorf("Resubmit without rejected rows: error = %v, want fault.BadRequest", err)
		}
	})
}

// TestSubmissionResumes runs three jobs at the same time for a draft that already has two of its three
// batches. Each row becomes one certificate.
func TestSubmissionResumes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		k.SetPartSize(4)
		draft := k.list(k.create(), rows(10))
		for i := range 10 {
			k.file(draft, fmt.Sprintf("%d.pdf", i))
		}
		k.ok(k.Submit(t.Context(), draft, nil))
		// This is the state after a crash during the third part.
		review := k.review(draft)
		for part := range 2 {
			k.ok(k.Part(t.Context(), k.inst, k.reload(draft), part+1, 3, review.Rows[4*part:4*part+4]))
		}
		// The sweeps insert one job in place of the missing one.
		if err := k.DB.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM river_job WHERE kind = 'bulk_import_submit'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		k.Advance(2 * bulkimport.JobWait)
		k.ok(k.Sweep(t.Context()))
		k.ok(k.Sweep(t.Context()))
		if n := one[int](k, `SELECT count(*) FROM river_job WHERE kind = 'bulk_import_submit'`); n != 1 {
			t.Fatalf("%d jobs after the sweeps, want 1", n)
		}
		ended := make(chan error, 3)
		for range 3 {
			go func() { ended <- k.Service.Work(t.Context(), draft.ID) }()
		}
		for range 3 {
			<-ended // an error is possible, because the workers create the same batch
		}
		p := k.finish(draft)
		if p.Total != 10 || p.Approved != 10 || len(p.Batches) != 3 {
			t.Errorf("the progress is %+v, want 10 approved of 10 rows in 3 batches", p)
		}
		if n := one[int](k, `SELECT count(*) FROM batches`); n != 3 {
			t.Errorf("%d batches, want 3", n)
		}
		if n := one[int](k, `SELECT count(*) FROM certificates`); n != 10 {
			t.Errorf("%d certificates, want 10", n)
		}
	})
}

// TestResubmitRefusedPart deletes a staged file after the submission, so that a part is refused,
// and submits the rows of this part again.
func TestResubmitRefusedPart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
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
			t.Fatalf("the progress is %+v, want 1 approved, 2 refused, and the problem of an unknown file", p)
		}
		again, err := k.Resubmit(t.Context(), k.reload(draft), k.person)
		k.ok(err)
		v := k.review(again)
		if len(v.Rows) != 2 || len(v.Missing) != 1 {
			t.Fatalf("the draft of the refused part has %d rows, %d without a file, want 2 and 1", len(v.Rows), len(v.Missing))
		}
		k.file(again, "0.pdf")
		k.ok(k.Submit(t.Context(), k.reload(again), nil))
		if p := k.finish(again); p.Approved != 2 {
			t.Errorf("the progress is %+v, want 2 approved", p)
		}
	})
}

func TestSubmitIncompleteDraft(t *testing.T) {
	t.Parallel()
	k := newFixture(t, dbtest.Open(t, t.TempDir(), ""))
	draft := k.create()
	requireRefused := func(text string) {
		t.Helper()
		err := k.Submit(t.Context(), k.reload(draft), nil)
		if !fault.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), text) {
			t.Errorf("submitting an incomplete draft: error = %v, want fault.BadRequest with %q", err, text)
		}
		if d := k.reload(draft); d.Status != bulkimport.Open {
			t.Errorf("the status after a refused submission is %s, want open", d.Status)
		}
	}
	requireRefused("no list")
	k.ok(k.SetList(t.Context(), draft, "a.csv", strings.NewReader(rows(1))))
	requireRefused("columns")
	k.ok(k.SetMapping(t.Context(), k.reload(draft), k.reload(draft).Mapping))
	requireRefused("1 row has errors")
	k.ok(k.Skip(t.Context(), draft, 2, true))
	requireRefused("nothing to submit")
	if _, err := k.Resubmit(t.Context(), k.reload(draft), k.person); !fault.Is(err, fault.BadRequest) {
		t.Errorf("Resubmit before the submission: error = %v, want fault.BadRequest", err)
	}
}

// TestLongestList submits a list of the maximum size. With -short, the list has only one row more
// than a batch can have.
func TestLongestList(t *testing.T) {
	t.Parallel()
	count := sheet.MaxRows
	if testing.Short() {
		count = batch.MaxEntries + 1
	}
	k := newFixture(t, dbtest.Open(t, t.TempDir(), ""))
	text := rows(count)
	draft := k.create()
	k.file(draft, "one.pdf")
	k.ok(k.SetList(t.Context(), draft, "all.csv", strings.NewReader(text)))
	draft = k.reload(draft)
	m := draft.Mapping
	delete(m.Columns, sheet.File)
	m.Columns[sheet.File] = 0
	k.ok(k.SetMapping(t.Context(), draft, m))
	if v := k.review(draft); v.Invalid != count {
		t.Fatalf("%d rows are invalid, want all", v.Invalid)
	}
	// All rows use one file, because the column of titles is also the column of file names.
	k.file(draft, "BSc Physics.pdf")
	began := time.Now()
	v := k.review(draft)
	t.Logf("the review of %d rows took %v", len(v.Rows), time.Since(began))
	if v.Valid != count {
		t.Fatalf("%d rows are valid, want all", v.Valid)
	}
	k.ok(k.Submit(t.Context(), k.reload(draft), nil))
	k.ok(k.Service.Work(t.Context(), draft.ID))
	p, err := k.Progress(t.Context(), k.reload(draft))
	k.ok(err)
	if p.Total != count || p.Processing != count || len(p.Batches) != 2 || p.Waiting != 0 {
		t.Errorf("the progress is %+v, want all rows in 2 batches with the status processing", p)
	}
}
