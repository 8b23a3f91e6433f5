package deletion_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/deletion"
)

func TestFileIsDeletedLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.rows.set("i/a.original", true)
		f.store.put(f.Now(), "i/a.original", "i/b.original", "i/c.original", "i/vanished.original")
		f.sweep(2 * time.Hour)
		if got := f.recorded(); len(got) != 0 {
			t.Errorf("recorded %v, want none, because no file is older than two hours", got)
		}
		f.sweep(day)
		if got, want := f.recorded(), []string{"i/b.original", "i/c.original", "i/vanished.original"}; !slices.Equal(got, want) {
			t.Fatalf("recorded %v, want the files without a row: %v", got, want)
		}
		if err := f.store.Delete(t.Context(), "i/vanished.original"); err != nil {
			t.Fatal(err)
		}
		for range 13 {
			f.sweep(day)
			f.want("while the files are kept", "i/a.original", "i/b.original", "i/c.original")
		}
		// A file that has a row again loses its record. Without the row, it is then kept for the whole
		// time again.
		f.rows.set("i/c.original", true)
		f.sweep(day)
		f.want("two weeks after the files were found", "i/a.original", "i/c.original")
		if got := f.recorded(); len(got) != 0 {
			t.Errorf("recorded %v, want none, because the files are deleted, have vanished or have a row", got)
		}
		f.rows.set("i/c.original", false)
		f.sweep(day)
		f.sweep(keep - time.Second)
		f.want("before the second time ends", "i/a.original", "i/c.original")
		f.sweep(day)
		f.want("after the second time", "i/a.original")
	})
}

func TestChangedSettingAppliesToRecordedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.put(f.Now(), "i/a.original")
		f.sweep(day)
		f.Service = f.node(2 * day)
		f.sweep(day)
		f.sweep(day)
		f.want("a day before the shorter time ends", "i/a.original")
		f.sweep(day)
		f.want("after the shorter time")
		// With the time 0, the next sweep deletes the file.
		f.Service = f.node(0)
		f.store.put(f.Now(), "i/b.original", "i/c.original")
		f.rows.set("i/c.original", true)
		f.sweep(day)
		f.want("with the time 0", "i/c.original")
		if got := f.recorded(); len(got) != 0 {
			t.Errorf("recorded %v, want none", got)
		}
	})
}

// A file that cannot be deleted does not keep other files from being deleted.
func TestFileThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.broken = "i/a.original"
		f.store.put(f.Now(), "i/a.original", "i/b.original")
		f.sweep(day)
		f.sweep(keep)
		f.want("after a deletion failed", "i/a.original")
		f.store.broken = ""
		f.sweep(day)
		f.want("after the deletion works again")
	})
}

// No file is deleted or recorded while a restore is not accepted.
func TestPendingRestoreHoldsTheSweep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.put(f.Now(), "i/a.original")
		f.sweep(day)
		f.tx(func(tx *db.Tx) error {
			return db.RecordRestoreTx(t.Context(), tx, db.Restore{CopiedAt: f.Now(), RestoredAt: f.Now()})
		})
		f.store.put(f.Now(), "i/b.original")
		f.sweep(2 * keep)
		f.want("while the restore is not accepted", "i/a.original", "i/b.original")
		if got := f.recorded(); len(got) != 1 {
			t.Errorf("recorded %v while the restore is not accepted, want only i/a.original", got)
		}
		f.tx(func(tx *db.Tx) error { return db.AcceptRestoreTx(t.Context(), tx, f.Now()) })
		f.sweep(0)
		f.want("after the restore was accepted", "i/b.original")
		f.sweep(keep)
		f.want("two weeks later")
	})
}

// Only one of several nodes sweeps, once a day.
func TestOneNodeSweeps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		nodes := []*deletion.Service{f.node(0), f.node(0), f.node(0)}
		sweep := func() {
			t.Helper()
			var running sync.WaitGroup
			for _, n := range nodes {
				running.Go(func() {
					if err := n.Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
		}
		visited := map[string]int{}
		var mu sync.Mutex
		f.store.visited = func(key string) error {
			mu.Lock()
			defer mu.Unlock()
			visited[key]++
			return nil
		}
		for i := range 20 {
			f.store.put(f.Now(), number(i))
		}
		f.Advance(3 * time.Hour)
		sweep()
		sweep()
		for key, n := range visited {
			if n != 1 {
				t.Errorf("%s was swept %d times, want once", key, n)
			}
		}
		if len(visited) != 20 || f.store.deleted != 20 {
			t.Errorf("%d files were swept and %d calls deleted a file, want 20 and 20", len(visited), f.store.deleted)
		}
		f.store.put(f.Now().Add(-day), "i/a.original")
		f.Advance(day - time.Second)
		sweep()
		f.want("less than a day after the sweep", "i/a.original")
		f.Advance(time.Second)
		sweep()
		f.want("a day after the sweep")
	})
}

