package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// flipLast changes the last byte of a file.
func flipLast(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	write(t, file, string(text))
}

func replaceText(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("the file %s does not contain %s: %v", file, from, err)
	}
	write(t, file, strings.Replace(string(text), from, to, 1))
}

// TestTargetInUse checks that Restore rejects the data folder of a running vault.
func TestTargetInUse(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newOriginal(t, d)
	s := config.Storage{Data: t.TempDir()}
	lock := flock.New(filepath.Join(s.Data, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatalf("locking failed: %v", err)
	}
	defer func() { _ = lock.Unlock() }()
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("error = %v, want %v", err, backup.ErrInUse)
	}
	if _, err := os.Stat(lock.Path()); err != nil {
		t.Errorf("the lock file of the running vault: error = %v, want none", err)
	}
}

// TestPostgresTargetIsRejected checks that the restore of a dump needs an empty PostgreSQL database, and
// that a rejected restore does not mark the database.
func TestPostgresTargetIsRejected(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgresURL(t)
	d := dbtest.Open(t, "", url)
	o := newOriginal(t, d)
	s := config.Storage{Data: filepath.Join(t.TempDir(), "data")}
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); err == nil || !strings.Contains(err.Error(), "set --database") {
		t.Errorf("error without a database = %v, want the advice to set --database", err)
	}
	s.Database = url
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); !errors.Is(err, backup.ErrNotEmpty) || !strings.Contains(err.Error(), "table") {
		t.Errorf("error = %v, want %v with the name of a table", err, backup.ErrNotEmpty)
	}
	if err := d.CheckRestoring(t.Context()); err != nil {
		t.Errorf("the rejected restore marked the database: %v", err)
	}
	s.Database = dbtest.PostgresURL(t)
	flipLast(t, filepath.Join(o.backup, "database", "certvault.dump"))
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("error of a damaged dump = %v, want %v", err, backup.ErrDamaged)
	}
	flipLast(t, filepath.Join(o.backup, "database", "certvault.dump"))
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); err != nil {
		t.Errorf("restoring after a rejected restore failed: %v", err)
	}
}

// TestInterruptedPostgresRestore checks that CheckInterrupted and Restore reject a database whose restore
// was interrupted.
func TestInterruptedPostgresRestore(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	o := newOriginal(t, d)
	s := target(t, d)
	interrupted, err := db.Open(t.Context(), "", s.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = interrupted.Close() }()
	if err := interrupted.BeginRestore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := backup.CheckInterrupted(t.Context(), s.Data, interrupted); !errors.Is(err, db.ErrRestoring) {
		t.Errorf("CheckInterrupted = %v, want %v", err, db.ErrRestoring)
	}
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); !errors.Is(err, db.ErrRestoring) {
		t.Errorf("error = %v, want %v", err, db.ErrRestoring)
	}
}

// TestCancelledRestore checks that a restore that is cancelled leaves no files.
func TestCancelledRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newOriginal(t, d)
		s := target(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := backup.Restore(ctx, backup.RestoreOptions{Dir: o.backup, Target: s, Now: func() time.Time {
			if calls++; calls == 2 { // after all files are copied
				cancel()
			}
			return time.Now()
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want %v", err, context.Canceled)
		}
		if _, err := os.Stat(s.Data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cancelled restore left %v, want no files", files(t, s.Data))
		}
		if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); err != nil {
			t.Errorf("restoring after a cancelled restore failed: %v", err)
		}
	})
}

// TestRestoreAt checks which scheduled backup is restored.
func TestRestoreAt(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newOriginal(t, d)
	dir := t.TempDir()
	names := []string{"20260101T000000Z", "20260102T000000Z", "20260103T000000Z"}
	var made []time.Time
	for _, name := range names {
		made = append(made, o.makeBackup(t, filepath.Join(dir, name)).CreatedAt)
	}
	// Restore ignores an interrupted backup, which has no manifest, and other folders.
	write(t, filepath.Join(dir, "20260104T000000Z", "files", "blobs", "x"), "x")
	write(t, filepath.Join(dir, "notes", "x"), "x")
	for want, at := range map[string]time.Time{names[0]: made[0], names[1]: made[2].Add(-time.Nanosecond), names[2]: {}} {
		r, err := restore(t, backup.RestoreOptions{Dir: dir, At: at, Target: target(t, d)})
		if err != nil || filepath.Base(r.Backup) != want {
			t.Errorf("the restore at %s used %+v, %v, want %s", at, r, err, want)
		}
	}
	if _, err := restore(t, backup.RestoreOptions{Dir: dir, At: made[0].Add(-time.Microsecond), Target: target(t, d)}); !errors.Is(err, backup.ErrNoBackup) {
		t.Errorf("error for a time before all backups = %v, want %v", err, backup.ErrNoBackup)
	}
}

