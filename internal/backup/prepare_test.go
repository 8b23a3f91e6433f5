package backup_test

import (
	"errors"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestPrepare checks that Prepare ends the links of a database that was restored by other means, skips
// numbers and records a pending restore, and that it does not prepare a database in use or a drill.
func TestPrepare(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		now, copied := time.Now().UTC().Truncate(time.Microsecond), time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour)
		f.Exec(`INSERT INTO setup_links (hash, created_at, expires_at) VALUES ($1, 1, 9999999999999999)`, []byte("link"))
		f.ok(f.Queue.Heartbeat(t.Context(), time.Now()))
		if _, err := backup.Prepare(t.Context(), d, copied, now); !errors.Is(err, backup.ErrInUse) {
			t.Errorf("Prepare while a server runs: error = %v, want %v", err, backup.ErrInUse)
		}
		if n := count(t, d, `SELECT count(*) FROM setup_links`); n != 1 {
			t.Errorf("%d links after Prepare failed, want 1", n)
		}
		f.Exec(`DELETE FROM nodes`)
		r, err := backup.Prepare(t.Context(), d, copied, now)
		f.ok(err)
		last, err := d.LastRestore(t.Context())
		if err != nil || !last.Pending() || !last.CopiedAt.Equal(copied) || !last.RestoredAt.Equal(now) || *last != *r {
			t.Errorf("last restore = %+v, %v, want the pending restore %+v of a copy of %s", last, err, r, copied)
		}
		for query, want := range map[string]int64{
			`SELECT count(*) FROM setup_links`:                                   0,
			`SELECT count(*) FROM audit_entries WHERE action = 'vault.restored'`: 1,
		} {
			if got := count(t, d, query); got != want {
				t.Errorf("%s = %d, want %d", query, got, want)
			}
		}
		before := count(t, d, `SELECT max(id) FROM certificates`)
		f.issue(1)
		if after := count(t, d, `SELECT max(id) FROM certificates`); after != before+db.IDGap+1 {
			t.Errorf("id of a new certificate = %d, want %d", after, before+db.IDGap+1)
		}
		f.Exec(`UPDATE restores SET drill = 1`)
		f.Exec(`DELETE FROM nodes`)
		if _, err := backup.Prepare(t.Context(), d, copied, now); !errors.Is(err, backup.ErrDrill) {
			t.Errorf("Prepare of a drill: error = %v, want %v", err, backup.ErrDrill)
		}
	})
}

// TestPrepareNeedsAVault checks that Prepare does not create the schema of an empty database.
func TestPrepareNeedsAVault(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := backup.Prepare(t.Context(), d, time.Now(), time.Now()); err == nil {
		t.Error("Prepare of an empty database returned no error")
	}
	if empty, err := d.IsEmpty(t.Context()); err != nil || !empty {
		t.Errorf("the database is empty: %t, %v; want true", empty, err)
	}
}
