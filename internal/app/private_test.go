package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// TestDatabaseInAnExistingFolderIsPrivate checks that other users have no permissions on the database
// and its write-ahead log, although they had permissions on the existing folder and database. The doctor
// reports a file on which other users have permissions.
func TestDatabaseInAnExistingFolderIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, db.FileName)
	// #nosec G302 -- the test is about these permissions
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o644), os.Symlink("/", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	base, err := CreateBase(t.Context(), config.Storage{Data: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"."}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err := errors.Join(err, base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{db.FileName, db.FileName + "-wal", db.FileName + "-shm", "keys"} {
		if !slices.Contains(names, name) {
			t.Errorf("the folder has no %s: %v", name, names)
		}
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Type() == fs.ModeSymlink {
			continue
		}
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("mode of %s = %v, %v, want no permission for other users", name, info.Mode(), err)
		}
	}
	// #nosec G302 -- the test is about these permissions
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	findings := Examine(t.Context(), config.Storage{Data: dir})
	at := slices.IndexFunc(findings, func(f Finding) bool { return f.Name == "data folder" })
	if f := findings[at]; f.Good || !strings.Contains(f.Detail, `chmod 600 "`+file+`"`) || strings.Contains(f.Detail, "chmod 700") {
		t.Errorf("finding = %+v, want only the database file", f)
	}
}
