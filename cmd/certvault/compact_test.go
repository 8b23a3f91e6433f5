package main

import (
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// TestCompact checks that compact prints the sizes of the database, and that it does not run beside a
// server or on PostgreSQL.
func TestCompact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refuse(t, "contains no vault", "compact", "--data", dir)
	createInstitution(t, dir)
	var sizes struct {
		Before int64 `json:"bytes_before"`
		After  int64 `json:"bytes_after"`
	}
	runJSON(t, "", &sizes, "compact", "--data", dir)
	if sizes.After <= 0 || sizes.After > sizes.Before {
		t.Errorf("sizes = %+v, want a file that is not larger than before", sizes)
	}
	succeed(t, "The file of the database has", "compact", "--data", dir)
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatalf("locking the data folder: %t, %v", ok, err)
	}
	refuse(t, "stop it first", "compact", "--data", dir)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	refuse(t, "VACUUM FULL", "compact", "--data", dir, "--database", "postgres://localhost/x")
}
