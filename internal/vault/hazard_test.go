package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

const day = 24 * time.Hour

// restorable is a vault whose database can be copied while no process uses it. A test can later open the
// vault on the copy, as after a restore of an older database.
type restorable struct {
	t *testing.T
	// copy copies the database at a location and returns the location of the copy.
	copy func(location string) string
	open func(location string) *db.DB
	// first is the vault whose store and keys all later vaults use.
	first *vaulttest.Vault
}

// start opens the vault on a database. The returned function closes the database.
func (r *restorable) start(location string) (*vaulttest.Vault, func()) {
	r.t.Helper()
	d := r.open(location)
	var keys *authority.Authority
	v := vaulttest.New(r.t, d, func(deps *vault.Deps) {
		if r.first != nil {
			deps.Blobs, deps.Keyring = r.first.Blobs, r.first.Keyring
			deps.Keys = certtest.KeysIn(r.t, d, r.first.Now, r.first.KeyFolder)
		}
		keys = deps.Keys
	})
	if r.first == nil {
		r.first = v
	}
	v.Blobs, v.Keys, v.Keyring = r.first.Blobs, keys, r.first.Keyring
	return v, func() {
		v.People.Wait()
		if err := d.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// eachRestorable runs a test on SQLite and on PostgreSQL. empty is the location of an empty database: a
// folder for SQLite, or a URL for PostgreSQL.
func eachRestorable(t *testing.T, f func(t *testing.T, r *restorable, empty string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, &restorable{
			t: t, open: func(folder string) *db.DB { return dbtest.Open(t, folder, "") },
			copy: func(folder string) string {
				to := t.TempDir()
				content, err := os.ReadFile(filepath.Join(folder, db.FileName))
				if err := errors.Join(err, os.WriteFile(filepath.Join(to, db.FileName), content, 0o600)); err != nil {
					t.Fatal(err)
				}
				return to
			},
		}, t.TempDir())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, &restorable{
			t: t, open: func(url string) *db.DB { return dbtest.Open(t, "", url) },
			copy: func(url string) string { return dbtest.CopyPostgres(t, url) },
		}, dbtest.MigratedURL(t))
	})
}

