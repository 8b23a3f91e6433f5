package authority

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// testdata/folder is a key folder that version 0.1.0 wrote: two roots, three keys of the university,
// the last of which was imported, and one key of a college.
const (
	college    = "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a02"
	folderKeys = 6
)

// copyFolder returns options with a copy of testdata/folder.
func copyFolder(t *testing.T) Options {
	t.Helper()
	o := options()
	o.Folder = filepath.Join(t.TempDir(), "keys")
	if err := os.CopyFS(o.Folder, os.DirFS(filepath.Join("testdata", "folder"))); err != nil {
		t.Fatal(err)
	}
	return o
}

// keyFilesIn returns the paths of the key files outside importedFolder, and the names of those in it.
func keyFilesIn(t *testing.T, folder string) (left, moved []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != extension {
			return err
		}
		if name, err := filepath.Rel(filepath.Join(folder, importedFolder), path); err == nil && !strings.HasPrefix(name, "..") {
			moved = append(moved, name)
		} else {
			left = append(left, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left, moved
}

// requireImported fails the test unless the keys of testdata/folder are in the database and sign.
func requireImported(t *testing.T, a *Authority) {
	t.Helper()
	roots, err := a.Roots(t.Context())
	if err != nil || len(roots) != 2 {
		t.Fatalf("%d roots, %v; want 2", len(roots), err)
	}
	list, err := a.Certificates(t.Context(), university)
	if err != nil || len(list) != 3 || list[0].Kind != Imported || list[1].Kind != Issued || list[1].Chain[0].CheckSignatureFrom(roots[0]) != nil {
		t.Fatalf("Certificates = %v, %v; want an imported certificate before two issued ones, of which the newer root issued the newer one", list, err)
	}
	requireSigning(t, a)
	if _, err := a.Signer(t.Context(), college); err != nil {
		t.Error(err)
	}
	var keys int
	if err := a.db.QueryRowContext(t.Context(), `SELECT count(*) FROM signing_keys`).Scan(&keys); err != nil || keys != folderKeys {
		t.Errorf("the database has %d keys, %v; want %d", keys, err, folderKeys)
	}
}

// The key files of an earlier version are imported and moved. A second import changes nothing.
func TestImportOfKeyFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := copyFolder(t)
		a := New(d, o)
		for i, want := range []int{folderKeys, 0} {
			if n, left, err := a.ImportFiles(t.Context()); n != want || left != nil || err != nil {
				t.Fatalf("import %d = %d keys, %v, %v; want %d", i+1, n, left, err, want)
			}
		}
		requireImported(t, a)
		left, moved := keyFilesIn(t, o.Folder)
		if len(left) != 0 || len(moved) != folderKeys {
			t.Errorf("files left: %v, moved: %v; want %d moved", left, moved, folderKeys)
		}
		for _, name := range []string{rootFolder, institutionFolder} {
			if _, err := os.Stat(filepath.Join(o.Folder, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("folder %s: error = %v, want it removed", name, err)
			}
		}
		var created int64
		if err := d.QueryRowContext(t.Context(), `SELECT min(created_at) FROM signing_keys`).Scan(&created); err != nil || created <= 0 {
			t.Errorf("created_at = %d, %v; want the time of a file", created, err)
		}
		// A new key follows the imported ones.
		if err := a.Rotate(t.Context(), university, "x", nil); err != nil {
			t.Fatal(err)
		}
		if list, err := a.Certificates(t.Context(), university); err != nil || len(list) != 4 {
			t.Errorf("%d certificates after a rotation, %v; want 4", len(list), err)
		}
	})
}

// The next import completes an import that was interrupted.
func TestInterruptedImport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := copyFolder(t)
		a := New(d, o)
		// The import is interrupted before its transaction.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := a.ImportFiles(ctx); err == nil {
			t.Fatal("an interrupted import succeeds, want an error")
		}
		if left, _ := keyFilesIn(t, o.Folder); len(left) != folderKeys {
			t.Fatalf("files left: %v, want all", left)
		}
		if _, err := a.Roots(t.Context()); err == nil {
			t.Fatal("an interrupted import stored keys, want none")
		}
		// The import is interrupted before it moves two of the files.
		if n, _, err := a.ImportFiles(t.Context()); n != folderKeys || err != nil {
			t.Fatalf("the import = %d keys, error %v; want %d", n, err, folderKeys)
		}
		for _, name := range []string{rootFolder + "/0002.json", institutionFolder + "/" + university + "/0001.json"} {
			to := filepath.Join(o.Folder, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(filepath.Join(o.Folder, importedFolder, name), to)); err != nil {
				t.Fatal(err)
			}
		}
		if n, left, err := again(a).ImportFiles(t.Context()); n != 0 || left != nil || err != nil {
			t.Fatalf("the second import = %d keys, %v, %v; want none", n, left, err)
		}
		if left, moved := keyFilesIn(t, o.Folder); len(left) != 0 || len(moved) != folderKeys {
			t.Errorf("files left: %v, moved: %v; want all %d moved", left, moved, folderKeys)
		}
		requireImported(t, again(a))
	})
}

