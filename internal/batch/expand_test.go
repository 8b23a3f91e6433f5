package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// runJob runs a job without the queue.
func (v *vault) runJob(ctx context.Context) error {
	return v.worker.Work(ctx, &river.Job[expandArgs]{})
}

func TestEntriesBecomeCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		staged := v.stage(v.inst)
		u := v.submission(v.inst, staged.UUID, "Ada Obi", "Bo Li")
		for field, value := range map[cert.Field]string{cert.FieldIssueDate: "2024-02-29", cert.FieldDetails: " with honours "} {
			if err := u.Draft.Set(1, field, value); err != nil {
				t.Fatal(err)
			}
		}
		accepted := v.clock.Now().UTC()
		b := v.submit(u)
		if b.Total != 2 || b.Processing != 2 || b.Status() != Processing {
			t.Errorf("the accepted batch is %+v, want two entries, both processing", b)
		}
		// An entry without a date gets the date on which it was accepted.
		v.clock.Advance(30 * time.Hour)
		if err := v.runJob(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, entries := v.get(v.inst, b.UUID)
		for i, want := range []cert.Certificate{
			{Title: "BSc Physics", FullName: "Ada Obi", Email: "ada.obi@example.org", IssueDate: accepted.Format(time.DateOnly)},
			{Title: "BSc Physics", FullName: "Bo Li", Email: "bo.li@example.org", IssueDate: "2024-02-29", Details: "with honours"},
		} {
			c, err := v.certs.ByUUID(t.Context(), v.inst.ID, entries[i].UUID)
			if err != nil {
				t.Fatal(err)
			}
			if c.Title != want.Title || c.FullName != want.FullName || c.Email != want.Email || c.IssueDate != want.IssueDate || c.Details != want.Details {
				t.Errorf("the certificate is %+v, want %+v", c, want)
			}
			if c.BatchID != b.UUID || c.Status != cert.Processing || c.TriggerContext != cert.BulkUpload || c.Source != cert.Vault ||
				c.Creator != (cert.Actor{Type: "token", ID: 7, Name: "Registry"}) || c.ReferenceID != entries[i].ReferenceID ||
				!strings.HasPrefix(c.ReferenceID, "NWU-") || entries[i].Index != i || entries[i].Status != "processing" {
				t.Errorf("the certificate %+v does not match the entry %+v", c, entries[i])
			}
			if c.File.Key != staged.File.Key || c.File.SHA256 != staged.File.SHA256 || c.File.Name != "diploma.pdf" || c.File.Size != staged.File.Size {
				t.Errorf("the file is %+v, want %+v", c.File, staged.File)
			}
			if n := one[int](v, `SELECT count(*) FROM webhook_events WHERE certificate_id = $1 AND name = 'certificate_application.created'
				AND payload LIKE '%"trigger_context":"bulk_upload"%'`, c.ID); n != 1 {
				t.Errorf("%d events of the creation, want 1", n)
			}
		}
		// Names and addresses are stored only in the certificates.
		if n := one[int](v, `SELECT count(*) FROM batch_entries WHERE input IS NOT NULL OR staged_id IS NOT NULL`); n != 0 {
			t.Errorf("%d entries still have their input or file, want 0", n)
		}
	})
}

// An entry is rejected if its certificate exists or an earlier entry of the batch is the same. If a batch
// is sent again, only the missing certificates are created.
func TestOnlyDuplicatesAreRejected(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		staged := v.stage(v.inst)
		first := v.submit(v.submission(v.inst, staged.UUID, "Ada Obi"))
		v.expandAll()
		_, entries := v.get(v.inst, first.UUID)
		ada := entries[0].UUID
		// A certificate of another institution is not a duplicate.
		other := v.institution("OTH")
		v.submit(v.submission(other, v.stage(other).UUID, "Bo Li"))
		v.expandAll()

		again := v.submit(v.submission(v.inst, staged.UUID, "Bo Li", "ADA OBI", "Cy Ito", "Bo Li", "Di Roy"))
		v.expandAll()
		b, entries := v.get(v.inst, again.UUID)
		if b.Total != 5 || b.Processing != 3 || b.Rejected != 2 || b.Approved+b.Failed+b.Revoked != 0 {
			t.Errorf("the batch is %+v, want 5 entries: 3 processing and 2 rejected", b)
		}
		bo := entries[0].UUID
		for i, existing := range map[int]string{1: ada, 3: bo} {
			e := entries[i]
			if e.Index != i || e.Status != "rejected" || e.UUID != "" || e.ReferenceID != "" || e.ErrorCode != "duplicate" || e.ExistingUUID != existing ||
				e.Problem == nil || *e.Problem != (cert.Problem{Field: cert.FieldEmail, Code: cert.CodeDuplicate, Detail: existing}) || e.Error != "" {
				t.Errorf("the entry is %+v, want a duplicate of %s", e, existing)
			}
		}
		// Earlier releases stored no problem for a duplicate. Entries adds it.
		v.exec(`UPDATE batch_entries SET error = 'A duplicate.', problem = NULL WHERE status = 'rejected'`)
		if _, entries := v.get(v.inst, again.UUID); entries[3].Problem == nil || entries[3].Problem.Code != cert.CodeDuplicate || entries[3].Problem.Detail != bo {
			t.Errorf("the entry that an earlier release rejected is %+v, want the problem of a duplicate", entries[3])
		}
		for _, i := range []int{0, 2, 4} {
			if e := entries[i]; e.Status != "processing" || e.UUID == "" || e.Error != "" || e.ExistingUUID != "" {
				t.Errorf("the entry is %+v, want a certificate that is processing", e)
			}
		}
		if n := one[int](v, `SELECT count(*) FROM certificates WHERE institution_id = $1`, v.inst.ID); n != 4 {
			t.Errorf("%d certificates, want 4", n)
		}
		// Submit the same entries again, with one new entry.
		last := v.submit(v.submission(v.inst, staged.UUID, "Ada Obi", "Bo Li", "Cy Ito", "Di Roy", "Eva Kim"))
		v.expandAll()
		b, entries = v.get(v.inst, last.UUID)
		if b.Rejected != 4 || b.Processing != 1 || entries[4].Status != "processing" {
			t.Errorf("after the second submission: batch %+v, entries %+v, want 4 rejected entries and one processing", b, entries)
		}
	})
}

