// Package bulkimport owns bulk uploads in the form in which people prepare them: a list and its files,
// the meanings of the list's columns, the assignment of files to rows, the problems of each row,
// the submission to batches, and the results. All of it is stored in the database from the first
// file on, so that neither a reload nor a restart loses anything. Package cert owns the rules for
// certificates, package batch those for batches.
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
)

const (
	// Queue is the queue of jobs that unpack archives and submit drafts.
	Queue = "bulk_import"
	// Life is how long a draft lasts.
	Life = 7 * 24 * time.Hour
	// KeptFor is how long a submitted draft is stored with its list, for its results.
	KeptFor = 30 * 24 * time.Hour
	// fileGrace is how much longer than its draft a file is valid, so that a submission at the last
	// moment finds its files.
	fileGrace = 24 * time.Hour
	// SweepEvery is the interval between sweeps for expired drafts and lost jobs.
	SweepEvery = time.Minute
	// MaxFiles is the largest number of files of a draft.
	MaxFiles = 20_000
	// maxDrafts is the largest number of open drafts per person and institution.
	maxDrafts = 20
	// rowsAtOnce bounds the rows of one statement.
	rowsAtOnce = 500
	// workTime is how long a job works before it returns to the end of the queue, which lets a
	// process stop in between.
	workTime = 15 * time.Second
)

// Config contains the dependencies of a Service.
type Config struct {
	DB      *db.DB
	Certs   *cert.Service
	Search  *search.Service
	Tasks   *task.Service
	Batches *batch.Service
	Blobs   blob.Store
	Queue   *job.Queue
	Now     func() time.Time
	Log     *slog.Logger
}

// Service operates on drafts.
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
	// partSize is the number of rows per batch; tests set a small one.
	partSize int
	// lists and reviews are semaphores that bound the memory of concurrent list reading and
	// reviews.
	lists, reviews chan struct{}
}

// New returns a service and registers its workers with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, search: c.Search, tasks: c.Tasks, batches: c.Batches, blobs: c.Blobs, queue: c.Queue, now: c.Now, log: c.Log,
		partSize: batch.MaxEntries, lists: make(chan struct{}, 1), reviews: make(chan struct{}, 4),
	}
	job.Add(c.Queue, &unpackWorker{service: s})
	job.Add(c.Queue, &submitWorker{service: s})
	return s
}

// take acquires a semaphore slot and returns its release function.
func acquire(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errNotFound = fault.New(fault.NotFound, "No such bulk upload. Those that are not submitted end after seven days.")

// written encodes a value for a JSON column.
func written(value any) (string, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing a column: %w", err)
	}
	return string(b), nil
}

// readInto is the inverse of written.
func readInto(text string, value any) error {
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("reading a column: %w", err)
	}
	return nil
}
