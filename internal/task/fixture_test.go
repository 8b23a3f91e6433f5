package task

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/webhook"
)

// vault is a service with its dependencies. The queue does not run. The tests call the steps of
// tasks directly.
type vault struct {
	*Service

	certs  *cert.Service
	tb     testing.TB
	d      *db.DB
	clock  *clocktest.Clock
	folder *blob.Folder
	root   string
	inst   *account.Institution
	// moved is called for each change of status, unless it is nil.
	moved cert.TxFunc
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	v := &vault{tb: tb, d: d, clock: clocktest.At(time.Now()), root: tb.TempDir()}
	var err error
	if v.folder, err = blob.NewFolder(v.root); err != nil {
		tb.Fatal(err)
	}
	ring, err := keyring.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{NodeID: "test", Queues: map[string]int{cert.SealQueue: 1, Queue: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: log})
	if err != nil {
		tb.Fatal(err)
	}
	verifyURL := func(id string) string { return "https://vault.example/verify/" + id }
	v.certs = cert.New(cert.Config{
		DB: d, Blobs: v.folder, Queue: queue, Hooks: webhook.New(d, ring, v.clock.Now), VerifyURL: verifyURL, Attempts: 1, Now: v.clock.Now, Log: log,
		StatusChanged: func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
			if v.moved == nil {
				return nil
			}
			return v.moved(ctx, tx, c)
		},
	})
	v.Service = New(Config{DB: d, Queue: queue, Certs: v.certs, Search: search.New(d, ring, v.clock.Now), VerifyURL: verifyURL, Now: v.clock.Now, Log: log})
	v.inst = v.institution("NWU")
	return v
}

func (v *vault) institution(prefix string) *account.Institution {
	v.tb.Helper()
	return certtest.Institution(v.tb, v.d, nil, prefix, "University "+prefix)
}

func (v *vault) exec(query string, args ...any) {
	v.tb.Helper()
	if err := v.d.Tx(v.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.tb.Context(), query, args...)
		return err
	}); err != nil {
		v.tb.Fatal(err)
	}
}

// store stores a file and returns its key.
func (v *vault) store(content []byte) string {
	v.tb.Helper()
	key := "files/" + uuid.NewString()
	if _, err := v.folder.Put(v.tb.Context(), key, bytes.NewReader(content)); err != nil {
		v.tb.Fatal(err)
	}
	return key
}

// upload stores a certificate. change may modify the usual input, and may be nil.
func (v *vault) upload(change func(u *cert.Upload)) *cert.Certificate {
	v.tb.Helper()
	original := samplePDF()
	u := cert.Upload{
		Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
		Title: "BSc Physics", FullName: "Ada Obi", Email: "ada@example.org", IssueDate: "2026-06-30",
		File: &cert.File{
			Name: "diploma.pdf", Type: seal.PDF, Size: int64(len(original)), SHA256: sha256.Sum256(original), State: []byte{}, Key: v.store(original),
		},
	}
	if change != nil {
		change(&u)
	}
	c, err := v.certs.Upload(v.tb.Context(), u)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

// samplePDF returns a PDF of one page.
func samplePDF() []byte { return pdftest.Page("a diploma") }

func titled(title string) func(*cert.Upload) { return func(u *cert.Upload) { u.Title = title } }

func (v *vault) get(id string) *cert.Certificate {
	v.tb.Helper()
	c, err := v.certs.BySignedLink(v.tb.Context(), id)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

// approved stores a tail and sets the status of a certificate to approved, without the state
// machine. It returns the changed record.
func (v *vault) approved(c *cert.Certificate) *cert.Certificate {
	v.tb.Helper()
	whole := append(samplePDF(), certtest.Tail...)
	sum := sha256.Sum256(whole)
	v.exec(`UPDATE certificates SET status = 'approved', tail_key = $1, verified_sha256 = $2, verified_size = $3, approved_at = $4, updated_at = $4 WHERE uuid = $5`,
		v.store([]byte(certtest.Tail)), sum[:], int64(len(whole)), db.Micros(v.clock.Now()), c.UUID)
	return v.get(c.UUID)
}

// uploadMany uploads n certificates. One third is approved, one third fails, and one third stays in
// processing.
func (v *vault) uploadMany(n int) (list []*cert.Certificate) {
	v.tb.Helper()
	for i := range n {
		c := v.upload(func(u *cert.Upload) {
			u.FullName, u.Title, u.Email = fmt.Sprintf("Person %d", i), []string{"BSc Physics", "MSc Music"}[i%2], fmt.Sprintf("p%d@example.org", i)
		})
		switch i % 3 {
		case 0:
			c = v.approved(c)
		case 1:
			v.exec(`UPDATE certificates SET status = 'failed', failure_code = 'no_room', failure_message = 'There is no room.' WHERE uuid = $1`, c.UUID)
		}
		list = append(list, v.get(c.UUID))
	}
	return list
}