// Institutions take turns after each slice of at most 50 entries of one batch.
func TestExpansionTakesTurns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		insts := map[int64]string{v.inst.ID: "a"}
		large := v.stage(v.inst).UUID
		v.submit(v.submission(v.inst, large, people("Large", 120)...))
		v.submit(v.submission(v.inst, large, people("Next", 60)...))
		for _, prefix := range []string{"B", "C"} {
			inst := v.institution(prefix + "X")
			insts[inst.ID] = strings.ToLower(prefix)
			v.submit(v.submission(inst, v.stage(inst).UUID, people("Small", 51)...))
		}
		var order []string
		for {
			before := one[int](v, `SELECT count(*) FROM certificates`)
			inst, err := v.expand(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if inst == 0 {
				break
			}
			v.clock.Advance(time.Millisecond)
			order = append(order, fmt.Sprintf("%s%d", insts[inst], one[int](v, `SELECT count(*) FROM certificates`)-before))
		}
		want := []string{"a50", "b50", "c50", "a50", "b1", "c1", "a20", "a50", "a10"}
		if !slices.Equal(order, want) {
			t.Errorf("institutions and sizes of the slices = %v, want %v", order, want)
		}
	})
}

// An error in one institution's slice does not delay another institution. The slice is processed
// after the error is corrected.
func TestFailureOfOneInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		bad := v.submit(v.submission(v.inst, v.stage(v.inst).UUID, "Ada Obi", "Bo Li"))
		good := v.submit(v.submission(other, v.stage(other).UUID, "Cy Ito", "Di Roy"))
		input := one[string](v, `SELECT input FROM batch_entries WHERE batch_id = $1 AND entry_index = 1`, bad.id)
		v.exec(`UPDATE batch_entries SET input = 'no JSON' WHERE batch_id = $1 AND entry_index = 1`, bad.id)
		if err := v.runJob(t.Context()); err == nil {
			t.Fatal("error = nil, want the error of the slice")
		}
		queuedOf := func(b *Batch) int {
			return one[int](v, `SELECT count(*) FROM batch_entries WHERE batch_id = $1 AND status = 'queued'`, b.id)
		}
		if queuedOf(bad) != 2 || queuedOf(good) != 0 {
			t.Errorf("the failing batch has %d queued entries and the other batch has %d, want 2 and 0", queuedOf(bad), queuedOf(good))
		}
		v.exec(`UPDATE batch_entries SET input = $1 WHERE batch_id = $2 AND entry_index = 1`, input, bad.id)
		if err := v.runJob(t.Context()); err != nil || queuedOf(bad) != 0 {
			t.Errorf("after the correction: %d queued entries, want 0; error %v", queuedOf(bad), err)
		}
	})
}