// opens fails the test unless the verified PDFs and the pictures of all certificates in list can be opened.
func opens(t *testing.T, v *vaulttest.Vault, when string, inst *account.Institution, list []*cert.Certificate) {
	t.Helper()
	for _, c := range list {
		c, err := v.Certs.ByUUID(t.Context(), inst.ID, c.UUID)
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range map[string]func(context.Context, *cert.Certificate) (*cert.Content, error){"verified PDF": v.Certs.OpenVerified, "picture": v.Certs.OpenImage} {
			content, err := open(t.Context(), c)
			if err != nil {
				t.Errorf("%s: the %s of %s does not open: %v", when, name, c.FullName, err)
				continue
			}
			if err := content.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func files(t *testing.T, v *vaulttest.Vault) (n int) {
	t.Helper()
	if err := v.Blobs.Walk(t.Context(), "", func(blob.Info) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// If the database is replaced with an older copy, daily sweeps for two weeks delete no file of either
// database. Earlier versions deleted the newer files within a minute.
func TestRegressionOlderDatabaseBesideNewerFiles(t *testing.T) {
	t.Parallel()
	eachRestorable(t, func(t *testing.T, r *restorable, newer string) {
		upload := func(v *vaulttest.Vault, inst *account.Institution, name string) []*cert.Certificate {
			t.Helper()
			var list []*cert.Certificate
			for i := range 3 {
				list = append(list, v.Upload(inst, fmt.Sprintf("%s %d", name, i), "diploma.pdf"))
			}
			v.Settle()
			opens(t, v, "after the upload", inst, list)
			return list
		}
		v, stop := r.start(newer)
		inst := v.Institution("NWU", "Northern & Western University")
		before := upload(v, inst, "Before")
		stop()
		older := r.copy(newer)

		v, stop = r.start(newer)
		after := upload(v, inst, "After")
		total := files(t, v)
		// SweepExpired removes this certificate's references to its files from the newer database. The older
		// database still has the references.
		revoked := before[:1]
		if _, err := v.Certs.Revoke(t.Context(), inst.ID, revoked[0].UUID, cert.Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := account.New(v.DB, v.Now).SetRetention(t.Context(), inst.ID, account.Retention{Revoked: 30}); err != nil {
			t.Fatal(err)
		}
		v.Advance(31 * day)
		if err := v.Certs.SweepExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 14 {
			v.SweepFiles()
			v.Advance(day)
		}
		stop()

		v, stop = r.start(older)
		v.Advance(45 * day)
		opens(t, v, "the older database", inst, before)
		for range 14 {
			v.SweepFiles()
			v.Advance(day)
		}
		opens(t, v, "the older database after two weeks of sweeps", inst, before)
		if n := files(t, v); n != total {
			t.Errorf("the store has %d files after two weeks of sweeps with the older database, want %d", n, total)
		}
		stop()

		v, stop = r.start(newer)
		opens(t, v, "the newer database again", inst, append(before[1:], after...))
		v.Advance(45 * day)
		v.SweepFiles()
		opens(t, v, "the newer database after a sweep", inst, append(before[1:], after...))
		// The newer database recorded the three files of the revoked certificate at least 14 days ago, so
		// this sweep deletes them.
		if n := files(t, v); n != total-3 {
			t.Errorf("the store has %d files, want %d, which is without the files of the revoked certificate", n, total-3)
		}
		stop()
		v, stop = r.start(older)
		v.Advance(60 * day)
		v.SweepFiles()
		if n := files(t, v); n != 2*3 {
			t.Errorf("the store has %d files, want 6: three for each of the two certificates whose files both databases refer to", n)
		}
		stop()
	})
}

// aged is a store that reports the files whose keys are in old as one day older than they are.
type aged struct {
	*blob.Folder

	mu  sync.Mutex
	old map[string]bool
}

func (a *aged) Walk(ctx context.Context, after string, visit func(blob.Info) error) error {
	return a.Folder.Walk(ctx, after, func(i blob.Info) error {
		a.mu.Lock()
		if a.old[i.Key] {
			i.Modified = i.Modified.Add(-day)
		}
		a.mu.Unlock()
		return visit(i)
	})
}

// Sweeps with BlobKeep 0 run while staged files become files of certificates. They delete none of these
// files.
func TestSweepWhileFilesChangeTheirRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := &aged{old: map[string]bool{}}
		v := vaulttest.New(t, d, func(deps *vault.Deps) {
			folder, err := blob.NewFolder(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			store.Folder, deps.Blobs, deps.BlobKeep = folder, store, 0
		})
		inst := v.Institution("NWU", "Northern & Western University")
		var list []*batch.StagedFile
		for i := range 100 {
			err := v.Certs.Receive(t.Context(), inst.UUID, cert.NewIncoming(fmt.Sprintf("%d.pdf", i), bytes.NewReader(vaulttest.PDF)), func(f *cert.File) error {
				staged, err := v.Batches.Stage(t.Context(), inst, f, nil)
				list = append(list, staged)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			store.old[list[i].File.Key] = true
		}
		orphan := inst.UUID + "/aa/orphan.original"
		if _, err := store.Put(t.Context(), orphan, bytes.NewReader(vaulttest.PDF)); err != nil {
			t.Fatal(err)
		}
		store.old[orphan] = true
		done := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for {
				v.SweepFiles()
				select {
				case <-done:
					return
				default:
				}
			}
		})
		for i, f := range list {
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				if err := v.Batches.UseTx(t.Context(), tx, inst.ID, f.UUID); err != nil {
					return err
				}
				_, err := v.Certs.CreateTx(t.Context(), tx, cert.Upload{
					Institution: inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload, Title: "BSc Physics",
					FullName: "Ada Obi", Email: fmt.Sprintf("a%d@example.org", i), IssueDate: "2026-06-30", File: &f.File,
				})
				return err
			}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
		close(done)
		running.Wait()
		v.SweepFiles()
		for _, f := range list {
			o, err := store.Open(t.Context(), f.File.Key)
			if err != nil {
				t.Fatalf("opening the file of a certificate: %v", err)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
		if o, err := store.Open(t.Context(), orphan); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("opening a file without a row: err = %v, want ErrNotFound", errors.Join(err, o.Close()))
		}
	})
}
