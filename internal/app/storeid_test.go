package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

const otherID = "0b2d9f0e-3a55-4b8e-9a55-4f1f6b8b2a10"

// TestFilesOfAnotherInstallationAreRejected checks that the file store and the database must have
// the same id, and that claimStore succeeds if only the file store has an id.
func TestFilesOfAnotherInstallationAreRejected(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		c := config.Storage{Data: t.TempDir()}
		store, err := blob.NewFolder(filesDir(c))
		if err != nil {
			t.Fatal(err)
		}
		claim := func() error { return claimStore(ctx, c, d, store, time.Now()) }
		// An earlier start may have stored the id in the file store only.
		if err := store.SetInstallation(t.Context(), blob.NewInstallation(time.Now())); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := claim(); err != nil {
				t.Fatalf("a new database: claimStore = %v, want nil", err)
			}
		}
		id, err := d.Installation(ctx)
		if err != nil || len(id) != 36 {
			t.Fatalf("the id of the database = %q, %v, want 36 characters", id, err)
		}
		file := store.InstallationPath()
		if err := os.WriteFile(file, []byte(`{"installation":"`+otherID+`","format":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
		err = claim()
		for _, want := range []string{id, otherID, file, filepath.Join(c.Data, "certvault.db"), "set --data"} {
			if !errors.Is(err, errOtherInstallation) || !strings.Contains(err.Error(), want) {
				t.Errorf("a store with another id: error = %v, want errOtherInstallation with %s", err, want)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		advice := fmt.Sprintf(`{"installation":%q,"format":1}`, id)
		if err := claim(); !errors.Is(err, errNoInstallation) || !strings.Contains(err.Error(), "write "+advice+" to it") {
			t.Errorf("a store without an id: error = %v, want errNoInstallation with the content of the missing file", err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("os.Stat of the missing file = %v after claimStore, want fs.ErrNotExist", err)
		}
		if err := os.WriteFile(file, []byte(advice), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := claim(); err != nil {
			t.Errorf("a store with a restored id: claimStore = %v, want nil", err)
		}
	})
}

// snapshot returns the names, times and contents of all files below a folder.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		if !e.IsDir() {
			text, err = os.ReadFile(name)
		}
		fmt.Fprintf(&out, "%s %s %q\n", name, info.ModTime(), text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWrongStoreIsNotTouched checks that a server does not start if its file store belongs to another
// installation or has no id. The server and other commands must not change the store or the database,
// and the server must not bind a port or log anything.
func TestWrongStoreIsNotTouched(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, c config.Storage) {
		ctx := t.Context()
		base, err := createBase(t, c, "")
		if err != nil {
			t.Fatal(err)
		}
		store, err := blob.NewFolder(filesDir(c))
		if err != nil {
			t.Fatal(err)
		}
		if err := claimStore(ctx, c, base.DB, store, time.Now()); err != nil {
			t.Fatal(err)
		}
		id, err := base.DB.Installation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(ctx, "a/1", strings.NewReader("a file")); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{`DROP TABLE restores`, `DELETE FROM schema_migrations WHERE version = 34`} {
			if _, err := base.DB.Writer().ExecContext(ctx, statement); err != nil {
				t.Fatal(err)
			}
		}
		if err := base.DB.Close(); err != nil {
			t.Fatal(err)
		}
		// The port is in use. An error about the store then shows that New checks the store first.
		var listen net.ListenConfig
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		for _, wrong := range []struct {
			text string
			err  error
		}{{`{"installation":"` + otherID + `","format":1}`, errOtherInstallation}, {"", errNoInstallation}} {
			if err := os.Remove(store.InstallationPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if wrong.text != "" {
				if err := os.WriteFile(store.InstallationPath(), []byte(wrong.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := snapshot(t, filesDir(c))
			cfg := settings(t, c.Data)
			cfg.Database, cfg.Listen = c.Database, l.Addr().String()
			var log, out bytes.Buffer
			_, err := New(ctx, cfg, slog.New(slog.NewTextHandler(&log, nil)), &out)
			if !errors.Is(err, wrong.err) || !strings.Contains(err.Error(), id) || strings.Contains(err.Error(), "postgres:postgres") {
				t.Errorf("serve: error = %v, want %v with the id %s and without the password", err, wrong.err, id)
			}
			if log.Len() > 0 || out.Len() > 0 {
				t.Errorf("serve logged %q and printed %q, want nothing", log.String(), out.String())
			}
			if _, err := Migrate(ctx, c, slog.New(slog.DiscardHandler)); !errors.Is(err, wrong.err) {
				t.Errorf("migrate: error = %v, want %v", err, wrong.err)
			}
			if _, err := CreateBase(ctx, c, ""); !errors.Is(err, wrong.err) {
				t.Errorf("institution create: error = %v, want %v", err, wrong.err)
			}
			for _, f := range Examine(ctx, c) {
				if bad := f.Name == "installation" || f.Name == "file store"; bad && (f.Good || f.Name == "installation" && !strings.Contains(f.Detail, wrong.err.Error())) {
					t.Errorf("doctor: finding = %+v, want an error about the installation", f)
				}
			}
			if after := snapshot(t, filesDir(c)); after != before {
				t.Errorf("the store changed from\n%s\nto\n%s\nwant no change", before, after)
			}
		}
		d, err := db.Open(ctx, c.Data, c.Database)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CheckSchema(ctx); !errors.Is(err, db.ErrOldSchema) {
			t.Errorf("CheckSchema after the commands = %v, want ErrOldSchema", err)
		}
		if err := d.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if list := ExamineFiles(ctx, c); len(list) != 1 || list[0].Good || !strings.Contains(list[0].Detail, errNoInstallation.Error()) {
			t.Errorf("doctor --files: findings = %+v, want one with errNoInstallation", list)
		}
	})
}

// TestNewDatabaseBesideFilesIsRejected checks that no database is created if the file store has
// files. A vault with a new database would delete them.
func TestNewDatabaseBesideFilesIsRejected(t *testing.T) {
	t.Parallel()
	c := config.Storage{Data: t.TempDir()}
	store, err := blob.NewFolder(filesDir(c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), "a/1", strings.NewReader("a file")); err != nil {
		t.Fatal(err)
	}
	_, created := CreateBase(t.Context(), c, "")
	_, served := New(t.Context(), settings(t, c.Data), slog.New(slog.DiscardHandler), &bytes.Buffer{})
	for name, err := range map[string]error{"institution create": created, "serve": served} {
		if !errors.Is(err, errNewDatabase) || !strings.Contains(err.Error(), filesDir(c)) || !strings.Contains(err.Error(), "certvault.db") {
			t.Errorf("%s: error = %v, want errNewDatabase with the paths of the files and the database", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Data, db.FileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("os.Stat of the database = %v, want fs.ErrNotExist", err)
	}
}

// TestPortInUseIsReportedBeforeAnyChange checks that a new vault creates no database, file store or
// keys if its port is in use.
func TestPortInUseIsReportedBeforeAnyChange(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := t.TempDir()
	cfg := settings(t, dir)
	cfg.Listen = l.Addr().String()
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("New = %v, want an error about --listen", err)
	}
	for _, name := range []string{db.FileName, "files", "keys"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("os.Stat of %s = %v, want fs.ErrNotExist", name, err)
		}
	}
}

// TestDoctorReportsInstallation checks the finding about the installation id before and after the
// first start.
func TestDoctorReportsInstallation(t *testing.T) {
	t.Parallel()
	c := config.Storage{Data: t.TempDir()}
	base, err := createBase(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	if f := examineInstallation(t.Context(), c, blob.OpenFolder(filesDir(c))); !f.Good || !strings.Contains(f.Detail, "not used by certvault serve yet") {
		t.Errorf("before the first start: finding = %+v, want good", f)
	}
	store, err := blob.NewFolder(filesDir(c))
	if err != nil {
		t.Fatal(err)
	}
	err = claimStore(context.WithoutCancel(t.Context()), c, base.DB, store, time.Now())
	if err := errors.Join(err, base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	i, err := store.Installation(t.Context())
	if f := examineInstallation(t.Context(), c, blob.OpenFolder(filesDir(c))); err != nil || !f.Good || f.Detail != i.ID {
		t.Errorf("after the first start: finding = %+v, want good with the id %s; err = %v", f, i.ID, err)
	}
}

// TestDoctorReportsTheAddress checks the finding about the base URL before the first start, with local
// base URLs and with a public one.
func TestDoctorReportsTheAddress(t *testing.T) {
	t.Parallel()
	c := config.Storage{Data: t.TempDir()}
	base, err := createBase(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := base.DB.Close(); err != nil {
			t.Error(err)
		}
	}()
	if f := examineAddress(t.Context(), base.DB); !f.Good || !strings.Contains(f.Detail, "not known yet") {
		t.Errorf("before the first start: finding = %+v, want good", f)
	}
	if err := base.DB.SetInstallation(t.Context(), "an-installation"); err != nil {
		t.Fatal(err)
	}
	for address, good := range map[string]bool{"https://localhost:8443": false, "https://192.168.1.5": false, "https://certs.example.org": true} {
		if err := base.DB.SetBaseURL(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		if f := examineAddress(t.Context(), base.DB); f.Good != good || !strings.Contains(f.Detail, address) || f.Good == strings.Contains(f.Detail, "printed on every certificate") {
			t.Errorf("%s: finding = %+v, want good = %v", address, f, good)
		}
	}
}

// TestFilesAreNotCheckedWithoutTheStore checks that a task of withStore runs only while the file system
// of the store is mounted.
func TestFilesAreNotCheckedWithoutTheStore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := config.Storage{Data: t.TempDir()}
		store, err := blob.NewFolder(filesDir(c))
		if err != nil {
			t.Fatal(err)
		}
		if err := claimStore(t.Context(), c, d, store, time.Now()); err != nil {
			t.Fatal(err)
		}
		a := &App{Storage: &Storage{DB: d}, cfg: &config.Serve{Storage: c}, blobs: store}
		runs := 0
		task := a.withStore(func(context.Context) error { runs++; return nil })
		mounted := filesDir(c) + ".mounted"
		if err := errors.Join(os.Rename(filesDir(c), mounted), os.Mkdir(filesDir(c), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := task(t.Context()); !errors.Is(err, errNoInstallation) || runs != 0 {
			t.Errorf("without the store: error = %v, %d runs, want errNoInstallation and no run", err, runs)
		}
		if err := errors.Join(os.Remove(filesDir(c)), os.Rename(mounted, filesDir(c))); err != nil {
			t.Fatal(err)
		}
		if err := task(t.Context()); err != nil || runs != 1 {
			t.Errorf("with the store: error = %v, %d runs, want one run", err, runs)
		}
	})
}
