package batch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// sealer adds a tail to a certificate or refuses it. It records the reference ids in the order of the
// calls.
type sealer struct {
	mu     sync.Mutex
	sealed []string
	// refuse reports whether to refuse a certificate.
	refuse func(referenceID string) bool
}

func (s *sealer) Seal(_ context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
	s.mu.Lock()
	s.sealed = append(s.sealed, stamp.ReferenceID)
	refused := s.refuse != nil && s.refuse(stamp.ReferenceID)
	s.mu.Unlock()
	if refused {
		return nil, certtest.ErrRefused
	}
	return certtest.Seal(o)
}

func (*sealer) PNG(context.Context, io.ReaderAt, int64) ([]byte, error) { return nil, nil }

// vault is a service with its dependencies.
type vault struct {
	keys *authority.Authority
	*Service

	tb     testing.TB
	d      *db.DB
	clock  *clocktest.Clock
	sealer *sealer
	folder *blob.Folder
	root   string
	worker *expandWorker
	inst   *account.Institution
	// deletions deletes files to which nothing refers.
	deletions *deletion.Service
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	v := &vault{tb: tb, d: d, clock: clocktest.At(time.Now()), sealer: &sealer{}, root: tb.TempDir()}
	var err error
	if v.folder, err = blob.NewFolder(v.root); err != nil {
		tb.Fatal(err)
	}
	ring, err := keyring.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{
		NodeID: "test", Queues: map[string]int{cert.SealQueue: 1, cert.BulkQueue: 1, Queue: 1}, MaxAttempts: 8, Timeout: time.Minute, Logger: log,
	})
	if err != nil {
		tb.Fatal(err)
	}
	v.keys = certtest.Keys(tb, d, v.clock.Now)
	certs := cert.New(cert.Config{
		DB: d, Blobs: v.folder, Queue: queue, Hooks: webhook.New(d, ring, v.clock.Now), Sealer: v.sealer, Keys: v.keys,
		Verify:    certtest.Verify,
		VerifyURL: func(id string) string { return "https://vault.example/verify/" + id }, Attempts: 8, BulkWorkers: 1, Now: v.clock.Now, Log: log,
		Purged: PurgedTx, Drawer: drawer{pdftest.Page("a design")},
	})
	v.deletions = deletion.New(deletion.Config{
		DB: d, Blobs: v.folder, References: []deletion.References{ReferencedBlobs, cert.ReferencedBlobs}, Now: v.clock.Now, Log: log,
	})
	v.Service = New(Config{DB: d, Keyring: ring, Certs: certs, Queue: queue, Quota: 1 << 20, Now: v.clock.Now, Log: log})
	v.worker = &expandWorker{service: v.Service}
	v.inst = v.institution("NWU")
	return v
}

func (v *vault) institution(prefix string) *account.Institution {
	v.tb.Helper()
	return certtest.Institution(v.tb, v.d, v.keys, prefix, "University "+prefix)
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

// one returns the single value that a query selects.
func one[T any](v *vault, query string, args ...any) (value T) {
	v.tb.Helper()
	if err := v.d.QueryRowContext(v.tb.Context(), query, args...).Scan(&value); err != nil {
		v.tb.Fatalf("running the query %s: %v", query, err)
	}
	return value
}

// samplePDF returns a PDF of one page.
func samplePDF() []byte { return pdftest.Page("a diploma") }

// stage stages a file of an institution.
func (v *vault) stage(inst *account.Institution) *StagedFile {
	v.tb.Helper()
	var staged *StagedFile
	err := v.certs.Receive(v.tb.Context(), inst.UUID, cert.NewIncoming("diploma.pdf", bytes.NewReader(samplePDF())), func(f *cert.File) (err error) {
		staged, err = v.Stage(v.tb.Context(), inst, f, nil)
		return err
	})
	if err != nil {
		v.tb.Fatal(err)
	}
	return staged
}

// setPerson sets the required fields of an entry for a person with the given name.
func setPerson(d *Draft, index int, name, fileID string) error {
	for field, value := range map[cert.Field]string{
		cert.FieldTitle: "BSc Physics", cert.FieldName: name, cert.FieldEmail: strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@example.org", cert.FieldFile: fileID,
	} {
		if err := d.Set(index, field, value); err != nil {
			return err
		}
	}
	return nil
}

// submission returns a submission with an entry for each name. The indexes start at 0.
func (v *vault) submission(inst *account.Institution, fileID string, names ...string) Submission {
	v.tb.Helper()
	d := v.NewDraft()
	v.tb.Cleanup(d.Close)
	for i, name := range names {
		if err := setPerson(d, i, name, fileID); err != nil {
			v.tb.Fatal(err)
		}
	}
	return Submission{Institution: inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.BulkUpload, Draft: d}
}

// submit submits a batch and fails the test if the batch is not accepted.
func (v *vault) submit(u Submission) *Batch {
	v.tb.Helper()
	b, err := v.Submit(v.tb.Context(), u)
	if err != nil {
		v.tb.Fatal(err)
	}
	return b
}

func people(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s %d", prefix, i)
	}
	return list
}

// expandAll creates the certificates of all queued entries.
func (v *vault) expandAll() {
	v.tb.Helper()
	for {
		institution, err := v.expand(v.tb.Context(), nil)
		if err != nil {
			v.tb.Fatal(err)
		}
		if institution == 0 {
			return
		}
	}
}

// get returns a batch with all its entries.
func (v *vault) get(inst *account.Institution, uuid string) (*Batch, []Entry) {
	v.tb.Helper()
	b, err := v.ByUUID(v.tb.Context(), inst.ID, uuid, "")
	if err != nil {
		v.tb.Fatal(err)
	}
	var entries []Entry
	for next, more := "", true; more; {
		list, err := v.Entries(v.tb.Context(), b, listing.Range{PerPage: listing.MaxPage, Cursor: &next})
		if err != nil {
			v.tb.Fatal(err)
		}
		entries = append(entries, list.Items...)
		next, more = list.Next, list.More
	}
	return b, entries
}

// process runs the queue until a condition is true. It fails the test after a minute.
func (v *vault) process(what string, done func() bool) {
	v.tb.Helper()
	if err := v.queue.Start(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			v.tb.Fatalf("the condition is not true after a minute: %s", what)
		}
	}
	if err := v.queue.Stop(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
}
