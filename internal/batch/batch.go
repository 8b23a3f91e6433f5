// Package batch owns bulk uploads: files that are stored ahead of the entries
// which refer to them, the entries and how they become certificates, and how far
// a batch is. What a certificate may say and what happens to it is package
// cert's. It knows neither HTTP nor how its values are shown.
package batch

import (
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
	// MaxEntries is how many entries a batch can have.
	MaxEntries = 5000
	// MaxIndex is the largest number that an entry can have.
	MaxIndex = 999_999
	// rowsAtOnce bounds one statement with many rows, below the 32,766 parameters
	// that SQLite takes.
	rowsAtOnce = 500
)

// Config is what a Service is made from.
type Config struct {
	DB    *db.DB
	Ring  *keyring.Ring
	Certs *cert.Service
	Queue *job.Queue
	// Quota is how many bytes of staged files an institution may have.
	Quota int64
	Now   func() time.Time
	Log   *slog.Logger
}

// Service works on batches.
type Service struct {
	db    *db.DB
	certs *cert.Service
	queue *job.Queue
	quota int64
	now   func() time.Time
	log   *slog.Logger

	batchCursors, entryCursors listing.Cursors
	// held is how many bytes all drafts hold.
	held atomic.Int64
}

// New makes a service and registers its worker with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, queue: c.Queue, quota: c.Quota, now: c.Now, log: c.Log,
		batchCursors: listing.NewCursors(c.Ring, "batches"), entryCursors: listing.NewCursors(c.Ring, "entries"),
	}
	job.Add(c.Queue, &expandWorker{service: s})
	return s
}

var errNotFound = fault.New(fault.NotFound, "No such batch.")
