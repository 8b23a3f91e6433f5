package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
)

// TestMissingMasterKeyIsNotCreatedAgain checks that neither a command nor the server replaces a missing
// master key, and that the installation works again after the key is restored.
func TestMissingMasterKeyIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		base, err := createBase(t, s, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := base.DB.Close(); err != nil {
			t.Fatal(err)
		}
		keys := filepath.Join(s.Data, "keys")
		if err := os.Rename(keys, keys+".lost"); err != nil {
			t.Fatal(err)
		}
		for _, prepare := range []prepareSchema{checkSchema, createSchema, migrateSchema} {
			if _, err := openStorage(t.Context(), s, "", prepare); !errors.Is(err, keyring.ErrMissing) || !strings.Contains(err.Error(), "restore it") {
				t.Errorf("without its master key: error = %v, want ErrMissing with advice", err)
			}
		}
		if _, err := os.Stat(filepath.Join(keys, "master.key")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a master key was created, or os.Stat failed: %v", err)
		}
		if err := errors.Join(os.RemoveAll(keys), os.Rename(keys+".lost", keys)); err != nil {
			t.Fatal(err)
		}
		if base, err = OpenBase(t.Context(), s, ""); err != nil {
			t.Fatal(err)
		}
		if err := base.DB.Close(); err != nil {
			t.Error(err)
		}
	})
}

