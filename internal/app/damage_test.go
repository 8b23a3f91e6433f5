package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// overwrite overwrites n bytes of a file at offset.
func overwrite(t *testing.T, file string, offset int64, n int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, n), offset)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyFile copies a file from one folder to another.
func copyFile(t *testing.T, from, to, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedCopyOfRunningServerIsRejected copies the files of a data folder one at a time, as cp -r
// does, and writes to the database in between. The copied write-ahead log therefore does not belong to
// the copied database. The test checks that a vault does not start with the copy, and that the error
// names the folder and the commands for backups.
func TestDamagedCopyOfRunningServerIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, err := createBase(t, config.Storage{Data: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := base.DB.Close(); err != nil {
			t.Error(err)
		}
	}()
	lock := filepath.Join(dir, "lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := signLock(lock, "running"); err != nil {
		t.Fatal(err)
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := base.DB.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	const write = `INSERT INTO entries (text) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT hex(randomblob(200)) FROM n`
	exec(`CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)`)
	// SQLite can open the database of the second copy, because only some of its pages are wrong.
	for _, name := range []string{"new database", "used database"} {
		copied := t.TempDir()
		copyFile(t, dir, copied, db.FileName)
		exec(write)
		exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		exec(write)
		copyFile(t, dir, copied, db.FileName+"-wal")
		copyFile(t, dir, copied, "lock")
		for range 2 {
			_, err := New(t.Context(), settings(t, copied), slog.New(slog.DiscardHandler), &bytes.Buffer{})
			for _, want := range []string{copied, "certvault backup", "certvault restore"} {
				if !errors.Is(err, errDamagedCopy) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: New = %v, want errDamagedCopy with %q", name, err, want)
				}
			}
		}
		exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	}
}

// TestDamagedDatabaseIsExplained checks that the error of a damaged database names the file and the
// commands for backups.
func TestDamagedDatabaseIsExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, err := createBase(t, config.Storage{Data: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := base.DB.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, db.FileName)
	overwrite(t, file, 0, 4096)
	_, err = New(t.Context(), settings(t, dir), slog.New(slog.DiscardHandler), &bytes.Buffer{})
	for _, want := range []string{file, "certvault backup", "certvault restore"} {
		if !errors.Is(err, errDamagedDatabase) || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want errDamagedDatabase with %q", err, want)
		}
	}
}

// TestStoppedFolderCanBeCopied checks that readLock recognizes a copy of the data folder of a killed
// server, but not a copy of the folder of a server that stopped normally.
func TestStoppedFolderCanBeCopied(t *testing.T) {
	t.Parallel()
	dir := warmFolder(t)
	for _, killed := range []bool{false, true} {
		a := newApp(t, dir, &bytes.Buffer{})
		if killed {
			kill(t, a)
		} else if err := a.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, copied, err := readLock(filepath.Join(copyFolder(t, dir), "lock")); err != nil || copied != killed {
			t.Errorf("killed = %t: a copy of the lock file: copied = %t, error = %v, want %t", killed, copied, err, killed)
		}
	}
}
