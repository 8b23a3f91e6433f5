package panel

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/intake"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/webhook"
)

// sealer adds a tail to files, and refuses those with "refuse" in their name.
type sealer struct{}

// onePixel is a picture.
const onePixel = "\x89PNG\r\n\x1a\n"

func (sealer) Seal(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
	if strings.Contains(o.Name, "refuse") {
		return nil, certtest.ErrRefused
	}
	return certtest.Seal(o)
}

func (sealer) PNG(context.Context, io.ReaderAt, int64) ([]byte, error) { return []byte(onePixel), nil }

func (sealer) Preview(_ context.Context, _ seal.Original, stamp seal.Stamp) (*seal.Preview, error) {
	box := seal.Box{0.7, 0.8, 0.9, 0.9}
	return &seal.Preview{
		Page: 1, Pages: 1, Width: 595, Height: 842, Chosen: seal.Candidate{Mode: stamp.Placement.Mode, Box: &box, Remembered: len(stamp.Placement.Remembered) > 0},
		Candidates: []seal.Candidate{{Mode: seal.BottomRight, Box: &box}, {Mode: seal.TopLeft, Missing: true}, {Mode: seal.Strip}, {Mode: seal.Appended}},
	}, nil
}

func (sealer) Picture(context.Context, seal.Original, int) ([]byte, error) {
	return []byte(onePixel), nil
}

// work gives the panel the vault at work.
func (o *office) work(ring *keyring.Ring, now func() time.Time) {
	o.tb.Helper()
	fail := func(err error) {
		o.tb.Helper()
		if err != nil {
			o.tb.Fatal(err)
		}
	}
	folder, err := blob.NewFolder(o.tb.TempDir())
	fail(err)
	log := slog.New(slog.DiscardHandler)
	o.queue, err = job.New(o.d, job.Config{
		NodeID: "test", Queues: map[string]int{cert.SealQueue: 1, cert.BulkQueue: 2, task.Queue: 1, batch.Queue: 1, intake.Queue: 1},
		MaxAttempts: 3, Timeout: time.Minute, Logger: log,
	})
	fail(err)
	o.keys = certtest.Keys(o.tb, now)
	p := o.panel
	p.Keys = o.keys
	p.RotateKey = func(_ context.Context, inst *account.Institution) error { return o.keys.Rotate(inst.UUID, inst.Name) }
	p.Links = web.NewLinks(p.BaseURL, ring, now)
	p.Certs = cert.New(cert.Config{
		DB: o.d, Blobs: folder, Queue: o.queue, Hooks: webhook.New(o.d, ring, now), Sealer: sealer{}, Keys: o.keys,
		Verify:    certtest.Verify,
		VerifyURL: p.Links.Verify, Attempts: 3, BulkWorkers: 2, Now: now, Log: log,
	})
	catalog, err := locale.Load()
	fail(err)
	p.Mail = recipient.New(recipient.Config{
		DB: o.d, Certs: p.Certs, Accounts: p.Accounts, Queue: o.queue, Catalog: catalog, To: p.Links.To, Now: now, Log: log,
		Mailer: mail.New(mail.Config{DB: o.d, Queue: o.queue, From: mail.Address{Email: "vault@example.org"}, Now: now, Log: log}),
	})
	p.Search = search.New(o.d, ring, now)
	p.Tasks = task.New(task.Config{DB: o.d, Queue: o.queue, Certs: p.Certs, Search: p.Search, VerifyURL: p.Links.Verify, Now: now, Log: log})
	p.Batches = batch.New(batch.Config{DB: o.d, Ring: ring, Certs: p.Certs, Queue: o.queue, Quota: 1 << 30, Now: now, Log: log})
	p.Intake = intake.New(intake.Config{DB: o.d, Certs: p.Certs, Search: p.Search, Tasks: p.Tasks, Batches: p.Batches, Blobs: folder, Queue: o.queue, Now: now, Log: log})
}

// process lets the queue work until a condition holds, and stops it.
func (o *office) process(what string, holds func() bool) {
	o.tb.Helper()
	if err := o.queue.Start(o.tb.Context()); err != nil {
		o.tb.Fatal(err)
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			o.tb.Fatalf("after a minute still not: %s", what)
		}
	}
	if err := o.queue.Stop(o.tb.Context()); err != nil {
		o.tb.Fatal(err)
	}
}

// upload makes a certificate of an institution; one whose file is named so fails.
func (o *office) upload(inst account.Institution, name, fileName string) *cert.Certificate {
	o.tb.Helper()
	f, err := o.panel.Certs.Receive(o.tb.Context(), inst.UUID, fileName, bytes.NewReader(samplePDF()))
	if err != nil {
		o.tb.Fatal(err)
	}
	c, err := o.panel.Certs.Upload(o.tb.Context(), cert.Upload{
		Institution: &inst, Creator: cert.Actor{Type: "user", ID: 1, Name: "Regina Registrar"}, Context: cert.PanelUpload,
		Title: "BSc Physics", FullName: name, Email: strings.NewReplacer(" ", ".", `"`, "").Replace(strings.ToLower(name)) + "@example.org", IssueDate: "2026-06-30", File: f,
	})
	if err != nil {
		o.tb.Fatal(err)
	}
	return c
}

// settle lets all certificates come to their end.
func (o *office) settle() {
	o.tb.Helper()
	for _, inst := range []account.Institution{o.mine, o.other} {
		if _, err := o.keys.Anchors(inst.UUID); err != nil {
			if err := o.keys.Create(inst.UUID, inst.Name); err != nil {
				o.tb.Fatal(err)
			}
		}
	}
	o.process("all certificates are done", func() bool {
		n, err := o.panel.Certs.Waiting(o.tb.Context())
		return err == nil && n == 0
	})
}

// samplePDF is a PDF of one page.
func samplePDF() []byte { return certtest.PDF("a diploma", 0) }

// pathOf gives the address of a page of the test's institution.
func (o *office) pathOf(page string) string { return "/panel/" + o.mine.Slug + "/" + page }

// settleInto gives the institutions keys and lets the queue work until a condition
// holds.
func (o *office) settleInto(what string, holds func() bool) {
	o.tb.Helper()
	o.settle()
	o.process(what, holds)
}