// copyFolder returns a copy of a data folder.
func copyFolder(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// kill closes a vault as if its process had died: its id remains in the lock file and in the list of
// nodes, and its mark remains in the folder of files.
func kill(t *testing.T, a *App) {
	t.Helper()
	if a.stopTasks != nil {
		a.stopTasks()
		a.tasks.Wait()
	}
	a.Deliverer.Stop(t.Context())
	err := errors.Join(a.stopServing(t.Context()), a.Queue.Stop(t.Context()), a.DB.Close(), a.lock.Unlock())
	if err != nil {
		t.Fatal(err)
	}
}

// TestOtherBaseURLIsRejected checks that two servers of a database have one base URL, and that it can be
// changed when the other server has stopped.
func TestOtherBaseURLIsRejected(t *testing.T) {
	t.Parallel()
	database := dbtest.MigratedURL(t)
	dir := warmFolder(t)
	start := func(dir, base string) (*App, error) {
		t.Helper()
		a := newApp(t, dir, &bytes.Buffer{}, func(c *config.Serve) {
			c.Database, c.SMTP, c.MailFrom, c.BaseURL = database, noMail, "vault@example.org", base
		})
		err := a.start(t.Context())
		if err != nil {
			err = errors.Join(err, a.close(context.WithoutCancel(t.Context())))
		}
		return a, err
	}
	const own, other = "https://vault.example.org", "https://valut.example.org"
	first, err := start(dir, own)
	if err != nil {
		t.Fatal(err)
	}
	shared := copyFolder(t, dir)
	if err := errors.Join(os.RemoveAll(filepath.Join(shared, "files")), os.Symlink(filepath.Join(dir, "files"), filepath.Join(shared, "files"))); err != nil {
		t.Fatal(err)
	}
	if _, err := start(shared, other); !errors.Is(err, errOtherBaseURL) || !strings.Contains(err.Error(), own) || !strings.Contains(err.Error(), other) {
		t.Errorf("another base URL: error = %v, want errOtherBaseURL with both", err)
	}
	if stored, err := first.DB.BaseURL(t.Context()); err != nil || stored != own {
		t.Errorf("the stored base URL is %q, %v, want that of the first server", stored, err)
	}
	second, err := start(shared, own)
	if err != nil {
		t.Fatalf("the same base URL: start failed: %v", err)
	}
	if err := errors.Join(second.close(t.Context()), first.close(t.Context())); err != nil {
		t.Error(err)
	}
	if second, err = start(shared, other); err != nil {
		t.Fatalf("another base URL when no other server is alive: start failed: %v", err)
	}
	if err := second.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCopyOfFolderIsRejected checks that a second server with a copy of the data folder does not start,
// and that a second server with the same files starts. It also checks that the first server starts again
// after a crash.
func TestCopyOfFolderIsRejected(t *testing.T) {
	t.Parallel()
	database := dbtest.MigratedURL(t)
	useDatabase := func(c *config.Serve) {
		c.Database, c.SMTP, c.MailFrom, c.BaseURL = database, noMail, "vault@example.org", "https://vault.example.org"
	}
	dir := warmFolder(t)
	start := func(dir string) (*App, error) {
		t.Helper()
		a := newApp(t, dir, &bytes.Buffer{}, useDatabase)
		err := a.start(t.Context())
		if err != nil {
			err = errors.Join(err, a.close(context.WithoutCancel(t.Context())))
		}
		return a, err
	}
	first, err := start(dir)
	if err != nil {
		t.Fatal(err)
	}
	copied := copyFolder(t, dir)
	if _, err := start(copied); !errors.Is(err, errCopiedFolder) {
		t.Errorf("a copy of the folder: error = %v, want errCopiedFolder", err)
	}
	shared := copyFolder(t, dir)
	if err := errors.Join(os.RemoveAll(filepath.Join(shared, "files")), os.Symlink(filepath.Join(dir, "files"), filepath.Join(shared, "files"))); err != nil {
		t.Fatal(err)
	}
	second, err := start(shared)
	if err != nil {
		t.Fatalf("a folder with the same files: start failed: %v", err)
	}
	if err := second.close(t.Context()); err != nil {
		t.Error(err)
	}
	kill(t, first)
	if first, err = start(dir); err != nil {
		t.Fatalf("the same folder after a crash: start failed: %v", err)
	}
	if err := first.close(t.Context()); err != nil {
		t.Error(err)
	}
	// No server is alive, so the copy may be a restored backup.
	if first, err = start(copied); err != nil {
		t.Fatalf("a copy after the first server was stopped: start failed: %v", err)
	}
	if err := first.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLockNamesThePreviousServer checks that readLock returns the last server that locked the file,
// unless that server stopped normally. For a copy of the lock file, readLock reports a copy and no
// server.
func TestLockNamesThePreviousServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(file, previous string, copied bool) {
		t.Helper()
		if got, c, err := readLock(file); err != nil || got != previous || c != copied {
			t.Errorf("readLock = %q, %t, error = %v, want %q, %t", got, c, err, previous, copied)
		}
	}
	check(file, "", false)
	for _, node := range []string{"a", "b"} {
		if err := signLock(file, node); err != nil {
			t.Fatal(err)
		}
		check(file, node, false)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The copy is created while the first file exists, so that the copy has another inode.
	if err := os.WriteFile(file+".copy", text, 0o600); err != nil {
		t.Fatal(err)
	}
	check(file+".copy", "", true)
	locked, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(clearLock(locked, file+".copy"), clearLock(locked, file)); err != nil {
		t.Fatal(err)
	}
	check(file, "", false)
	check(file+".copy", "", true) // clearLock does not change another file
}

// TestServerRefusesANewerSchema checks that neither the server nor a command works on a schema that
// requires a newer binary.
func TestServerRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	s := config.Storage{Data: t.TempDir()}
	base, err := createBase(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = base.DB.Writer().ExecContext(t.Context(), `UPDATE schema_floor SET version = 9999, release = '9.9.9'`)
	if err := errors.Join(err, base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	cfg := settings(t, s.Data)
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler), &bytes.Buffer{}); !errors.Is(err, db.ErrNewSchema) || !strings.Contains(err.Error(), "certvault 9.9.9") {
		t.Errorf("serve: error = %v, want ErrNewSchema with the release", err)
	}
	if _, err := OpenBase(t.Context(), s, ""); !errors.Is(err, db.ErrNewSchema) {
		t.Errorf("a command: error = %v, want ErrNewSchema", err)
	}
}
