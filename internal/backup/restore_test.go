package backup_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// original is a vault whose files and keys are in a data folder, and its backup.
type original struct {
	*vaulttest.Vault

	data string
	inst *account.Institution
	// backup is the folder of the backup.
	backup string
}

const installation = "0b1e2f3a-1111-4222-8333-444455556666"

// newOriginal creates a vault with certificates, calls the functions in change, and makes a backup.
func newOriginal(t *testing.T, d *db.DB, change ...func(o *original)) *original {
	t.Helper()
	o := &original{data: t.TempDir(), backup: filepath.Join(t.TempDir(), "backup")}
	blobs, err := blob.NewFolder(filepath.Join(o.data, "files"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(filepath.Join(o.data, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(o.data, "keys", "identity.txt"), "AGE-SECRET-KEY-TEST\n")
	write(t, filepath.Join(o.data, "files", "installation"), installation+"\n")
	o.Vault = vaulttest.New(t, d, func(deps *vault.Deps) { deps.Blobs, deps.Keyring = blobs, ring })
	o.Blobs, o.Keyring = blobs, ring
	if err := d.SetInstallation(t.Context(), installation); err != nil {
		t.Fatal(err)
	}
	o.inst = o.Institution("NWU", "Northwind University")
	for _, name := range []string{"Ada Obi", "Ben Fox", "Cleo Ray"} {
		o.Upload(o.inst, name, "diploma.pdf")
	}
	o.Settle()
	for _, f := range change {
		f(o)
	}
	o.makeBackup(t, o.backup)
	return o
}

// makeBackup makes a backup of the vault in a folder.
func (o *original) makeBackup(t *testing.T, dir string) *backup.Result {
	t.Helper()
	r, err := backup.Create(t.Context(), backup.Config{
		DB: o.DB, Keyring: o.Keyring, Data: o.data, Files: o.Blobs, Version: "0.3.0",
		Keys: []backup.Keys{func(ctx context.Context, _ db.Queryer, visit func(string) error) error {
			return o.Blobs.Walk(ctx, "", func(i blob.Info) error { return visit(i.Key) })
		}},
	}, backup.Options{Dir: dir})
	if err != nil {
		t.Fatalf("making a backup failed: %v", err)
	}
	return r
}

// target returns empty storage for a vault with the same kind of database as d.
func target(t *testing.T, d *db.DB) config.Storage {
	t.Helper()
	s := config.Storage{Data: filepath.Join(t.TempDir(), "data")}
	if d.Dialect == db.PostgreSQL {
		s.Database = dbtest.PostgresURL(t)
	}
	return s
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files maps the names of the files in a folder and its subfolders to their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, dir+"/")] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// count returns the number that a query selects.
func count(t *testing.T, d *db.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("the query %s failed: %v", query, err)
	}
	return n
}

// reopen opens the database of a restored vault.
func reopen(t *testing.T, s config.Storage) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), s.Data, s.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(d.CheckSchema(t.Context()), backup.CheckInterrupted(t.Context(), s.Data, d)); err != nil {
		t.Fatalf("the restored vault cannot be used: %v", err)
	}
	return d
}

func restore(t *testing.T, o backup.RestoreOptions) (*backup.Restored, error) {
	t.Helper()
	o.Now = time.Now
	return backup.Restore(t.Context(), o)
}

