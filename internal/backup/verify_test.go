package backup_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
)

// TestVerifyNamesEachProblem checks the report on a backup that is damaged in several ways.
func TestVerifyNamesEachProblem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 3)
		dir := f.backup(backup.Options{}).Dir
		blobs := filepath.Join(dir, "files", "blobs")
		keys := f.keys()
		replace(t, filepath.Join(blobs, keys[0]), flip)
		f.ok(os.Remove(filepath.Join(blobs, keys[1])))
		replace(t, filepath.Join(blobs, keys[2]), func(text []byte) []byte { return text[:len(text)-1] })
		f.ok(os.Remove(filepath.Join(blobs, keys[3])))
		f.ok(os.Mkdir(filepath.Join(blobs, keys[3]), 0o700))
		f.ok(os.WriteFile(filepath.Join(dir, "files", "more"), nil, 0o600))
		replace(t, filepath.Join(dir, "keys", "master.key"), flip)
		database := "database/certvault.db"
		if d.Dialect == db.PostgreSQL {
			database = "database/certvault.dump"
		}
		// The header of a SQLite database, or of a dump, is in the first bytes.
		replace(t, filepath.Join(dir, filepath.FromSlash(database)), func(text []byte) []byte { return append([]byte("nothing to read here"), text[20:]...) })
		problems := f.verify(dir)
		for name, want := range map[string]string{
			"files/blobs/" + keys[0]: "the content has changed", "files/blobs/" + keys[1]: "the file is missing", "files/blobs/" + keys[2]: " bytes instead of ",
			"files/blobs/" + keys[3]: "not a regular file", "files/more": "does not name this file", "keys/master.key": "the content has changed",
			database: "the structure of the database",
		} {
			if !strings.Contains(problems[name], want) {
				t.Errorf("the problem of %s is %q, want %q", name, problems[name], want)
			}
		}
		if len(problems) != 7 {
			t.Errorf("problems = %v, want 7 files", problems)
		}
	})
}

// TestVerifyChecksTheIntegrityOfTheDatabase checks a backup of a database that was damaged before
// the backup, so that all digests match.
func TestVerifyChecksTheIntegrityOfTheDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	conn, err := f.DB.Writer().Conn(t.Context())
	f.ok(err)
	// Insert a row that the schema does not allow. A copy of the database contains it too.
	for _, statement := range []string{
		`CREATE TABLE damaged (a TEXT)`, `INSERT INTO damaged VALUES (NULL)`, `PRAGMA writable_schema = 1`,
		`UPDATE sqlite_master SET sql = 'CREATE TABLE damaged (a TEXT NOT NULL)' WHERE name = 'damaged'`, `PRAGMA writable_schema = RESET`,
	} {
		_, err := conn.ExecContext(t.Context(), statement)
		f.ok(err)
	}
	f.ok(conn.Close())
	dir := f.backup(backup.Options{}).Dir
	if problems := f.verify(dir); len(problems) != 1 || !strings.Contains(problems["database/certvault.db"], "NULL value in damaged.a") {
		t.Errorf("problems = %v, want one with the column damaged.a", problems)
	}
}