// Another node continues the sweep of a node that stopped or is slow. The slow node ends its sweep.
func TestInterruptedSweepContinues(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for i := range 3500 {
			f.store.put(f.Now(), number(i))
		}
		f.Advance(3 * time.Hour)
		f.store.visited = func(key string) error {
			if key == number(2500) {
				return errStopped
			}
			return nil
		}
		if err := f.Sweep(t.Context()); !errors.Is(err, errStopped) {
			t.Fatalf("Sweep of a node that stops = %v, want its error", err)
		}
		first := ""
		other := f.node(keep)
		f.store.visited = func(key string) error {
			if first == "" {
				first = key
			}
			return nil
		}
		sweepOther := func() {
			if err := other.Sweep(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
		f.Advance(10*time.Minute - time.Second)
		if sweepOther(); first != "" {
			t.Errorf("another node swept %s before the claim of the first node ended", first)
		}
		f.Advance(time.Second)
		if sweepOther(); first != number(2000) {
			t.Errorf("another node continued with %s, want %s", first, number(2000))
		}
		if got := len(f.recorded()); got != 3500 {
			t.Errorf("%d files are recorded, want 3500", got)
		}
		// The next sweep begins a day after the first began. A slow node loses the claim.
		f.Advance(day - 10*time.Minute)
		slow := true
		f.store.visited = func(key string) error {
			if slow && key == number(1500) {
				slow = false
				f.Advance(10 * time.Minute)
				sweepOther()
			}
			return nil
		}
		f.sweep(0)
		if slow {
			t.Error("the sweep did not begin a day after the last")
		}
		var claimed string
		if err := d.QueryRowContext(t.Context(), `SELECT after_key FROM blob_sweeps`).Scan(&claimed); err != nil || claimed != "" {
			t.Errorf("after_key = %q, %v, want none, because the other node reached the end", claimed, err)
		}
	})
}

// After a clock was ahead, sweeps and deletions take place at their usual times.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.put(f.Now(), "i/a.original")
		right := f.Now()
		f.sweep(1000 * day)
		f.Set(right)
		f.sweep(day)
		f.sweep(keep - time.Second)
		f.want("before the time ends", "i/a.original")
		f.sweep(day)
		f.want("after the time")
	})
}

func TestErasedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		keys := []string{"i/a.original", "i/b.original"}
		f.store.put(f.Now(), keys...)
		f.rows.set("i/b.original", true)
		f.sweep(day)
		f.tx(func(tx *db.Tx) error { return deletion.ExpireTx(t.Context(), tx, keys, f.Now()) })
		kept, err := f.DeleteNow(t.Context(), keys)
		if err != nil || !slices.Equal(kept, keys[1:]) {
			t.Fatalf("DeleteNow = %v, %v, want the file with a row", kept, err)
		}
		f.want("after the erasure", "i/b.original")
		f.sweep(day)
		f.want("while a row refers to the file", "i/b.original")
		// The next sweep deletes the file, because no row refers to it any more.
		f.rows.set("i/b.original", false)
		f.sweep(day)
		f.want("without rows")
		// A file that comes back from a backup is deleted again, even if it is new in the store.
		f.store.put(f.Now().Add(day), keys...)
		f.sweep(day)
		f.want("after the erased files came back")
		if got := f.recorded(); !slices.Equal(got, keys) {
			t.Errorf("recorded %v, want the erased files %v", got, keys)
		}
	})
}

// A sweep needs only a few statements for each thousand files.
func TestSweepNeedsFewStatements(t *testing.T) {
	t.Parallel()
	proxy, proxied := dbtest.NewProxy(t, dbtest.MigratedURL(t))
	f := newFixture(t, dbtest.Open(t, "", proxied))
	statements := func(n int) int64 {
		for i := range n {
			f.store.put(f.Now().Add(-day), number(i))
			f.rows.set(number(i), i%3 == 0)
		}
		before := proxy.Statements()
		f.sweep(day)
		return proxy.Statements() - before
	}
	small, large := statements(999), statements(9999)
	if perPage := (large - small) / 9; small < 5 || perPage > 6 {
		t.Errorf("%d statements for 999 files and %d for 9,999, want at least 5, and at most 6 for each thousand files", small, large)
	}
	if f.rows.most > 1000 || f.rows.looked != 11 {
		t.Errorf("%d look-ups with up to %d keys, want 11 with up to 1,000", f.rows.looked, f.rows.most)
	}
}
