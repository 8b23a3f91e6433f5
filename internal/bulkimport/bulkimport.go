// Package bulkimport implements bulk uploads that a person prepares in the panel. A draft consists of a
// list, the meanings of its columns, and files that are assigned to rows. In a draft for a template, the
// rows have no files. The package finds the problems of each row, submits the rows in batches, and
// reports the results. A draft is stored from its creation on, with each later change, so that nothing is
// lost when a page is reloaded or the server is restarted. Package cert has the rules for certificates, and
// package batch has the rules for batches.
package bulkimport

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/template"
)

const (
	// Queue is the queue of jobs that unpack archives and submit drafts.
	Queue = "bulk_import"
	// Life is the time after which a draft that was not submitted expires.
	Life = 7 * 24 * time.Hour
	// ResultLifetime is the time for which a submitted draft, its list and its results are
	// available.
	ResultLifetime = 30 * 24 * time.Hour
	// fileGrace is the time for which a file is valid after its draft expires, so that a submission
	// at the last moment finds its files.
	fileGrace = 24 * time.Hour
	// SweepInterval is the interval between sweeps for expired drafts and missing jobs.
	SweepInterval = time.Minute
	// MaxFiles is the maximum number of files of a draft.
	MaxFiles = 20_000
	// maxDrafts is the maximum number of open drafts per person and institution.
	maxDrafts = 20
	// rowsAtOnce is the maximum number of rows in one statement.
	rowsAtOnce = 500
	// workTime is the time after which a job that unpacks an archive returns to the end of the
	// queue, so that a server that stops does not wait long for the job.
	workTime = 15 * time.Second
)

// Config contains the dependencies of a Service.
type Config struct {
	DB      *db.DB
	Certs   *cert.Service
	Search  *search.Service
	Tasks   *task.Service
	Batches *batch.Service
	// Templates is the service for drafts whose certificates are made from a template.
	Templates *template.Service
	Blobs     blob.Store
	Queue     *job.Queue
	Now       func() time.Time
	Log       *slog.Logger
}

// Service provides the operations on drafts.
type Service struct {
	db      *db.DB
	certs   *cert.Service
	search  *search.Service
	tasks   *task.Service
	batches *batch.Service
	blobs   blob.Store
	queue   *job.Queue
	now     func() time.Time
	log     *slog.Logger
	// partSize is the maximum number of rows per batch; tests set a smaller one.
	partSize int
	// lists and reviews are semaphores that limit the use of memory. lists limits the lists that are
	// read at the same time, and reviews limits the drafts that are reviewed at the same time.
	lists, reviews chan struct{}
	// comparing limits the calls of CompareNames that read files to one at a time. verdicts stores the
	// results of the comparisons.
	comparing chan struct{}
	verdicts  verdicts
	fits      fits
	templates *template.Service
}

// New returns a service and registers its workers with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, search: c.Search, tasks: c.Tasks, batches: c.Batches, blobs: c.Blobs, queue: c.Queue, now: c.Now, log: c.Log, templates: c.Templates,
		partSize: batch.MaxEntries, lists: make(chan struct{}, 1), reviews: make(chan struct{}, 4),
		comparing: make(chan struct{}, 1),
	}
	job.Add(c.Queue, &unpackWorker{service: s})
	job.Add(c.Queue, &submitWorker{service: s})
	return s
}

// acquire acquires a slot of a semaphore and returns the function that releases it.
func acquire(ctx context.Context, slots chan struct{}) (func(), error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errNotFound = fault.New(fault.NotFound, "There is no such bulk upload. Bulk uploads that are not submitted are deleted after seven days.")

// encode encodes a value for a JSON column.
func encode(value any) (string, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding a column: %w", err)
	}
	return string(b), nil
}

// decode is the inverse of encode.
func decode(text string, value any) error {
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("decoding a column: %w", err)
	}
	return nil
}
