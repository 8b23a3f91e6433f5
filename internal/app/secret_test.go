package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
)

// otherIdentity is an identity that no vault uses.
const otherIdentity = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"

// eachStorage runs a test with settings for both databases.
func eachStorage(t *testing.T, f func(t *testing.T, s config.Storage)) {
	t.Helper()
	for name, database := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.MigratedURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, config.Storage{Data: filepath.Join(t.TempDir(), "data"), Database: database(t)})
		})
	}
}

// openVault opens an existing vault, and closes it when the test ends.
func openVault(t *testing.T, s config.Storage) *Base {
	t.Helper()
	base, err := OpenBase(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.DB.Close() })
	return base
}

// newSigningVault creates a vault with an institution that has a signing key, and returns the
// institution's id.
func newSigningVault(t *testing.T, s config.Storage) string {
	t.Helper()
	base, err := createBase(t, s, "https://vault.example")
	if err != nil {
		t.Fatal(err)
	}
	id := addInstitution(t, base, "ONE")
	if err := errors.Join(base.CreateKeys(t.Context()), base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	return id
}

func addInstitution(t *testing.T, base *Base, prefix string) string {
	t.Helper()
	i, err := base.Accounts.CreateInstitution(t.Context(), account.NewInstitution{
		Name: "University " + prefix, Prefix: prefix, OwnerEmail: "a@example.org", OwnerName: "A", OwnerPassword: "correct horse battery",
	})
	if err != nil {
		t.Fatal(err)
	}
	return i.UUID
}

func copySecret(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// requireCode checks that err is an authority.Fault with the given code.
func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := errors.AsType[*authority.Fault](err); !ok || f.Code != code {
		t.Errorf("error = %v, want a fault with the code %s", err, code)
	}
}

// TestCopyWithOnlyTheMasterKey checks that a server whose data folder has only the master key of its
// database creates neither an identity nor a root. It reports the missing identity. After the identity
// is copied, it signs with the keys of the database.
func TestCopyWithOnlyTheMasterKey(t *testing.T) {
	t.Parallel()
	first := config.Storage{Data: filepath.Join(t.TempDir(), "data"), Database: dbtest.MigratedURL(t)}
	id := newSigningVault(t, first)
	roots, err := openVault(t, first).Keys.RootsPEM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := config.Storage{Data: filepath.Join(t.TempDir(), "data"), Database: first.Database}
	copySecret(t, first.MasterKeyPath(), second.MasterKeyPath())
	base := openVault(t, second)
	_, err = base.Keys.Signer(t.Context(), id)
	requireCode(t, err, authority.CodeLocked)
	if !strings.Contains(err.Error(), filepath.Join(second.KeyFolder(), "identity.txt")) {
		t.Errorf("error = %v, want one that names the missing file", err)
	}
	another := addInstitution(t, base, "TWO")
	requireCode(t, base.CreateKeys(t.Context()), authority.CodeLocked)
	if got, err := base.Keys.RootsPEM(t.Context()); err != nil || !bytes.Equal(got, roots) {
		t.Errorf("roots = %s, error = %v; want the roots of the first server", got, err)
	}
	if entries, err := os.ReadDir(second.KeyFolder()); err != nil || len(entries) != 1 {
		t.Errorf("the folder of keys contains %v, %v; want only the master key", entries, err)
	}
	var log bytes.Buffer
	if err := base.checkIdentity(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "ALARM") {
		t.Errorf("the check of a missing identity: error = %v, log = %q; want no error and an alarm", err, log.String())
	}
	copySecret(t, filepath.Join(first.KeyFolder(), "identity.txt"), filepath.Join(second.KeyFolder(), "identity.txt"))
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{id, another} {
		if _, err := base.Keys.Signer(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	// The first server uses the key that the second one created.
	if _, err := openVault(t, first).Keys.Signer(t.Context(), another); err != nil {
		t.Error(err)
	}
}

// TestOtherIdentityIsRejected checks that neither the server nor a command uses the identity of another
// database, and that doctor names the file of the identity.
func TestOtherIdentityIsRejected(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		newSigningVault(t, s)
		file := filepath.Join(s.KeyFolder(), "identity.txt")
		if err := os.WriteFile(file, []byte(otherIdentity+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := settings(t, s.Data)
		cfg.Storage = s
		if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler), &bytes.Buffer{}); !errors.Is(err, authority.ErrOtherIdentity) || !strings.Contains(err.Error(), file) {
			t.Errorf("serve: error = %v, want ErrOtherIdentity with the file", err)
		}
		if err := openVault(t, s).RotateRoot(t.Context(), nil); !errors.Is(err, authority.ErrOtherIdentity) {
			t.Errorf("a command: error = %v, want ErrOtherIdentity", err)
		}
		for _, f := range Examine(t.Context(), s) {
			if f.Name == "secrets of the database" && (f.Good || !strings.Contains(f.Detail, file)) {
				t.Errorf("doctor: finding = %+v, want a problem that names %s", f, file)
			}
		}
	})
}

// TestPlacesOfSecrets checks that the secrets are created in the files that the flags name, but only for
// an empty database. It also checks that the environment may contain the secrets instead.
func TestPlacesOfSecrets(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		secrets := filepath.Join(t.TempDir(), "secrets")
		named := s
		named.MasterKeyFile, named.KeyIdentityFile = filepath.Join(secrets, "master"), filepath.Join(secrets, "identity")
		id := newSigningVault(t, named)
		if entries, err := os.ReadDir(named.KeyFolder()); err == nil {
			t.Errorf("the data folder has a folder of keys with %v, want none", entries)
		}
		texts := map[string]string{}
		for _, file := range []string{named.MasterKeyFile, named.KeyIdentityFile} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		variables := s
		variables.MasterKey, variables.KeyIdentity = texts[named.MasterKeyFile], texts[named.KeyIdentityFile]
		for _, s := range []config.Storage{named, variables} {
			if _, err := openVault(t, s).Keys.Signer(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		variables.MasterKey = "short"
		if _, err := OpenBase(t.Context(), variables, ""); err == nil || !strings.Contains(err.Error(), "CERTVAULT_MASTER_KEY") {
			t.Errorf("an invalid key in the environment: error = %v, want one that names the variable", err)
		}
		// Neither secret is created again.
		if err := os.RemoveAll(secrets); err != nil {
			t.Fatal(err)
		}
		if _, err := openStorage(t.Context(), named, "", migrateSchema); !errors.Is(err, keyring.ErrMissing) || !strings.Contains(err.Error(), named.MasterKeyFile) {
			t.Errorf("without the files: error = %v, want ErrMissing with the file", err)
		}
		if err := errors.Join(os.MkdirAll(secrets, 0o700), os.WriteFile(named.MasterKeyFile, []byte(texts[named.MasterKeyFile]), 0o600)); err != nil {
			t.Fatal(err)
		}
		base := openVault(t, named)
		requireCode(t, base.RotateRoot(t.Context(), nil), authority.CodeLocked)
		if _, err := os.Stat(named.KeyIdentityFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the identity was created again, or os.Stat failed: %v", err)
		}
	})
}

// TestKeyFilesAreImported checks that migrate imports the key files of an earlier version.
func TestKeyFilesAreImported(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		base, err := createBase(t, s, "")
		if err != nil {
			t.Fatal(err)
		}
		// An earlier version did not store the identity in the database.
		_, err = base.DB.Writer().ExecContext(t.Context(), `DELETE FROM signing_identities`)
		if err := errors.Join(err, base.DB.Close(), os.Remove(filepath.Join(s.KeyFolder(), "identity.txt")),
			os.CopyFS(s.KeyFolder(), os.DirFS(filepath.Join("..", "authority", "testdata", "folder")))); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		for range 2 {
			if _, err := Migrate(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), "keys=6"); n != 1 {
			t.Errorf("the log is %q, want one line about 6 keys", log.String())
		}
		entries, err := os.ReadDir(s.KeyFolder())
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := "identity.txt imported master.key"; err != nil || strings.Join(names, " ") != want {
			t.Errorf("the folder of keys contains %v, %v; want %s", names, err, want)
		}
		base = openVault(t, s)
		if err := base.CreateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		roots, err := base.Keys.RootsPEM(t.Context())
		published, e := os.ReadFile(filepath.Join(s.Data, RootsFile))
		if err := errors.Join(err, e); err != nil || bytes.Count(roots, []byte("BEGIN")) != 2 || !bytes.Equal(roots, published) {
			t.Errorf("roots = %s, published = %s, %v; want the two imported roots", roots, published, err)
		}
		if err := base.checkIdentity(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("the identity of the earlier version: error = %v", err)
		}
	})
}