// TestRestore checks that a restored vault has the files, keys and certificates of the backup, but none of
// its sessions, links, running jobs and leases.
func TestRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var last int64
		o := newOriginal(t, d, func(o *original) {
			var person int64
			o.Tx(func(tx *db.Tx) (err error) {
				person, _, err = account.InsertUserTx(t.Context(), tx, account.NewUser{Email: account.Email{Text: "a@example.org", Folded: "a@example.org"}, Name: "A", Language: "en"}, time.Now())
				return err
			})
			o.Exec(`INSERT INTO sessions (hash, user_id, pending, method, address, user_agent, created_at, seen_at, confirmed_at, expires_at)
				VALUES ($1, $2, false, 'password', '', '', 1, 1, 1, 9999999999999999)`, []byte("session"), person)
			o.Exec(`INSERT INTO proofs (hash, purpose, user_id, email, email_folded, data, created_at, expires_at)
				VALUES ($1, 'reset', $2, 'a@example.org', 'a@example.org', '', 1, 9999999999999999)`, []byte("proof"), person)
			o.Exec(`INSERT INTO setup_links (hash, created_at, expires_at) VALUES ($1, 1, 9999999999999999)`, []byte("link"))
			if _, err := o.Invitations.Invite(t.Context(), account.Installation, o.inst.ID, account.NewInvitation{Email: "new@example.org", Role: account.Auditor}); err != nil {
				t.Fatal(err)
			}
			if err := o.Queue.Heartbeat(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			o.Exec(`UPDATE river_job SET state = 'running', attempt = 1 WHERE id = (SELECT max(id) FROM river_job WHERE kind = 'mail')`)
			o.Exec(`INSERT INTO idempotency_keys (id, institution_id, node_id, claim, expires_at) VALUES ($1, $2, 'test', $3, 9999999999999999)`, []byte("key"), o.inst.ID, []byte("claim"))
			if _, _, err := o.Hooks.Create(t.Context(), o.inst.ID, "https://example.org/hook", nil); err != nil {
				t.Fatal(err)
			}
			o.Exec(`UPDATE webhook_endpoints SET leased_until = 9999999999999999`)
			last = count(t, d, `SELECT max(id) FROM certificates`)
		})
		s := target(t, d)
		before := time.Now().Add(-time.Minute)
		r, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s})
		if err != nil {
			t.Fatal(err)
		}
		if r.Backup != o.backup || r.Drill || r.CopiedAt.Before(before) || r.RestoredAt.Before(r.CopiedAt) || len(r.Missing) != 0 {
			t.Errorf("result = %+v, want the backup %s with a time in the last minute", r, o.backup)
		}
		want := files(t, filepath.Join(o.backup, "files"))
		if got := files(t, filepath.Join(s.Data, "files")); len(got) < 7 || !maps.Equal(got, want) {
			t.Errorf("%d stored files, want the %d files of the backup with the same contents", len(got), len(want))
		}
		if got, want := files(t, filepath.Join(s.Data, "keys")), files(t, filepath.Join(o.data, "keys")); !maps.Equal(got, want) {
			t.Errorf("keys = %v, want %v", got, want)
		}
		copied := reopen(t, s)
		for query, want := range map[string]int64{
			`SELECT count(*) FROM certificates WHERE status = 'approved'`:                    3,
			`SELECT count(*) FROM sessions`:                                                  0,
			`SELECT count(*) FROM proofs`:                                                    0,
			`SELECT count(*) FROM setup_links`:                                               0,
			`SELECT count(*) FROM invitations WHERE revoked_at IS NULL`:                      0,
			`SELECT count(*) FROM nodes`:                                                     0,
			`SELECT count(*) FROM river_job WHERE state = 'running'`:                         0,
			`SELECT count(*) FROM idempotency_keys`:                                          0,
			`SELECT count(*) FROM webhook_endpoints WHERE leased_until <> 0`:                 0,
			`SELECT count(*) FROM audit_entries WHERE action = 'vault.restored'`:             1,
			`SELECT count(*) FROM audit_entries WHERE action = 'vault.restored' AND id <= 9`: 0,
		} {
			if got := count(t, copied, query); got != want {
				t.Errorf("%s = %d, want %d", query, got, want)
			}
		}
		last2, err := copied.LastRestore(t.Context())
		if err != nil || !last2.Pending() || last2.Drill || !last2.CopiedAt.Equal(r.CopiedAt) {
			t.Errorf("last restore = %+v, %v, want a pending restore of the backup of %s", last2, err, r.CopiedAt)
		}
		checkIDs(t, copied, s, o, last)
	})
}

