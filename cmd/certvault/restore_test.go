package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestRestorePrepare checks that restore --prepare prepares the database once no server uses it, and prints what
// to check.
func TestRestorePrepare(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testRestorePrepare(t, "--data", t.TempDir())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testRestorePrepare(t, "--data", t.TempDir(), "--database", dbtest.PostgresURL(t))
	})
}

func testRestorePrepare(t *testing.T, storage ...string) {
	t.Helper()
	dir := storage[1]
	restore := func(args ...string) []string { return append(append([]string{"restore"}, storage...), args...) }
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil { // as certvault serve does
		t.Fatal(err)
	}
	refuse(t, "contains no vault", restore("--prepare", "--at", "1h")...)
	var created struct{ ID int64 }
	runJSON(t, "correct horse\n", &created, append([]string{"institution", "create", "--name", "Northwind University", "--prefix", "NWU",
		"--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin"}, storage...)...)
	refuse(t, "not restored", restore()...)
	for _, args := range [][]string{{"--prepare"}, {"--prepare", "--at", "1h", "--drill"}, {"--prepare", "--at", "1h", "--accept"}, {"--prepare", "--at", "1h", dir}} {
		if code, out, errs := certvault(t, "", restore(args...)...); code != exitUsage {
			t.Errorf("restore %v = %d, want %d: %s%s", args, code, exitUsage, out, errs)
		}
	}
	prepare := restore("--prepare", "--at", "2026-07-01T08:30:00Z")
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatalf("locking the data folder: %t, %v", ok, err)
	}
	refuse(t, "stop it first", prepare...)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	var state restoreState
	runJSON(t, "", &state, prepare...)
	if want := time.Date(2026, 7, 1, 8, 30, 0, 0, time.UTC); !state.CopiedAt.Equal(want) || state.AcceptedAt != nil || state.Unknown == nil || len(state.Unknown.Keys) != 1 {
		t.Errorf("state = %+v, want a pending restore of a copy of %s, and a signing key to check", state, want)
	}
	succeed(t, "Webhook endpoints (0)", prepare...)
	succeed(t, "restore --accept", restore()...)
	succeed(t, "is accepted", restore("--accept")...)
}
