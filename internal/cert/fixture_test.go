package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// fakeSealer is a Sealer whose methods call functions that a test can replace.
type fakeSealer struct {
	seal func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error)
	png  func(ctx context.Context, pdf io.ReaderAt, size int64) ([]byte, error)
}

func (f *fakeSealer) Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
	return f.seal(ctx, o, stamp)
}

func (f *fakeSealer) PNG(ctx context.Context, pdf io.ReaderAt, size int64) ([]byte, error) {
	return f.png(ctx, pdf, size)
}

// sealed returns the result of a sealer for an original. tail is the tail of the verified PDF, or the
// whole verified PDF if whole is true.
func sealed(o seal.Original, tail []byte, whole bool) (*seal.Verified, error) {
	hash := sha256.New()
	v := &seal.Verified{Whole: whole, Size: int64(len(tail)), Placement: seal.BottomRight, Page: 1, Box: seal.Box{0.5, 0.5, 0.75, 1}}
	v.Body = io.NewSectionReader(bytes.NewReader(tail), 0, int64(len(tail)))
	if !whole {
		if _, err := io.Copy(hash, io.NewSectionReader(o.R, 0, o.Size)); err != nil {
			return nil, err
		}
		v.Size += o.Size
	}
	hash.Write(tail)
	hash.Sum(v.SHA256[:0])
	return v, nil
}

const tailText = certtest.Tail

// vault is a service with its dependencies. A test that needs a running queue must start it.
type vault struct {
	*Service

	tb     testing.TB
	d      *db.DB
	clock  *clocktest.Clock
	sealer *fakeSealer
	folder *blob.Folder
	ring   *authority.Authority
	root   string
	worker *sealWorker
	inst   *account.Institution
	// sweeper deletes the files that no record refers to.
	sweeper *deletion.Service
}

type option func(*Config)

func newVault(tb testing.TB, d *db.DB, options ...option) *vault {
	tb.Helper()
	root := tb.TempDir()
	folder, err := blob.NewFolder(root)
	if err != nil {
		tb.Fatal(err)
	}
	ring, err := keyring.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{NodeID: "test", Queues: map[string]int{SealQueue: 2}, MaxAttempts: 8, Timeout: time.Minute, Logger: log})
	if err != nil {
		tb.Fatal(err)
	}
	// The queue uses the real clock, so the test clock starts at the current time.
	v := &vault{tb: tb, d: d, clock: clocktest.At(time.Now()), folder: folder, root: root}
	v.ring = certtest.Keys(tb, d, v.clock.Now)
	v.sealer = &fakeSealer{
		seal: func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			return sealed(o, []byte(tailText), false)
		},
		png: func(context.Context, io.ReaderAt, int64) ([]byte, error) { return []byte("a picture"), nil },
	}
	v.sweeper = deletion.New(deletion.Config{DB: d, Blobs: folder, References: []deletion.References{ReferencedBlobs}, Now: v.clock.Now, Log: log})
	cfg := Config{
		DB: d, Blobs: folder, Deletions: v.sweeper, Queue: queue, Hooks: webhook.New(d, ring, v.clock.Now), Sealer: v.sealer, Keys: v.ring,
		Verify:    certtest.Verify,
		VerifyURL: func(id string) string { return "https://vault.example/verify/" + id }, Attempts: 8, Now: v.clock.Now, Log: log,
	}
	for _, o := range options {
		o(&cfg)
	}
	v.Service = New(cfg)
	v.worker = &sealWorker{service: v.Service}
	v.inst = v.institution("NWU")
	return v
}

