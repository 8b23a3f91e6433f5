package search

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// vault is a search service with a service that creates certificates. The files of the certificates are
// not stored.
type vault struct {
	*Service

	certs *cert.Service
	tb    testing.TB
	d     *db.DB
	clock *clocktest.Clock
	inst  *account.Institution
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	ring, err := keyring.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{NodeID: "test", Queues: map[string]int{cert.SealQueue: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: log})
	if err != nil {
		tb.Fatal(err)
	}
	v := &vault{tb: tb, d: d, clock: clocktest.At(time.Now())}
	v.certs = cert.New(cert.Config{DB: d, Queue: queue, Hooks: webhook.New(d, ring, v.clock.Now), Attempts: 1, Now: v.clock.Now, Log: log})
	v.Service = New(d, ring, v.clock.Now)
	v.inst = v.institution("NWU")
	return v
}

func (v *vault) institution(prefix string) *account.Institution {
	v.tb.Helper()
	return certtest.Institution(v.tb, v.d, nil, prefix, "University "+prefix)
}

func (v *vault) tx(f func(tx *db.Tx) error) {
	v.tb.Helper()
	if err := v.d.Tx(v.tb.Context(), f); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *vault) exec(query string, args ...any) {
	v.tb.Helper()
	v.tx(func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.tb.Context(), query, args...)
		return err
	})
}

// input returns a valid upload.
func (v *vault) input() cert.Upload {
	return cert.Upload{
		Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
		Title: "BSc Physics", FullName: "Ada Obi", Email: "ada@example.org", IssueDate: "2026-06-30",
		File: &cert.File{Name: "diploma.pdf", Type: seal.PDF, Size: 3, SHA256: [32]byte{7}, State: []byte{}, Key: "key-" + uuid.NewString()},
	}
}

// upload stores a certificate. If change is not nil, it modifies the usual input.
func (v *vault) upload(change func(u *cert.Upload)) *cert.Certificate {
	v.tb.Helper()
	u := v.input()
	if change != nil {
		change(&u)
	}
	c, err := v.certs.Upload(v.tb.Context(), u)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

func titled(title string) func(*cert.Upload) { return func(u *cert.Upload) { u.Title = title } }

// force sets the status of a certificate without the state machine.
func (v *vault) force(c *cert.Certificate, s cert.Status) {
	v.tb.Helper()
	v.exec(`UPDATE certificates SET status = $1 WHERE uuid = $2`, string(s), c.UUID)
}

// fail sets the status of a certificate to failed, with the code no_room.
func (v *vault) fail(c *cert.Certificate) {
	v.tb.Helper()
	v.exec(`UPDATE certificates SET status = 'failed', failure_code = 'no_room', failure_message = 'There is no room.' WHERE uuid = $1`, c.UUID)
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
			v.force(c, cert.Approved)
		case 1:
			v.fail(c)
		}
		list = append(list, c)
	}
	return list
}
