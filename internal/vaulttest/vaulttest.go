// Package vaulttest creates vaults for tests. A vault has all services on a database of the test,
// connected by vault.Wire as in production. The sealer adds a constant tail, the sender stores
// messages in memory, and the test advances the clock. The queue runs only during Work, Settle, Finish and
// Until, and after Run.
//
//	v := vaulttest.New(t, dbtest.SQLite(t))
//	inst := v.Institution("NWU", "Northern & Western University")
//	c := v.Upload(inst, "Ada Obi", "diploma.pdf")
//	v.Settle()
//
// A test within a package that internal/vault imports, such as package cert, cannot import vaulttest, because
// that would be an import cycle. It uses certtest instead. An external test, such as one in package cert_test,
// can import vaulttest.
package vaulttest

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/web"
)

// BaseURL is the base URL of the vault.
const BaseURL = "https://vault.example"

// Keep is the value of vault.Deps.BlobKeep that New sets.
const Keep = 14 * 24 * time.Hour

// waitTime is the maximum time that a test waits for the queue.
const waitTime = 2 * time.Minute

// Vault is a vault for one test.
type Vault struct {
	*vault.Services
	*clocktest.Clock

	TB      testing.TB
	DB      *db.DB
	Keyring *keyring.Ring
	Keys    *authority.Authority
	// KeyFolder contains the identity that decrypts the signing keys.
	KeyFolder string
	Blobs     *blob.Folder
	Links     *web.Links
	Sealer    *Sealer
	// Mails receives the messages that the queue sends.
	Mails chan mail.Message

	// sealed is the number of certificates that Work has waited for.
	sealed int64
}

// New creates a vault. Each change may replace dependencies before the services are created.
// Messages are not encrypted in the database, because the mail configuration has no keyring.
func New(tb testing.TB, d *db.DB, changes ...func(*vault.Deps)) *Vault {
	tb.Helper()
	v := &Vault{TB: tb, DB: d, Clock: clocktest.At(time.Now().UTC().Truncate(time.Second)), Sealer: &Sealer{}, Mails: make(chan mail.Message, 1000), KeyFolder: tb.TempDir()}
	var err error
	v.Blobs, err = blob.NewFolder(tb.TempDir())
	v.ok(err)
	v.Keyring, err = keyring.Open(tb.TempDir())
	v.ok(err)
	v.Keys = certtest.KeysIn(tb, d, v.Now, v.KeyFolder)
	v.Links = web.NewLinks(BaseURL, v.Keyring, v.Now)
	deps := vault.Deps{
		DB: d, Keyring: v.Keyring, Keys: v.Keys, Blobs: v.Blobs, BaseURL: BaseURL, Links: v.Links, NodeID: "test",
		Sealer: v.Sealer, Verify: certtest.Verify, SealWorkers: 1, BulkWorkers: 2, Attempts: 1, Drawer: Drawer{}, Templates: Templates, StagedQuota: 1 << 30, BlobKeep: Keep,
		Mail: mail.Config{Sender: v, From: mail.Address{Email: "no-reply@vault.example"}}, PasswordCost: certtest.Cost, Now: v.Now,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&deps)
	}
	v.Services, err = vault.Wire(deps)
	v.ok(err)
	tb.Cleanup(v.People.Wait)
	return v
}

// ok fails the test on an error.
func (v *Vault) ok(err error) {
	v.TB.Helper()
	if err != nil {
		v.TB.Fatal(err)
	}
}

// Send adds a message from the queue to Mails.
func (v *Vault) Send(_ context.Context, e *mail.Envelope) error {
	v.Mails <- e.Message
	return nil
}

// Institution creates an institution with a signing key. Its slug is the prefix in lower case.
func (v *Vault) Institution(prefix, name string) *account.Institution {
	v.TB.Helper()
	return certtest.Institution(v.TB, v.DB, v.Keys, prefix, name)
}

// Upload creates a certificate in the status processing. Each change may modify the upload. The
// sealer refuses a file whose name begins with "refuse".
func (v *Vault) Upload(inst *account.Institution, fullName, file string, changes ...func(*cert.Upload)) *cert.Certificate {
	v.TB.Helper()
	u := cert.Upload{
		Institution: inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload, Title: "BSc Physics", FullName: fullName,
		Email:     strings.NewReplacer(" ", ".", `"`, "").Replace(strings.ToLower(fullName)) + "@example.org",
		IssueDate: "2026-06-30",
	}
	var c *cert.Certificate
	v.ok(v.Certs.Receive(v.TB.Context(), inst.UUID, cert.NewIncoming(file, bytes.NewReader(PDF)), func(f *cert.File) (err error) {
		u.File = f
		for _, change := range changes {
			change(&u)
		}
		c, err = v.Certs.Upload(v.TB.Context(), u)
		return err
	}))
	return c
}

// PDF is the file that Upload uploads.
var PDF = slices.Clip(pdftest.Page("a diploma")) // without spare capacity, because parallel tests append to it

// Tx runs f in a transaction, which must succeed.
func (v *Vault) Tx(f func(tx *db.Tx) error) {
	v.TB.Helper()
	v.ok(v.DB.Tx(v.TB.Context(), f))
}

// Exec executes a statement, which must succeed, in a transaction.
func (v *Vault) Exec(query string, args ...any) {
	v.TB.Helper()
	v.Tx(func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.TB.Context(), query, args...)
		return err
	})
}

// SweepFiles runs the daily sweep of files.
func (v *Vault) SweepFiles() {
	v.TB.Helper()
	v.Exec(`UPDATE blob_sweeps SET next_at = 0`)
	v.ok(v.Deletions.Sweep(v.TB.Context()))
}

// Work runs the queue until the sealer has sealed or refused n more certificates.
func (v *Vault) Work(n int) {
	v.TB.Helper()
	v.sealed += int64(n)
	v.Until("the certificates are sealed", func() bool { return v.Sealer.done.Load() >= v.sealed })
}

// Settle runs the queue until no certificate is in processing.
func (v *Vault) Settle() {
	v.TB.Helper()
	v.Until("no certificate is in processing", func() bool {
		n, err := search.Processing(v.TB.Context(), v.DB)
		return err == nil && n == 0
	})
}

// Run starts the queue, and stops it when the test ends.
func (v *Vault) Run() {
	v.TB.Helper()
	v.ok(v.Queue.Start(v.TB.Context()))
	v.TB.Cleanup(func() {
		if err := v.Queue.Stop(context.WithoutCancel(v.TB.Context())); err != nil {
			v.TB.Error(err)
		}
	})
}

// Until runs the queue until holds() returns true, and fails the test after waitTime. The message of the
// failure contains the parameter what, which describes the condition.
func (v *Vault) Until(what string, holds func() bool) {
	v.TB.Helper()
	v.ok(v.Queue.Start(v.TB.Context()))
	deadline := time.After(waitTime)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			v.TB.Fatalf("timeout after %s: the condition %q is false", waitTime, what)
		}
	}
	v.ok(v.Queue.Stop(v.TB.Context()))
}
