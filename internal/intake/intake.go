// Package intake owns bulk uploads as people prepare them: a list and its files,
// what the list's columns mean, which file belongs to which row, what is wrong
// with each, and how the whole goes to batches and what came of it. It is kept in
// the database from the first file on, so that neither a reload nor a restart
// loses anything. The rules of a certificate are package cert's, those of a batch
// package batch's.
package intake

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
	// Queue holds the unpacking of archives and the submitting of drafts.
	Queue = "intake"
	// Life is how long a draft lasts.
	Life = 7 * 24 * time.Hour
	// KeptFor is how long a submitted one is kept with its list, for its results.
	KeptFor = 30 * 24 * time.Hour
	// fileGrace is how much longer than its draft a file can be referred to, so that
	// what is submitted at the last moment finds its files.
	fileGrace = 24 * time.Hour
	// SweepEvery is how often drafts whose time is over are looked for, and work that
	// lost its job.
	SweepEvery = time.Minute
	// MaxFiles is how many files a draft can have.
	MaxFiles = 20_000
	// maxDrafts is how many open drafts one person can have in an institution.
	maxDrafts = 20
	// rowsAtOnce bounds one statement with many rows.
	rowsAtOnce = 500
	// workTime is how long a job works before it goes to the end of the queue, which
	// lets a process that wants to stop do so.
	workTime = 15 * time.Second
)

// Config is what a Service is made from.
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

// Service works on drafts.
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
	// partSize is how many rows make a batch; tests set it low.
	partSize int
	// lists and reviews bound what reading of lists and looking through drafts hold
	// in memory at once.
	lists, reviews chan struct{}
}

// New makes a service and registers its workers with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, search: c.Search, tasks: c.Tasks, batches: c.Batches, blobs: c.Blobs, queue: c.Queue, now: c.Now, log: c.Log,
		partSize: batch.MaxEntries, lists: make(chan struct{}, 1), reviews: make(chan struct{}, 4),
	}
	job.Add(c.Queue, &unpackWorker{service: s})
	job.Add(c.Queue, &submitWorker{service: s})
	return s
}

// take takes one of few places and gives the function that frees it.
func take(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errNotFound = fault.New(fault.NotFound, "No such bulk upload. Those that are not submitted end after seven days.")

// written gives a value as it is kept in a column of JSON.
func written(value any) (string, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing a column: %w", err)
	}
	return string(b), nil
}

// readInto is the reverse of written.
func readInto(text string, value any) error {
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("reading a column: %w", err)
	}
	return nil
}