// Several servers import the same keys at the same time, from one folder or from copies. Each key is
// imported once.
func TestImportByServersAtTheSameTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		shared := copyFolder(t)
		folders := []Options{shared, shared, copyFolder(t), copyFolder(t)}
		counts := make([]int, len(folders))
		var wait sync.WaitGroup
		for i, o := range folders {
			wait.Go(func() {
				n, left, err := New(d, o).ImportFiles(t.Context())
				if left != nil || err != nil {
					t.Errorf("import %d: %v, %v", i, left, err)
				}
				counts[i] = n
			})
		}
		wait.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		if total != folderKeys {
			t.Errorf("the servers imported %v keys, want %d in all", counts, folderKeys)
		}
		for _, o := range folders {
			requireImported(t, New(d, o))
		}
	})
}

// The import refuses a folder of another installation and a folder with a damaged file. The error names
// the file, and no file of the folder is imported.
func TestImportRefusesFolders(t *testing.T) {
	t.Parallel()
	damage := func(name, text string) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	name := filepath.Join(institutionFolder, university, "0002.json")
	for what, test := range map[string]struct {
		damage func(t *testing.T, folder string)
		code   string
	}{
		"truncated":       {damage(name, `{"kind":"issued"`), CodeBroken},
		"empty":           {damage(name, `{}`), CodeBroken},
		"too large":       {damage(name, strings.Repeat(" ", maxFile+1)), CodeBroken},
		"of another root": {nil, CodeRefused},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				o, want := copyFolder(t), name
				if test.damage != nil {
					test.damage(t, o.Folder)
				} else {
					open(t, d, options()) // another installation
					want = filepath.Join(rootFolder, "0001.json")
				}
				_, _, err := New(d, o).ImportFiles(t.Context())
				requireFault(t, err, test.code)
				if !strings.Contains(err.Error(), filepath.Join(o.Folder, want)) {
					t.Errorf("error = %v, want one that names %s", err, want)
				}
				if left, _ := keyFilesIn(t, o.Folder); len(left) != folderKeys {
					t.Errorf("files left: %v, want all", left)
				}
				if _, err := New(d, o).Certificates(t.Context(), college); err == nil {
					t.Error("a key of the folder was imported")
				}
			})
		})
	}
}

// The identity of an earlier version becomes the identity of the database if it decrypts the imported keys.
func TestImportedKeysNeedTheirIdentity(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := copyFolder(t)
		if _, _, err := New(d, o).ImportFiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := o
		other.Identity = otherIdentity
		_, err := New(d, other).Signer(t.Context(), university)
		requireFault(t, err, CodeLocked)
		if !errors.Is(err, ErrOtherIdentity) {
			t.Errorf("error = %v, want ErrOtherIdentity", err)
		}
		if known, err := New(d, o).recipient(t.Context()); err != nil || known != "" {
			t.Errorf("the database has the identity %q, %v; want none yet", known, err)
		}
		requireSigning(t, New(d, o))
		if known, err := New(d, o).recipient(t.Context()); err != nil || known == "" {
			t.Errorf("the database has the identity %q, %v; want that of the folder", known, err)
		}
	})
}

// Until the key files of the root are imported, no root is created.
func TestNoKeyBeforeTheImport(t *testing.T) {
	t.Parallel()
	a := New(dbtest.SQLite(t), copyFolder(t))
	for name, err := range map[string]error{
		"MakeRoot":   a.MakeRoot(t.Context()),
		"RotateRoot": a.RotateRoot(t.Context(), nil),
	} {
		requireFault(t, err, CodeMissing)
		if !strings.Contains(err.Error(), "certvault migrate") {
			t.Errorf("%s: error = %v, want one that names certvault migrate", name, err)
		}
	}
	if _, _, err := a.ImportFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireImported(t, a)
}