// checkIDs checks that new records do not get ids that the original vault may have used after the backup.
func checkIDs(t *testing.T, d *db.DB, s config.Storage, o *original, last int64) {
	t.Helper()
	blobs, err := blob.NewFolder(filepath.Join(s.Data, "files"))
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.New(t, d, func(deps *vault.Deps) { deps.Blobs, deps.Keyring = blobs, o.Keyring })
	for i := range int64(2) {
		c := v.Upload(o.inst, []string{"Dan Eze", "Eva Lim"}[i], "diploma.pdf")
		if want := last + db.IDGap + 1 + i; c.ID != want {
			t.Errorf("id of a new certificate = %d, want %d", c.ID, want)
		}
	}
	made, _, err := v.Tokens.Create(t.Context(), o.inst.ID, "Registry", []token.Permission{token.VaultList}, nil)
	if err != nil || made.ID <= db.IDGap {
		t.Errorf("id of a new token = %v, %v, want more than %d", made, err, db.IDGap)
	}
	if n := count(t, d, `SELECT last FROM customer_numbers WHERE institution_id = $1`, o.inst.ID); n < db.IDGap {
		t.Errorf("last customer number = %d, want at least %d", n, db.IDGap)
	}
	v.Settle()
	if n := count(t, d, `SELECT min(id) FROM webhook_deliveries`); n <= db.IDGap {
		t.Errorf("id of a new delivery = %d, want more than %d", n, db.IDGap)
	}
}

// TestRestoreTwice checks that the backup of a restored vault can be restored, and that ids advance
// again.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	o := newOriginal(t, d)
	first := target(t, d)
	if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: first}); err != nil {
		t.Fatal(err)
	}
	copied := reopen(t, first)
	o.DB, o.data = copied, first.Data
	again, second := filepath.Join(t.TempDir(), "again"), target(t, d)
	o.makeBackup(t, again)
	if _, err := restore(t, backup.RestoreOptions{Dir: again, Target: second, Drill: true}); err != nil {
		t.Fatal(err)
	}
	copied = reopen(t, second)
	if n := count(t, copied, `SELECT next FROM id_floors WHERE name = 'certificates'`); n != 4+2*db.IDGap {
		t.Errorf("the next id of a certificate = %d, want %d", n, 4+2*db.IDGap)
	}
	if last, err := copied.LastRestore(t.Context()); err != nil || !last.Drill {
		t.Errorf("last restore = %+v, %v, want a drill", last, err)
	}
}

// rejection is a restore that must be rejected.
type rejection struct {
	// spoil changes the backup or the options.
	spoil func(t *testing.T, o *original, r *backup.RestoreOptions)
	want  error
	// text is a part of the message.
	text string
}

// blobFile returns the path of a blob in the backup.
func (o *original) blobFile(t *testing.T) string {
	t.Helper()
	names := slices.Sorted(maps.Keys(files(t, filepath.Join(o.backup, "files", "blobs"))))
	return filepath.Join(o.backup, "files", "blobs", names[0])
}