// An entry whose file is missing is rejected, and the other entry becomes a certificate.
func TestEntryWithoutItsFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		u := v.submission(v.inst, v.stage(v.inst).UUID, "Ada Obi")
		if err := setPerson(u.Draft, 1, "Bo Li", v.stage(v.inst).UUID); err != nil {
			t.Fatal(err)
		}
		b := v.submit(u)
		v.exec(`DELETE FROM staged_files WHERE id = (SELECT max(id) FROM staged_files)`)
		v.expandAll()
		got, entries := v.get(v.inst, b.UUID)
		if got.Processing != 1 || got.Rejected != 1 || entries[1].Status != "rejected" || entries[1].ErrorCode != "invalid" || entries[1].Problem == nil ||
			*entries[1].Problem != (cert.Problem{Field: cert.FieldFile, Code: cert.CodeRequired}) {
			t.Errorf("the batch is %+v with the entries %+v, want the second entry rejected because its file is missing", got, entries)
		}
		// Earlier releases stored a message instead of a problem.
		v.exec(`UPDATE batch_entries SET error = 'No file.', problem = NULL WHERE status = 'rejected'`)
		if _, entries := v.get(v.inst, b.UUID); entries[1].Error != "No file." || entries[1].Problem != nil {
			t.Errorf("the entry that an earlier release rejected is %+v, want its message and no problem", entries[1])
		}
	})
}

// Concurrent workers create each certificate once.
func TestConcurrentWorkers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		same := people("Same", 150)
		file, otherFile := v.stage(v.inst).UUID, v.stage(other).UUID
		for range 2 {
			v.submit(v.submission(v.inst, file, same...))
			v.submit(v.submission(other, otherFile, same...))
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, snoozed := errors.AsType[*river.JobSnoozeError](v.runJob(t.Context())); snoozed {
					t.Error("a job returned to the queue before all entries were processed")
				}
			})
		}
		wg.Wait()
		if err := v.runJob(t.Context()); err != nil {
			t.Fatal(err)
		}
		if made := one[int](v, `SELECT count(*) FROM certificates`); made != 300 {
			t.Errorf("%d certificates, want 300", made)
		}
		for status, want := range map[entryStatus]int{queued: 0, made: 300, rejected: 300} {
			if n := one[int](v, `SELECT count(*) FROM batch_entries WHERE status = $1`, string(status)); n != want {
				t.Errorf("%d entries are %s, want %d", n, status, want)
			}
		}
	})
}

// A job returns to the queue after slicesOfJob slices, or at once if its process stops.
func TestLongJobReturnsToQueue(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	v.submit(v.submission(v.inst, v.stage(v.inst).UUID, people("Many", slice*slicesOfJob+1)...))
	snoozed := func(err error) bool {
		_, ok := errors.AsType[*river.JobSnoozeError](err)
		return ok
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.runJob(stopped); !snoozed(err) {
		t.Errorf("stopped process: error = %v, want river.JobSnoozeError", err)
	}
	if err := v.runJob(t.Context()); !snoozed(err) {
		t.Errorf("after slicesOfJob slices: error = %v, want river.JobSnoozeError", err)
	}
	if n := one[int](v, `SELECT count(*) FROM batch_entries WHERE status = 'queued'`); n != 1 {
		t.Errorf("%d entries are queued, want 1", n)
	}
	if err := v.runJob(t.Context()); err != nil {
		t.Errorf("the job that processes the last entry: error = %v, want none", err)
	}
}

// The expansion pauses only if enough certificates wait for a job. If it paused earlier, the workers that
// seal would wait for it.
func TestExpansionStaysAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.submit(v.submission(v.inst, v.stage(v.inst).UUID, people("Many", ahead+3*slice)...))
		v.now = func() time.Time { // a slice takes an hour, and so does a pause
			v.clock.Advance(time.Hour)
			return v.clock.Now()
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- v.runJob(ctx) }()
		queued := func() int { return one[int](v, `SELECT count(*) FROM batch_entries WHERE status = 'queued'`) }
		for end := time.Now().Add(time.Minute); queued() > 2*slice && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // an expansion without a pause would continue
		cancel()
		<-result
		if n := queued(); n != 2*slice {
			t.Errorf("%d entries are queued when the expansion pauses, want %d", n, 2*slice)
		}
	})
}

func TestSweepInsertsMissingJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		jobs := func() int {
			return one[int](v, `SELECT count(*) FROM river_job WHERE kind = 'batch_expand' AND queue = 'batch' AND state = 'available'`)
		}
		sweep := func() {
			t.Helper()
			if err := v.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		if jobs() != 0 {
			t.Errorf("%d jobs without a batch, want 0", jobs())
		}
		v.submit(v.submission(v.inst, v.stage(v.inst).UUID, "Ada Obi"))
		sweep()
		if jobs() != 1 {
			t.Errorf("%d jobs for the batch, want 1", jobs())
		}
		v.exec(`UPDATE river_job SET state = 'discarded', finalized_at = scheduled_at`)
		sweep()
		sweep()
		if jobs() != 1 {
			t.Errorf("%d jobs after the job was discarded, want 1", jobs())
		}
		v.expandAll()
		v.exec(`DELETE FROM river_job`)
		sweep()
		if jobs() != 0 {
			t.Errorf("%d jobs after all entries are processed, want 0", jobs())
		}
	})
}
