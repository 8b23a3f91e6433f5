// Package batch manages batches: staged files, which are uploaded before the entries that refer to
// them; the entries and the certificates that are created from them; and the progress of a batch.
// The entries of a batch that is issued from a template have values instead of files. Package cert
// manages the content and the states of certificates.
package batch

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/listing"
)

const (
	// MaxEntries is the maximum number of entries of a batch.
	MaxEntries = 5000
	// MaxIndex is the maximum index of an entry.
	MaxIndex = 999_999
	// rowsAtOnce is the maximum number of rows in one statement, so that the number of parameters
	// remains below the 32,766 that SQLite accepts.
	rowsAtOnce = 500
)

// Config contains the dependencies and settings of a Service.
type Config struct {
	DB      *db.DB
	Keyring *keyring.Ring
	Certs   *cert.Service
	Queue   *job.Queue
	// Templates maps the ids of versions to their templates. It may be nil if there are no batches from
	// templates.
	Templates func(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]TemplateName, error)
	// Signatories returns the signatories who must approve the certificates of a version of a template. It
	// may be nil if no certificates need an approval.
	Signatories func(ctx context.Context, q db.Queryer, institutionID, versionID int64) (cert.Signatories, error)
	// Planned stores when the recipients of a new batch get mail. It is called in the transaction that
	// accepts the batch, unless the mail is sent at the approval. It may be nil.
	Planned func(ctx context.Context, tx *db.Tx, institutionID int64, batchID string, n cert.Notify) error
	// Quota is the maximum total size of the staged files of an institution in bytes.
	Quota int64
	Now   func() time.Time
	Log   *slog.Logger
}

// Service provides the operations on batches.
type Service struct {
	db          *db.DB
	certs       *cert.Service
	queue       *job.Queue
	templates   func(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]TemplateName, error)
	signatories func(ctx context.Context, q db.Queryer, institutionID, versionID int64) (cert.Signatories, error)
	plan        func(ctx context.Context, tx *db.Tx, institutionID int64, batchID string, n cert.Notify) error
	quota       int64
	now         func() time.Time
	log         *slog.Logger

	batchCursors, entryCursors listing.Cursors
	// reserved is the memory that all drafts have reserved, in bytes.
	reserved atomic.Int64
}

// New returns a service and registers its worker with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, queue: c.Queue, templates: c.Templates, signatories: c.Signatories, plan: c.Planned, quota: c.Quota, now: c.Now, log: c.Log,
		batchCursors: listing.NewCursors(c.Keyring, "batches"), entryCursors: listing.NewCursors(c.Keyring, "entries"),
	}
	job.Add(c.Queue, &expandWorker{service: s})
	return s
}

var errNotFound = fault.New(fault.NotFound, "No such batch.")
