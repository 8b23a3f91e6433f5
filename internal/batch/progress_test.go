package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

func (b *Batch) sum() int { return b.Processing + b.Approved + b.Failed + b.Rejected + b.Revoked }

// The numbers of a batch always match its entries, and each entry is counted once.
func TestProgress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		b := v.submit(v.submission(v.inst, v.stage(v.inst).UUID, append(people("Person", 58), "Person 1", "Person 2")...))
		check := func(when string, want Batch, status Status, progress int) []Entry {
			t.Helper()
			got, entries := v.get(v.inst, b.UUID)
			want.UUID, want.Name, want.Source, want.Context, want.Total, want.CreatedAt, want.id, want.institutionID = b.UUID, b.Name, cert.Vault, cert.BulkUpload, 60, b.CreatedAt, b.id, v.inst.ID
			if (got.CompletedAt == nil) != (status == Processing) {
				t.Errorf("%s: CompletedAt = %v for the status %s, want a time unless the batch is processing", when, got.CompletedAt, status)
			}
			if got.CompletedAt != nil && !got.CompletedAt.Equal(db.Time(db.Micros(v.clock.Now()))) {
				t.Errorf("%s: CompletedAt = %v, want %v", when, got.CompletedAt, v.clock.Now())
			}
			unfinished, err := OldestUnfinished(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			if unfinished.IsZero() != (status != Processing) || status == Processing && !unfinished.Equal(b.CreatedAt) {
				t.Errorf("%s: the oldest unfinished batch was created at %v, want %v if it is processing, otherwise the zero time", when, unfinished, b.CreatedAt)
			}
			want.CompletedAt = got.CompletedAt
			if *got != want || got.sum() != got.Total || got.Status() != status || got.Progress() != progress {
				t.Errorf("%s: batch %+v, status %s, progress %d %%, want %+v, %s, %d %%", when, got, got.Status(), got.Progress(), want, status, progress)
			}
			counted := map[string]int{}
			for _, e := range entries {
				if e.Status == "queued" {
					e.Status = "processing"
				}
				counted[e.Status]++
			}
			if len(entries) != 60 || counted["processing"] != want.Processing || counted["approved"] != want.Approved || counted["failed"] != want.Failed ||
				counted["rejected"] != want.Rejected || counted["revoked"] != want.Revoked {
				t.Errorf("%s: statuses of the entries %v, want the counts %+v", when, counted, want)
			}
			return entries
		}
		entries := check("accepted", Batch{Processing: 60}, Processing, 0)
		if e := entries[0]; e != (Entry{Index: 0, Status: "queued"}) {
			t.Errorf("the first entry is %+v, want a queued entry without a certificate", e)
		}
		if _, err := v.expand(ctx, nil); err != nil {
			t.Fatal(err)
		}
		check("after a slice", Batch{Processing: 60}, Processing, 0)
		v.clock.Advance(time.Second)
		v.expandAll()
		entries = check("expanded", Batch{Processing: 58, Rejected: 2}, Processing, 3)
		failing := []string{entries[3].ReferenceID, entries[4].ReferenceID}
		v.sealer.refuse = func(id string) bool { return slices.Contains(failing, id) }
		v.clock.Advance(time.Second)
		v.process("all are sealed", func() bool {
			got, _ := v.get(v.inst, b.UUID)
			if got.sum() != got.Total {
				t.Errorf("the sum of the counts differs from the total while certificates are sealed: %+v", got)
			}
			return got.Processing == 0
		})
		entries = check("done", Batch{Approved: 56, Failed: 2, Rejected: 2}, CompletedWithErrors, 100)
		if e := entries[3]; e.ErrorCode != "no_room" || e.Error != "There is no room for the stamp." || e.UUID == "" {
			t.Errorf("the failed entry is %+v, want the code no_room with its message, and the UUID of the certificate", e)
		}
		// After a retry, the batch is processing again, and gets a new completion time.
		v.sealer.refuse = nil
		v.clock.Advance(time.Hour)
		if _, err := v.certs.Retry(ctx, v.inst.ID, entries[3].UUID, nil); err != nil {
			t.Fatal(err)
		}
		if entries := check("retried", Batch{Processing: 1, Approved: 56, Failed: 1, Rejected: 2}, Processing, 98); entries[3].Error != "" {
			t.Errorf("the retried entry is %+v, want no error", entries[3])
		}
		v.process("the retried certificate is sealed", func() bool { got, _ := v.get(v.inst, b.UUID); return got.Processing == 0 })
		check("done again", Batch{Approved: 57, Failed: 1, Rejected: 2}, CompletedWithErrors, 100)
		v.clock.Advance(time.Hour)
		if _, err := v.certs.Revoke(ctx, v.inst.ID, entries[4].UUID, cert.Revocation{Reason: "A mistake"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.certs.Revoke(ctx, v.inst.ID, entries[5].UUID, cert.Revocation{Reason: "A mistake"}); err != nil {
			t.Fatal(err)
		}
		check("revoked", Batch{Approved: 56, Revoked: 2, Rejected: 2}, CompletedWithErrors, 100)
	})
}