func (v *vault) institution(prefix string) *account.Institution {
	v.tb.Helper()
	i := &account.Institution{UUID: uuid.NewString(), Slug: strings.ToLower(prefix), Name: "University " + prefix, Prefix: prefix, CreatedAt: v.clock.Now()}
	v.tx(func(tx *db.Tx) error {
		return tx.QueryRowContext(v.tb.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
			i.UUID, i.Slug, i.Name, i.Prefix, db.Micros(i.CreatedAt)).Scan(&i.ID)
	})
	if err := v.ring.Create(v.tb.Context(), i.UUID, i.Name, nil); err != nil {
		v.tb.Fatal(err)
	}
	return i
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

// samplePDF returns a PDF of one page, padded to size unless size is 0.
func samplePDF(text string, size int) []byte { return pdftest.Sized(text, size) }

func (v *vault) receive(inst *account.Institution, content []byte) (f *File) {
	v.tb.Helper()
	err := v.Receive(v.tb.Context(), inst.UUID, NewIncoming("diploma.pdf", bytes.NewReader(content)), func(got *File) error {
		f = got
		return nil
	})
	if err != nil {
		v.tb.Fatal(err)
	}
	return f
}

// input returns a valid upload.
func (v *vault) input(inst *account.Institution) Upload {
	v.tb.Helper()
	return Upload{
		Institution: inst, Creator: Actor{Type: "token", ID: 7, Name: "Registry"}, Context: SingleUpload,
		Title: "BSc Physics", FullName: "Ada Obi", Email: "ada@example.org", IssueDate: "2026-06-30",
		File: v.receive(inst, samplePDF("a diploma", 0)),
	}
}

// upload stores a certificate. change may modify the usual input, and may be nil.
func (v *vault) upload(change func(u *Upload)) *Certificate {
	v.tb.Helper()
	u := v.input(v.inst)
	if change != nil {
		change(&u)
	}
	c, err := v.Upload(v.tb.Context(), u)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

func titled(title string) func(*Upload) { return func(u *Upload) { u.Title = title } }

func (v *vault) get(uuid string) *Certificate {
	v.tb.Helper()
	c, err := byUUID(v.tb.Context(), v.d, uuid)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

// force sets the status of a certificate without the state machine.
func (v *vault) force(c *Certificate, s Status) {
	v.tb.Helper()
	v.exec(`UPDATE certificates SET status = $1 WHERE uuid = $2`, string(s), c.UUID)
}

// work runs the job of a certificate as the queue does.
func (v *vault) work(ctx context.Context, c *Certificate, attempt int) error {
	return v.worker.Work(ctx, &river.Job[sealArgs]{
		JobRow: &rivertype.JobRow{Attempt: attempt, MaxAttempts: v.attempts}, Args: sealArgs{UUID: c.UUID},
	})
}

// approved seals a certificate, and fails the test unless the certificate is then approved.
func (v *vault) approved(c *Certificate) *Certificate {
	v.tb.Helper()
	if err := v.work(v.tb.Context(), c, 1); err != nil {
		v.tb.Fatal(err)
	}
	got := v.get(c.UUID)
	if got.Status != Approved {
		v.tb.Fatalf("status = %s, want approved; failure %+v", got.Status, got.Failure)
	}
	return got
}

// event is a row of the table of webhook events.
type event struct {
	Name     string
	UUID     string `json:"uuid"`
	Context  string `json:"trigger_context"`
	Status   string `json:"status"`
	Occurred int64
}

func (v *vault) events() (list []event) {
	v.tb.Helper()
	v.rows(`SELECT name, payload, occurred_at FROM webhook_events ORDER BY id`, func(rows *sql.Rows) error {
		var e event
		var payload string
		if err := rows.Scan(&e.Name, &payload, &e.Occurred); err != nil {
			return err
		}
		list = append(list, e)
		return json.Unmarshal([]byte(payload), &list[len(list)-1])
	})
	return list
}

// jobRow is a row of the queue.
type jobRow struct {
	ID          int64
	Kind        string
	Queue       string
	State       string
	Attempt     int
	MaxAttempts int
}

func (v *vault) jobs() (list []jobRow) {
	v.tb.Helper()
	v.rows(`SELECT id, kind, queue, state, attempt, max_attempts FROM river_job ORDER BY id`, func(rows *sql.Rows) error {
		var j jobRow
		err := rows.Scan(&j.ID, &j.Kind, &j.Queue, &j.State, &j.Attempt, &j.MaxAttempts)
		list = append(list, j)
		return err
	})
	return list
}

func (v *vault) rows(query string, scan func(rows *sql.Rows) error) {
	v.tb.Helper()
	rows, err := v.d.QueryContext(v.tb.Context(), query)
	if err != nil {
		v.tb.Fatal(err)
	}
	defer func() {
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			v.tb.Error(err)
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			v.tb.Fatal(err)
		}
	}
}

// keys returns the keys of all stored files, sorted.
func (v *vault) keys() []string {
	v.tb.Helper()
	list := []string{}
	if err := v.folder.Walk(v.tb.Context(), "", func(i blob.Info) error {
		list = append(list, i.Key)
		return nil
	}); err != nil {
		v.tb.Fatal(err)
	}
	slices.Sort(list)
	return list
}