// TestRecoverySheet checks that the files of lost secrets are created again from a sheet, but not from a
// sheet of another installation or a sheet with a typing error.
func TestRecoverySheet(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		id := newSigningVault(t, s)
		sheet, err := openVault(t, s).Sheet(t.Context(), "https://vault.example")
		if err != nil {
			t.Fatal(err)
		}
		other := config.Storage{Data: filepath.Join(t.TempDir(), "other")}
		newSigningVault(t, other)
		otherSheet, err := openVault(t, other).Sheet(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(s.KeyFolder()); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct{ sheet, want string }{
			"another installation": {otherSheet, "another installation"},
			"a typing error":       {strings.Replace(sheet, "K2 ", "K3 ", 1), "line K2"},
		} {
			if _, err := Recover(t.Context(), s, test.sheet); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error = %v, want %q", name, err, test.want)
			}
			if _, err := os.Stat(s.KeyFolder()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: files were created, or os.Stat failed: %v", name, err)
			}
		}
		for range 2 { // the second call changes nothing
			files, err := Recover(t.Context(), s, sheet)
			if err != nil || len(files) != 2 {
				t.Fatalf("Recover = %v, %v; want two files", files, err)
			}
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v, %v; want 0600", file, info.Mode(), err)
				}
			}
		}
		if _, err := openVault(t, s).Keys.Signer(t.Context(), id); err != nil {
			t.Error(err)
		}
		// Recover also accepts a sheet if there is no database yet, but does not replace existing files.
		empty := config.Storage{Data: filepath.Join(t.TempDir(), "empty")}
		if _, err := Recover(t.Context(), empty, sheet); err != nil {
			t.Error(err)
		}
		if _, err := Recover(t.Context(), empty, otherSheet); err == nil || !strings.Contains(err.Error(), "move the file") {
			t.Errorf("files of another installation exist: error = %v, want one with advice", err)
		}
	})
}

