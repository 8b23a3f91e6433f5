package intake

import (
	"archive/zip"
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
	"github.com/certvault/certvault/internal/batch"
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
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/webhook"
)

// sealer adds a tail, or refuses files of some names.
type sealer struct{ refuse sync.Map }

func (s *sealer) Seal(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
	if _, refused := s.refuse.Load(o.Name); refused {
		return nil, certtest.ErrRefused
	}
	return certtest.Seal(o)
}

func (*sealer) PNG(context.Context, io.ReaderAt, int64) ([]byte, error) { return nil, nil }

// desk is a service with all that it stands on, and a registrar before it.
type desk struct {
	*Service

	t       *testing.T
	d       *db.DB
	clock   *clocktest.Clock
	sealer  *sealer
	keys    *authority.Authority
	folder  *blob.Folder
	certs   *cert.Service
	batches *batch.Service
	inst    *account.Institution
	person  cert.Actor
}

func newDesk(t *testing.T, d *db.DB) *desk {
	t.Helper()
	k := &desk{t: t, d: d, clock: clocktest.At(time.Now()), sealer: &sealer{}, person: cert.Actor{Type: "user", ID: 7, Name: "Regina Registrar"}}
	var err error
	if k.folder, err = blob.NewFolder(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{
		NodeID: "test", Queues: map[string]int{cert.SealQueue: 1, cert.BulkQueue: 2, task.Queue: 1, batch.Queue: 1, Queue: 1},
		MaxAttempts: 3, Timeout: time.Minute, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	k.keys = certtest.Keys(t, k.clock.Now)
	k.certs = cert.New(cert.Config{
		DB: d, Blobs: k.folder, Queue: queue, Hooks: webhook.New(d, ring, k.clock.Now), Sealer: k.sealer, Keys: k.keys,
		Verify:    certtest.Verify,
		VerifyURL: verifyURL, Attempts: 3, BulkWorkers: 2, Now: k.clock.Now, Log: log,
	})
	k.batches = batch.New(batch.Config{DB: d, Ring: ring, Certs: k.certs, Queue: queue, Quota: 1 << 30, Now: k.clock.Now, Log: log})
	finder := search.New(d, ring, k.clock.Now)
	tasks := task.New(task.Config{DB: d, Queue: queue, Certs: k.certs, Search: finder, VerifyURL: verifyURL, Now: k.clock.Now, Log: log})
	k.Service = New(Config{DB: d, Certs: k.certs, Search: finder, Tasks: tasks, Batches: k.batches, Blobs: k.folder, Queue: queue, Now: k.clock.Now, Log: log})
	k.inst = k.institution("NWU")
	return k
}

func verifyURL(id string) string { return "https://vault.example/verify/" + id }

func (k *desk) institution(prefix string) *account.Institution {
	k.t.Helper()
	return certtest.Institution(k.t, k.d, k.keys, prefix, "University "+prefix)
}

// ok fails the test on an error.
func (k *desk) ok(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// one reads a single value.
func one[T any](k *desk, query string, args ...any) (value T) {
	k.t.Helper()
	if err := k.d.QueryRowContext(k.t.Context(), query, args...).Scan(&value); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
	return value
}

func (k *desk) create() *Draft {
	k.t.Helper()
	d, err := k.Create(k.t.Context(), k.inst, k.person)
	k.ok(err)
	return d
}

// again reads a draft anew.
func (k *desk) again(d *Draft) *Draft {
	k.t.Helper()
	got, err := k.ByUUID(k.t.Context(), k.inst.ID, k.person.ID, d.UUID)
	k.ok(err)
	return got
}

// list gives a draft a list and accepts what its columns are guessed to mean.
func (k *desk) list(d *Draft, text string) *Draft {
	k.t.Helper()
	k.ok(k.TakeList(k.t.Context(), d, "class of 2026.csv", strings.NewReader(text)))
	d = k.again(d)
	k.ok(k.SetMapping(k.t.Context(), d, d.Mapping))
	return k.again(d)
}

func (k *desk) file(d *Draft, name string) {
	k.t.Helper()
	_, err := k.AddFile(k.t.Context(), k.inst, d, name, bytes.NewReader(samplePDF()))
	k.ok(err)
}

func (k *desk) review(d *Draft) *Review {
	k.t.Helper()
	v, err := k.Review(k.t.Context(), k.again(d))
	k.ok(err)
	return v
}

// process lets the queue work until a condition holds, and stops it.
func (k *desk) process(what string, holds func() bool) {
	k.t.Helper()
	k.ok(k.queue.Start(k.t.Context()))
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			k.t.Fatalf("after two minutes still not: %s", what)
		}
	}
	k.ok(k.queue.Stop(k.t.Context()))
}

// finish lets a draft that was submitted go to its end.
func (k *desk) finish(d *Draft) *Progress {
	k.t.Helper()
	var p *Progress
	k.process("all rows are done", func() bool {
		if k.again(d).Status != Submitted {
			return false
		}
		var err error
		p, err = k.Progress(k.t.Context(), d)
		k.ok(err)
		return p.Finished()
	})
	return p
}

// rows makes a list of n people with their files.
func rows(n int) string {
	var b strings.Builder
	b.WriteString("Title,Full name,Email,File,Issue date\n")
	for i := range n {
		fmt.Fprintf(&b, "BSc Physics,Person %d,person.%d@example.org,%d.pdf,2026-06-30\n", i, i, i)
	}
	return b.String()
}

// packed makes a ZIP of files.
func packed(t *testing.T, files ...zipFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := f.FileHeader
		if h.Method == 0 && !f.isStored {
			h.Method = zip.Deflate
		}
		part, err := w.CreateHeader(&h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zipFile struct {
	zip.FileHeader

	content  []byte
	isStored bool
}

func entry(name string, content []byte) zipFile {
	return zipFile{FileHeader: zip.FileHeader{Name: name}, content: content}
}

// samplePDF is a PDF of one page.
func samplePDF() []byte { return pdftest.Page("a diploma") }