// TestRestoreIsRejected checks that the error of a rejected restore says what is wrong, and that the restore
// leaves no files.
func TestRestoreIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]rejection{
		"flipped byte": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			flipLast(t, o.blobFile(t))
		}, backup.ErrDamaged, "/files/blobs/"},
		"flipped byte in the database": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			flipLast(t, filepath.Join(o.backup, "database", "certvault.db"))
		}, backup.ErrDamaged, "/database/certvault.db"},
		"flipped byte in the manifest": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			replaceText(t, filepath.Join(o.backup, "manifest.jsonl"), `"version":"0.3.0"`, `"version":"0.3.1"`)
		}, backup.ErrDamaged, "manifest.jsonl"},
		"missing file": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			if err := os.Remove(o.blobFile(t)); err != nil {
				t.Fatal(err)
			}
		}, backup.ErrDamaged, "is missing"},
		"additional file": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			write(t, o.blobFile(t)+"x", "more")
		}, backup.ErrDamaged, "is not in its manifest"},
		"truncated manifest": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			file := filepath.Join(o.backup, "manifest.jsonl")
			lines := strings.SplitAfter(files(t, o.backup)["manifest.jsonl"], "\n")
			write(t, file, strings.Join(lines[:len(lines)-2], ""))
		}, backup.ErrPartial, "manifest.jsonl"},
		"wrong key in the backup": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			write(t, filepath.Join(o.backup, "keys", "master.key"), strings.Repeat("ab", 32)+"\n")
		}, backup.ErrWrongKey, ""},
		"wrong key in the options": {func(t *testing.T, _ *original, r *backup.RestoreOptions) {
			t.Helper()
			var err error
			if r.Keyring, err = keyring.Open(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}, backup.ErrWrongKey, ""},
		"other identity": {func(_ *testing.T, _ *original, r *backup.RestoreOptions) {
			r.Identity = []byte("AGE-SECRET-KEY-OTHER\n")
		}, nil, "--key-identity-file"},
		"identity with a passphrase": {func(_ *testing.T, _ *original, r *backup.RestoreOptions) {
			r.Identity = []byte("age-encryption.org/v1\n")
		}, nil, "set --key-identity-file to a copy of"},
		"newer schema": {func(t *testing.T, o *original, _ *backup.RestoreOptions) {
			t.Helper()
			o.Exec(`INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, '9999_future.sql', 1)`)
			if err := os.RemoveAll(o.backup); err != nil {
				t.Fatal(err)
			}
			o.makeBackup(t, o.backup)
		}, db.ErrNewSchema, "9999"},
		"other kind of database": {func(_ *testing.T, _ *original, r *backup.RestoreOptions) {
			r.Target.Database = "postgres://localhost:1/none"
		}, nil, "run the command without --database"},
		"no backup":       {func(t *testing.T, _ *original, r *backup.RestoreOptions) { t.Helper(); r.Dir = t.TempDir() }, backup.ErrNoBackup, ""},
		"no folder":       {func(_ *testing.T, _ *original, r *backup.RestoreOptions) { r.Dir = "/nonexistent/backup" }, nil, "does not exist"},
		"before the copy": {func(_ *testing.T, _ *original, r *backup.RestoreOptions) { r.At = time.Now().Add(-time.Hour) }, backup.ErrNoBackup, "not newer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.SQLite(t)
			o := newOriginal(t, d)
			r := backup.RestoreOptions{Dir: o.backup, Target: target(t, d)}
			c.spoil(t, o, &r)
			_, err := restore(t, r)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error = %v, want %v with the text %q", err, c.want, c.text)
			}
			if _, err := os.Stat(r.Target.Data); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the rejected restore left %v, want no files", files(t, r.Target.Data))
			}
		})
	}
}

// TestTargetIsRejected checks that a restore changes nothing in a folder that has other data.
func TestTargetIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"database":            {"certvault.db", backup.ErrNotEmpty},
		"log of the database": {"certvault.db-wal", backup.ErrNotEmpty},
		"stored file":         {"files/blobs/aa/x", backup.ErrNotEmpty},
		"key":                 {"keys/master.key", backup.ErrNotEmpty},
		"interrupted restore": {"restoring/certvault.db", backup.ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.SQLite(t)
			o := newOriginal(t, d)
			s := config.Storage{Data: t.TempDir()}
			write(t, filepath.Join(s.Data, c.file), "data")
			write(t, filepath.Join(s.Data, "tls", "cert.pem"), "certificate")
			before := files(t, s.Data)
			if _, err := restore(t, backup.RestoreOptions{Dir: o.backup, Target: s}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), s.Data) {
				t.Errorf("error = %v, want %v with the path of the folder", err, c.want)
			}
			if after := files(t, s.Data); !maps.Equal(before, after) {
				t.Errorf("the folder has %v, want %v", after, before)
			}
		})
	}
}
