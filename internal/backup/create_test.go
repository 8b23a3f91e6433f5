package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestBackupIsReadByOtherPrograms checks a backup with sha256sum and with pg_restore or sqlite3.
func TestBackupIsReadByOtherPrograms(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 3)
		r := f.backup(backup.Options{})
		if problems := f.verify(r.Dir); len(problems) != 0 {
			t.Errorf("verify of a new backup found %v, want no problems", problems)
		}
		var sums bytes.Buffer
		for _, e := range entries(t, r.Dir) {
			fmt.Fprintf(&sums, "%x  %s\n", e.SHA256, e.Name)
		}
		run := func(stdin []byte, name string, args ...string) string {
			t.Helper()
			if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
				t.Skipf("%s is not installed", name)
			}
			c := exec.CommandContext(t.Context(), name, args...)
			c.Dir, c.Stdin = r.Dir, bytes.NewReader(stdin)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, out)
			}
			return string(out)
		}
		// A backup has the database, the installation id, the master key, the identity, and two files of
		// each certificate.
		if out := run(sums.Bytes(), "sha256sum", "--check", "--strict"); strings.Count(out, ": OK\n") != 4+6 || r.Files != 4+6 {
			t.Errorf("the backup has %d files, want 10; sha256sum must print OK for each of them, and prints:\n%s", r.Files, out)
		}
		if d.Dialect == db.PostgreSQL {
			if out := run(nil, "pg_restore", "--list", "database/certvault.dump"); !strings.Contains(out, "TABLE DATA public certificates ") {
				t.Errorf("pg_restore must list the rows of certificates, and lists:\n%s", out)
			}
			return
		}
		out := run(nil, "sqlite3", "database/certvault.db", "PRAGMA integrity_check; SELECT count(*) FROM certificates WHERE status = 'approved'")
		if out != "ok\n3\n" {
			t.Errorf("sqlite3 prints %q, want an intact database with 3 certificates", out)
		}
	})
}

func TestBackupIsPrivate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	dir := filepath.Join(t.TempDir(), "backup")
	f.ok(os.Mkdir(dir, 0o755))
	f.backup(backup.Options{Dir: dir})
	f.ok(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the permissions %v, want %v", name, info.Mode().Perm(), want)
		}
		return err
	}))
}

// TestSince checks that a backup with Options.Since links the files of the earlier backup, and does not need
// the earlier backup later.
func TestSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 2)
		first := f.backup(backup.Options{})
		old := f.keys()
		// The store then lacks old[0], so only the first backup can be its source.
		f.ok(f.Blobs.Delete(t.Context(), old[0]))
		f.issue(1)
		second := f.backup(backup.Options{Since: first.Dir})
		if second.Missing != 0 || second.Files != first.Files+2 {
			t.Errorf("the second backup has %d files and lacks %d, want %d and 0", second.Files, second.Missing, first.Files+2)
		}
		for _, key := range old {
			a, err := os.Stat(filepath.Join(first.Dir, "files", "blobs", key))
			f.ok(err)
			b, err := os.Stat(filepath.Join(second.Dir, "files", "blobs", key))
			f.ok(err)
			if !os.SameFile(a, b) {
				t.Errorf("%s was copied and not linked", key)
			}
		}
		f.ok(os.RemoveAll(first.Dir))
		if problems := f.verify(second.Dir); len(problems) != 0 {
			t.Errorf("after the first backup was removed, the problems of the second one are %v, want none", problems)
		}
	})
}

func TestSinceRejectsUnusableBackups(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	other := newFixture(t, dbtest.SQLite(t), 1)
	foreign := other.backup(backup.Options{}).Dir
	partial := f.backup(backup.Options{}).Dir
	f.ok(os.Remove(filepath.Join(partial, "manifest.jsonl")))
	for _, c := range []struct {
		dir  string
		want error
	}{{foreign, backup.ErrWrongKey}, {partial, backup.ErrPartial}, {t.TempDir(), backup.ErrNoBackup}} {
		dir := filepath.Join(t.TempDir(), "backup")
		_, err := backup.Create(t.Context(), f.config, backup.Options{Dir: dir, Since: c.dir})
		if !errors.Is(err, c.want) || exists(dir) {
			t.Errorf("a backup since %s: error = %v, the folder exists: %v; want %v and no folder", c.dir, err, exists(dir), c.want)
		}
	}
}

// TestBackupHasOneState checks that a backup has only the files to which the copy of the database
// refers, although certificates are issued and changed during the backup.
func TestBackupHasOneState(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 2)
		before := f.keys()
		f.config.Keys = []backup.Keys{func(ctx context.Context, q db.Queryer, visit func(string) error) error {
			f.issue(2)
			f.Exec(`UPDATE certificates SET tail_key = 'zz/another-verified' WHERE id = (SELECT min(id) FROM certificates)`)
			return cert.BlobKeys(ctx, q, visit)
		}}
		var got []string
		for _, e := range entries(t, f.backup(backup.Options{}).Dir) {
			if key, ok := strings.CutPrefix(e.Name, "files/blobs/"); ok {
				got = append(got, key)
			}
		}
		slices.Sort(got)
		slices.Sort(before)
		if !slices.Equal(got, before) {
			t.Errorf("the backup has the files %v, want %v", got, before)
		}
	})
}

// TestMissingFileIsNamed checks that a file that the store lacks is named once, even if two rows refer to it.
func TestMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 2)
	name := "files/blobs/" + f.keys()[1]
	f.Exec(`UPDATE certificates SET image_key = $1`, f.keys()[1])
	f.ok(f.Blobs.Delete(t.Context(), f.keys()[1]))
	r := f.backup(backup.Options{})
	if r.Missing != 1 || !slices.Equal(r.MissingFiles, []string{name}) {
		t.Errorf("missing = %d %v, want 1 and %s", r.Missing, r.MissingFiles, name)
	}
	if problems := f.verify(r.Dir); len(problems) != 1 || !strings.Contains(problems[name], "store lacked") {
		t.Errorf("problems = %v, want only that the store lacked %s", problems, name)
	}
}

func TestFilesOnlyAndWithoutKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		_, err := f.Blobs.Put(t.Context(), "zz/unused-original", strings.NewReader("a file without a row"))
		f.ok(err)
		r := f.backup(backup.Options{FilesOnly: true, WithoutKeys: true})
		if exists(filepath.Join(r.Dir, "database")) || exists(filepath.Join(r.Dir, "keys")) || r.Keys {
			t.Error("the backup contains a database or keys, want neither")
		}
		if !exists(filepath.Join(r.Dir, "files", "blobs", "zz", "unused-original")) {
			t.Error("the backup lacks a file of the store, want all files")
		}
		if problems := f.verify(r.Dir); len(problems) != 0 {
			t.Errorf("problems = %v, want none", problems)
		}
	})
}

// TestCopiesWhereLinksAreImpossible checks that a backup on another file system copies all files, and
// that a second backup there links the blobs of the first one.
func TestCopiesWhereLinksAreImpossible(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 2)
	disk := mount(t, "16m")
	first := f.backup(backup.Options{Dir: filepath.Join(disk, "first")})
	if first.Copied != first.Bytes {
		t.Errorf("%d of %d bytes were copied, want all", first.Copied, first.Bytes)
	}
	second := f.backup(backup.Options{Dir: filepath.Join(disk, "second"), Since: first.Dir})
	if second.Files != first.Files || second.Copied >= first.Copied {
		t.Errorf("the second backup copied %d bytes of %d files, want fewer than %d bytes of %d files", second.Copied, second.Files, first.Copied, first.Files)
	}
	for _, r := range []*backup.Result{first, second} {
		if problems := f.verify(r.Dir); len(problems) != 0 {
			t.Errorf("problems = %v, want none", problems)
		}
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	for _, size := range []string{"64k", "1500k"} { // full during the copy of the database, and during the copy of a blob
		disk := mount(t, size)
		if size != "64k" {
			_, err := f.Blobs.Put(t.Context(), "zz/large-original", bytes.NewReader(make([]byte, 2<<20)))
			f.ok(err)
			f.config.Keys = []backup.Keys{cert.BlobKeys, func(_ context.Context, _ db.Queryer, visit func(string) error) error {
				return visit("zz/large-original")
			}}
		}
		dir := filepath.Join(disk, "backup")
		_, err := backup.Create(t.Context(), f.config, backup.Options{Dir: dir})
		if !errors.Is(err, backup.ErrFull) || !strings.Contains(err.Error(), "free space, or choose a folder on another disk") {
			t.Errorf("a disk of %s: error = %v, want ErrFull with advice", size, err)
		}
		if exists(dir) {
			t.Errorf("a disk of %s: the folder of the failed backup exists, want it removed", size)
		}
		f.issue(1)
	}
}

// TestBackupLeavesSpaceToTheVault checks that a backup on the vault's own disk stops when too little
// space is free, and is removed. Then the vault accepts uploads again.
func TestBackupLeavesSpaceToTheVault(t *testing.T) {
	t.Parallel()
	disk := mount(t, "32m")
	data := filepath.Join(disk, "data")
	f := newFixtureIn(t, dbtest.Open(t, data, ""), data, 1)
	f.ok(os.WriteFile(filepath.Join(disk, "other"), make([]byte, 26<<20), 0o600))
	dir := filepath.Join(disk, "backup")
	f.config.Keys = []backup.Keys{func(ctx context.Context, _ db.Queryer, visit func(string) error) error {
		for i := range 10_000 {
			// The blobs are linked and need no space, so the test writes files of its own.
			if err := os.WriteFile(filepath.Join(dir, "files", fmt.Sprint(i)), make([]byte, 64<<10), 0o600); err != nil {
				return err
			}
			if err := visit(f.keys()[0]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}}
	_, err := backup.Create(t.Context(), f.config, backup.Options{Dir: dir})
	if !errors.Is(err, backup.ErrFull) || exists(dir) {
		t.Errorf("error = %v, the folder exists: %v; want ErrFull and no folder", err, exists(dir))
	}
	f.issue(1)
}

func TestPlaceOfABackup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 0)
	link := filepath.Join(t.TempDir(), "link")
	f.ok(os.Symlink(filepath.Join(f.data, "files"), link))
	full := t.TempDir()
	f.ok(os.WriteFile(filepath.Join(full, "a"), nil, 0o600))
	for dir, want := range map[string]string{
		f.data:                                   "is the data folder",
		filepath.Join(f.data, "files", "backup"): "belongs to the vault",
		filepath.Join(f.data, "keys", "backup"):  "belongs to the vault",
		filepath.Join(link, "backup"):            "belongs to the vault",
		full:                                     "is not empty",
		filepath.Join(full, "a", "b"):            "not a directory",
		filepath.Join(full, "b", "c"):            "no such file",
	} {
		if _, err := backup.Create(t.Context(), f.config, backup.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a backup in %s: error = %v, want an error that contains %q", dir, err, want)
		}
	}
}

// mount mounts a file system of the given size and returns its folder. It skips the test if the user
// may not mount.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a file system cannot be mounted: %s", out)
	}
	t.Cleanup(func() {
		// A process that another test starts has the open files of this process until it calls exec, so a
		// normal unmount could fail.
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("the file system was not unmounted: %s", out)
		}
	})
	return dir
}
