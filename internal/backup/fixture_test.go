package backup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fixture is a vault in a data folder, with an institution.
type fixture struct {
	*vaulttest.Vault

	t      *testing.T
	data   string
	inst   *account.Institution
	config backup.Config
}

// newFixture returns a vault with n approved certificates.
func newFixture(t *testing.T, d *db.DB, n int) *fixture {
	t.Helper()
	return newFixtureIn(t, d, t.TempDir(), n)
}

func newFixtureIn(t *testing.T, d *db.DB, data string, n int) *fixture {
	t.Helper()
	f := &fixture{t: t, data: data}
	files, err := blob.NewFolder(filepath.Join(data, "files"))
	f.ok(err)
	ring, err := keyring.Open(filepath.Join(data, "keys"))
	f.ok(err)
	f.ok(os.WriteFile(filepath.Join(data, "keys", "identity.txt"), []byte("AGE-SECRET-KEY-TEST\n"), 0o600))
	// The database and the file store have the same installation id.
	id := uuid.NewString()
	f.ok(d.SetInstallation(t.Context(), id))
	f.ok(os.WriteFile(filepath.Join(data, "files", "certvault.json"), []byte(`{"installation":"`+id+`"}`), 0o600))
	f.Vault = vaulttest.New(t, d, func(deps *vault.Deps) { deps.Blobs, deps.Keyring = files, ring })
	f.Blobs = files
	f.config = backup.Config{DB: d, Keyring: ring, Data: data, Files: files, Keys: []backup.Keys{cert.BlobKeys, batch.BlobKeys, template.BlobKeys, bulkimport.BlobKeys}, Version: "test"}
	f.inst = f.Institution("NWU", "Northwest University")
	f.issue(n)
	return f
}

// issue creates n approved certificates.
func (f *fixture) issue(n int) {
	f.t.Helper()
	for range n {
		id := strings.ReplaceAll(uuid.NewString(), "-", "")
		f.Upload(f.inst, "Ada "+id, id+".pdf", func(u *cert.Upload) { u.Title = id })
	}
	f.Settle()
}

// keys returns the keys of all files of certificates.
func (f *fixture) keys() (list []string) {
	f.t.Helper()
	f.ok(cert.BlobKeys(f.t.Context(), f.DB, func(key string) error {
		list = append(list, key)
		return nil
	}))
	return list
}

// backup makes a backup, in a new folder unless the options name one, and returns the result.
func (f *fixture) backup(o backup.Options) *backup.Result {
	f.t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(f.t.TempDir(), "backup")
	}
	r, err := backup.Create(f.t.Context(), f.config, o)
	f.ok(err)
	return r
}

// verify maps the names of files of a backup to their problems.
func (f *fixture) verify(dir string) map[string]string {
	f.t.Helper()
	r, err := backup.Verify(f.t.Context(), dir, f.config.Keyring)
	f.ok(err)
	list := map[string]string{}
	for _, p := range r.Problems {
		list[p.File] += p.Detail
	}
	return list
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// entries returns the entries in the manifest of the backup in dir.
func entries(t *testing.T, dir string) (list []backup.Entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "manifest.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for _, line := range lines[1 : len(lines)-1] {
		var e backup.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the line %s is not an entry: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

// replace replaces the content of a file of a backup. It first removes the file, which may be a hard
// link.
func replace(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err == nil {
		err = os.WriteFile(name, change(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// flip inverts one bit of the byte in the middle.
func flip(text []byte) []byte {
	text[len(text)/2] ^= 1
	return text
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