// TestOpenSecretsAreReported checks that doctor reports secret files that the group can write or that
// users outside the group can access.
func TestOpenSecretsAreReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "master")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, private := range map[os.FileMode]bool{0o600: true, 0o440: true, 0o444: false, 0o660: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := examineSecretFiles(file, ""); (err == nil) != private || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: error = %v, want an error with \"chmod 600\" unless the file is private (%t)", mode, err, private)
		}
	}
}

// TestFirstStartOfSeveralServers checks the start of several servers, each with its own data folder, on a
// database without secrets. One server creates both secrets, and the other servers do not start.
func TestFirstStartOfSeveralServers(t *testing.T) {
	t.Parallel()
	database := dbtest.PostgresURL(t)
	if _, err := Migrate(t.Context(), config.Storage{Data: filepath.Join(t.TempDir(), "data"), Database: database}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	d := dbtest.Open(t, "", database)
	for _, table := range []string{"key_checks", "signing_identities"} {
		if _, err := d.Writer().ExecContext(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	servers := make([]config.Storage, 4)
	refused := make([]error, len(servers))
	var wait sync.WaitGroup
	for i := range servers {
		servers[i] = config.Storage{Data: filepath.Join(t.TempDir(), "data"), Database: database}
		wait.Go(func() {
			base, err := OpenBase(t.Context(), servers[i], "")
			if refused[i] = err; err == nil {
				refused[i] = base.DB.Close()
			}
		})
	}
	wait.Wait()
	winners := 0
	for i, err := range refused {
		switch {
		case err == nil:
			winners++
			if err := openVault(t, servers[i]).Keys.CheckIdentity(t.Context()); err != nil {
				t.Errorf("the identity of the server that started: error = %v", err)
			}
		case !errors.Is(err, errOtherMasterKey) && !errors.Is(err, keyring.ErrMissing):
			t.Errorf("server %d: error = %v, want errOtherMasterKey or ErrMissing", i, err)
		}
	}
	if winners != 1 {
		t.Errorf("%d servers started, want one", winners)
	}
}