func TestVerifyRejectsChangedManifests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 2)
	lines := func(change func([][]byte) [][]byte) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Join(change(bytes.SplitAfter(text, []byte("\n"))), nil) }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"no last line":           {lines(func(l [][]byte) [][]byte { return l[:len(l)-2] }), backup.ErrPartial},
		"half of the last line":  {func(text []byte) []byte { return text[:len(text)-20] }, backup.ErrPartial},
		"no line feed":           {func(text []byte) []byte { return text[:len(text)-1] }, backup.ErrPartial},
		"empty":                  {func([]byte) []byte { return nil }, backup.ErrPartial},
		"another header":         {lines(func(l [][]byte) [][]byte { l[0] = []byte("{}\n"); return l }), backup.ErrDamaged},
		"no line of the entries": {lines(func(l [][]byte) [][]byte { return append(l[:1], l[len(l)-2]) }), nil},
		"one line less":          {lines(func(l [][]byte) [][]byte { return append(l[:2], l[3:]...) }), nil},
		"one line twice":         {lines(func(l [][]byte) [][]byte { return append(l[:2:2], l[1:]...) }), nil},
		"another size":           {func(text []byte) []byte { return bytes.Replace(text, []byte(`"size":`), []byte(`"size":1`), 1) }, nil},
		"a flipped byte":         {flip, nil},
		"another name": {func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"files/blobs/`), []byte(`"files/../../`), 1)
		}, nil},
		"another time": {func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"created_at":"2`), []byte(`"created_at":"1`), 1)
		}, nil},
		"two last lines": {lines(func(l [][]byte) [][]byte { return append(l, l[len(l)-2]) }), nil},
	} {
		dir := f.backup(backup.Options{}).Dir
		replace(t, filepath.Join(dir, "manifest.jsonl"), c.change)
		r, err := backup.Verify(t.Context(), dir, f.config.Keyring)
		if c.want != nil {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: error = %v, want %v", name, err, c.want)
			}
			continue
		}
		found := false
		if err == nil {
			for _, p := range r.Problems {
				found = found || p.File == "manifest.jsonl"
			}
		}
		if !found {
			t.Errorf("%s: error = %v, report = %+v, want a problem of manifest.jsonl", name, err, r)
		}
	}
}

func TestVerifyNamesAWrongKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	dir := f.backup(backup.Options{}).Dir
	other, err := keyring.Open(t.TempDir())
	f.ok(err)
	if _, err := backup.Verify(t.Context(), dir, other); !errors.Is(err, backup.ErrWrongKey) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error = %v, want ErrWrongKey with the folder", err)
	}
	if _, err := backup.Verify(t.Context(), t.TempDir(), other); !errors.Is(err, backup.ErrNoBackup) {
		t.Errorf("an empty folder: error = %v, want ErrNoBackup", err)
	}
}

// killVariable is the name of the environment variable that passes the data folder and the folder of the
// backup to TestInterruptedProcess.
const killVariable = "CERTVAULT_TEST_BACKUP"

// TestKilledBackupIsPartial kills a process that makes a backup, after it has copied files and before the
// backup is complete.
func TestKilledBackupIsPartial(t *testing.T) {
	t.Parallel()
	// The other process opens the database in the data folder.
	data := t.TempDir()
	f := newFixtureIn(t, dbtest.Open(t, data, ""), data, 5)
	dir := filepath.Join(t.TempDir(), "backup")
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInterruptedProcess$")
	c.Env = append(os.Environ(), killVariable+"="+data+"\n"+dir)
	out, err := c.StdoutPipe()
	f.ok(err)
	f.ok(c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	f.ok(err)
	if line != "copied\n" {
		t.Fatalf("the other process printed %q, want %q", line, "copied\n")
	}
	f.ok(c.Process.Kill())
	if err := c.Wait(); err == nil {
		t.Fatal("the process ended without an error, want that it was killed")
	}
	if !exists(filepath.Join(dir, "files", "blobs")) {
		t.Error("the interrupted backup has no files")
	}
	if _, err := backup.Verify(t.Context(), dir, f.config.Keyring); !errors.Is(err, backup.ErrPartial) {
		t.Errorf("error = %v, want ErrPartial", err)
	}
}

// TestInterruptedProcess is the process that TestKilledBackupIsPartial kills.
func TestInterruptedProcess(t *testing.T) {
	data, dir, ok := strings.Cut(os.Getenv(killVariable), "\n")
	if !ok {
		t.Skip("it runs only for TestKilledBackupIsPartial")
	}
	d := dbtest.Open(t, data, "")
	files, err := blob.NewFolder(filepath.Join(data, "files"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.OpenExisting(filepath.Join(data, "keys", "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = backup.Create(t.Context(), backup.Config{
		DB: d, Keyring: ring, Data: data, Files: files, Version: "test",
		Keys: []backup.Keys{cert.BlobKeys, func(context.Context, db.Queryer, func(string) error) error {
			_, _ = os.Stdout.WriteString("copied\n")
			select {}
		}},
	}, backup.Options{Dir: dir})
	t.Fatalf("the backup ended: %v", err)
}