// OldestUnfinished finds a batch with certificates in processing, and a batch with queued entries.
func TestOldestUnfinished(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		check := func(when string, want *Batch) {
			t.Helper()
			at, err := OldestUnfinished(t.Context(), d)
			if err != nil || !at.Equal(want.CreatedAt) {
				t.Errorf("%s: the oldest unfinished batch was created at %v, %v; want %v", when, at, err, want.CreatedAt)
			}
		}
		submit := func(name string) *Batch {
			v.clock.Advance(time.Hour)
			return v.submit(v.submission(v.inst, v.stage(v.inst).UUID, people(name, 2)...))
		}
		first, second := submit("First"), submit("Second")
		v.expandAll()
		third := submit("Third")
		check("two of three expanded", first)
		v.process("all are sealed", func() bool {
			return !slices.ContainsFunc([]*Batch{first, second, third}, func(b *Batch) bool { got, _ := v.get(v.inst, b.UUID); return got.Processing > 0 })
		})
		check("the fourth is submitted", submit("Fourth"))
	})
}

func TestBatchWithoutErrors(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	b := v.submit(v.submission(v.inst, v.stage(v.inst).UUID, people("Person", 3)...))
	v.process("all are approved", func() bool { got, _ := v.get(v.inst, b.UUID); return got.Approved == 3 })
	if got, _ := v.get(v.inst, b.UUID); got.Status() != Completed || got.CompletedAt == nil || got.Progress() != 100 {
		t.Errorf("the batch is %+v with the status %s, want a completed batch", got, got.Status())
	}
}

// A batch of the maximum size is accepted, and each of its entries becomes one certificate.
func TestLargestBatch(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips the batch of the maximum size")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		file := v.stage(v.inst).UUID
		draft := v.NewDraft()
		defer draft.Close()
		for i := range MaxEntries {
			if err := setPerson(draft, MaxIndex-i*199, fmt.Sprintf("Person %d", i), file); err != nil {
				t.Fatal(err)
			}
		}
		b := v.submit(Submission{Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7}, Context: cert.BulkUpload, Draft: draft})
		v.expandAll()
		got, entries := v.get(v.inst, b.UUID)
		if got.Total != MaxEntries || got.Processing != MaxEntries {
			t.Errorf("the batch is %+v, want MaxEntries entries, all processing", got)
		}
		if n := one[int](v, `SELECT count(DISTINCT certificate_id) FROM batch_entries WHERE status = 'made'`); n != MaxEntries {
			t.Errorf("%d certificates, want %d", n, MaxEntries)
		}
		if entries[0].Index != MaxIndex-199*(MaxEntries-1) || entries[MaxEntries-1].Index != MaxIndex {
			t.Errorf("the first index is %d and the last %d, want the lowest submitted index and MaxIndex", entries[0].Index, entries[MaxEntries-1].Index)
		}
		// Only the certificates that are sealed next have a job, so that a small batch of another
		// institution need not wait for the whole batch.
		if n := one[int](v, `SELECT count(*) FROM river_job WHERE queue = 'seal_bulk'`); n != 2 {
			t.Errorf("%d jobs in the queue, want 2", n)
		}
	})
}

func TestBatchesAreListedByInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		other := v.institution("OTH")
		file := v.stage(v.inst).UUID
		var want []string
		for i := range 5 {
			want = append(want, v.submit(v.submission(v.inst, file, people(fmt.Sprintf("Batch %d", i), i+1)...)).UUID)
			if i != 2 { // batches created at the same time are ordered by id
				v.clock.Advance(time.Minute)
			}
		}
		theirs := v.submit(v.submission(other, v.stage(other).UUID, "Ada Obi"))
		slices.Reverse(want)
		list := func(inst int64, source cert.Source, r listing.Range) (*List, []string) {
			t.Helper()
			l, err := v.List(ctx, inst, Filter{Range: r, Source: source})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, b := range l.Items {
				if b.sum() != b.Total || !strings.HasPrefix(b.Name, "Bulk upload of ") {
					t.Errorf("the batch in the list is %+v, want counts that add up to the total, and the default name", b)
				}
				ids = append(ids, b.UUID)
			}
			return l, ids
		}
		var got []string
		for page := 1; page <= 3; page++ {
			l, ids := list(v.inst.ID, cert.Vault, listing.Range{Page: page, PerPage: 2})
			if *l.Total != 5 || l.More != (page < 3) || l.Items[0].Total != 5-len(got) {
				t.Errorf("page %d is %+v, want the total 5, More on pages 1 and 2, and the next newest batch first", page, l)
			}
			got = append(got, ids...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed batches = %v, want %v", got, want)
		}
		if l, ids := list(v.inst.ID, "customer", listing.Range{Page: 1, PerPage: 10}); *l.Total != 0 || len(ids) != 0 {
			t.Errorf("the list for another source is %+v, want an empty list", l)
		}
		if l, ids := list(v.inst.ID, "", listing.Range{Page: 9, PerPage: 10}); *l.Total != 5 || len(ids) != 0 || l.More {
			t.Errorf("a page after the last is %+v, want no batches and the total 5", l)
		}
		// With a cursor, batches that are created between two pages do not appear, with or without
		// a source.
		next := ""
		for _, source := range []cert.Source{"", cert.Vault} {
			got, next = nil, ""
			for {
				l, ids := list(v.inst.ID, source, listing.Range{PerPage: 2, Cursor: &next})
				if got = append(got, ids...); l.Total != nil || l.More != (l.Next != "") {
					t.Errorf("a page with a cursor is %+v, want no total, and a next cursor exactly if there are more batches", l)
				}
				if next = l.Next; next == "" {
					break
				}
				v.submit(v.submission(v.inst, file, "Late Comer"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("batches listed with cursors = %v, want %v", got, want)
			}
			v.exec(`DELETE FROM batch_entries WHERE batch_id > $1`, theirs.id)
			v.exec(`DELETE FROM batches WHERE id > $1`, theirs.id)
		}
		// From the third page, the previous cursors lead to the second page and then to the first.
		last := ""
		l, _ := list(v.inst.ID, "", listing.Range{PerPage: 2, Cursor: &last})
		for range 2 {
			l, _ = list(v.inst.ID, "", listing.Range{PerPage: 2, Cursor: &l.Next})
		}
		for at := 2; at >= 0; at -= 2 {
			back, ids := list(v.inst.ID, "", listing.Range{PerPage: 2, Cursor: &l.Prev, Back: true})
			if !slices.Equal(ids, want[at:at+2]) || back.Next == "" || (back.Prev == "") != (at == 0) {
				t.Errorf("the page at offset %d = %v, want %v, a next cursor, and a previous cursor except at 0; %+v", at, ids, want[at:at+2], back.Part)
			}
			l = back
		}
		for name, tc := range map[string]struct {
			inst   int64
			uuid   string
			source cert.Source
		}{
			"of another institution": {v.inst.ID, theirs.UUID, ""}, "of another source": {v.inst.ID, want[0], "customer"},
			"unknown": {v.inst.ID, "00000000-0000-0000-0000-000000000000", ""},
		} {
			if _, err := v.ByUUID(ctx, tc.inst, tc.uuid, tc.source); !fault.Is(err, fault.NotFound) {
				t.Errorf("batch %s: error = %v, want fault.NotFound", name, err)
			}
		}
	})
}