// TestRestoreIgnoresFutureBackups checks that Restore uses a backup with a date in the future only if there
// is no other, or if its folder is named.
func TestRestoreIgnoresFutureBackups(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newOriginal(t, d)
	dir := t.TempDir()
	future := filepath.Join(dir, time.Now().AddDate(1, 0, 0).UTC().Format("20060102T150405Z"))
	o.makeBackup(t, future)
	use := func(dir, want string, ignored ...string) {
		t.Helper()
		r, err := restore(t, backup.RestoreOptions{Dir: dir, Target: target(t, d)})
		if err != nil || r.Backup != want || !slices.Equal(r.Ignored, ignored) {
			t.Errorf("the restore of %s used %+v, %v, want %s and that %v is ignored", dir, r, err, want, ignored)
		}
	}
	use(dir, future)
	var now []string
	for _, name := range []string{"20260101T000000Z", "20260102T000000Z"} {
		now = append(now, filepath.Join(dir, name))
		o.makeBackup(t, filepath.Join(dir, name))
	}
	use(dir, now[1], future)
	use(future, future)
	// The time in the header counts too. At this clock, all headers have a time in the future.
	r, err := backup.Restore(t.Context(), backup.RestoreOptions{Dir: dir, Target: target(t, d), Now: func() time.Time { return time.Now().Add(-time.Hour) }})
	if err != nil || r.Backup != future || !r.Future() {
		t.Errorf("the restore with a clock that is an hour behind used %+v, %v, want %s with a warning", r, err, future)
	}
}

// TestRestoreWithOtherKeys checks that a restore does not copy the keys of the backup if the options
// contain the keys.
func TestRestoreWithOtherKeys(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newOriginal(t, d)
	s := target(t, d)
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s, Keyring: o.Keyring, Identity: []byte("AGE-SECRET-KEY-TEST")}); err != nil {
		t.Fatal(err)
	}
	if got := files(t, filepath.Join(s.Data, "keys")); len(got) != 0 {
		t.Errorf("keys = %v, want none", got)
	}
}

// TestAccept checks that Accept records the acceptance of a restore once, and rejects a drill.
func TestAccept(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Now()
		if _, err := backup.Accept(t.Context(), d, now); !errors.Is(err, backup.ErrNotRestored) {
			t.Errorf("Accept of a vault that was not restored = %v, want %v", err, backup.ErrNotRestored)
		}
		record := func(drill bool) {
			t.Helper()
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				return db.RecordRestoreTx(t.Context(), tx, db.Restore{CopiedAt: now, RestoredAt: now, Drill: drill})
			}); err != nil {
				t.Fatal(err)
			}
		}
		record(true)
		if _, err := backup.Accept(t.Context(), d, now); !errors.Is(err, backup.ErrDrill) {
			t.Errorf("Accept of a drill = %v, want %v", err, backup.ErrDrill)
		}
		record(false)
		for range 2 {
			if r, err := backup.Accept(t.Context(), d, now); err != nil || r.Pending() {
				t.Errorf("Accept = %+v, %v, want an accepted restore", r, err)
			}
		}
		if n := count(t, d, `SELECT count(*) FROM audit_entries WHERE action = 'vault.accepted'`); n != 1 {
			t.Errorf("%d entries in the audit log, want 1", n)
		}
		if r, err := d.LastRestore(t.Context()); err != nil || r.Pending() {
			t.Errorf("last restore = %+v, %v, want an accepted restore", r, err)
		}
	})
}
