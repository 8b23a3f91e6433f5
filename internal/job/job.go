// Package job is the queue: work that belongs to one certificate or one mail,
// enqueued in the transaction that makes it necessary and worked by this or
// another process. It wraps River on both databases and knows no kind of work.
//
// The queue is a means, not the truth: the truth is in the domains' own rows.
// Workers are idempotent, and what lost its job is enqueued again by a sweep.
package job

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
)

const (
	// fetchCooldown lifts throughput from about 1,000 to 7,000 jobs a second.
	fetchCooldown = 2 * time.Millisecond
	// pollInterval bounds how late a job starts when no notification comes.
	pollInterval = 200 * time.Millisecond
	// sqlitePollInterval is shorter since SQLite has no notifications; a poll
	// that finds nothing is one read of an index.
	sqlitePollInterval = 50 * time.Millisecond
	// keepCompleted is how long completed jobs stay for someone to look at.
	keepCompleted = time.Hour
	// stuckAfter is when River takes a job for dead. Ours that died with a
	// process are rescued much earlier, by Rescue.
	stuckAfter = time.Hour
)

// Config says what a process works.
type Config struct {
	// NodeID tells this process from the others on the same database.
	NodeID string
	// Queues gives the number of workers of each queue; none means this
	// process only enqueues.
	Queues map[string]int
	// Patient are those of the queues whose jobs need not start at once. On
	// SQLite, where each queue costs the asking, they are asked less often.
	Patient []string
	// MaxAttempts is how often a job is tried.
	MaxAttempts int
	// Timeout ends one attempt.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Queue enqueues jobs and works them.
type Queue struct {
	db      *db.DB
	nodeID  string
	workers *river.Workers
	client  client
	// nodes is how many nodes lived at the last heartbeat.
	nodes atomic.Int64
}

// client is River's client, whose type depends on the driver.
type client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
	insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error)
}

// New makes a queue; register workers with Add, then Start it.
func New(d *db.DB, cfg Config) (*Queue, error) {
	workers := river.NewWorkers()
	rc := &river.Config{
		ID:                          cfg.NodeID,
		CompletedJobRetentionPeriod: keepCompleted,
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           pollInterval,
		JobTimeout:                  cfg.Timeout,
		Logger:                      cfg.Logger,
		MaxAttempts:                 cfg.MaxAttempts,
		RescueStuckJobsAfter:        max(stuckAfter, cfg.Timeout+time.Minute),
		RetryPolicy:                 retryPolicy{},
		// A process may enqueue what only another one works.
		SkipUnknownJobCheck: true,
		Workers:             workers,
	}
	if len(cfg.Queues) > 0 {
		rc.Queues = map[string]river.QueueConfig{}
		for name, n := range cfg.Queues {
			rc.Queues[name] = river.QueueConfig{MaxWorkers: n}
		}
	}
	q := &Queue{db: d, nodeID: cfg.NodeID, workers: workers}
	switch d.Dialect {
	case db.PostgreSQL:
		c, err := river.NewClient(steadyPostgres{riverpgxv5.New(d.Pool())}, rc)
		if err != nil {
			return nil, fmt.Errorf("making the queue: %w", err)
		}
		q.client = postgresClient{c}
	case db.SQLite:
		rc.FetchPollInterval = sqlitePollInterval
		for _, name := range cfg.Patient {
			if c, ok := rc.Queues[name]; ok {
				c.FetchPollInterval = pollInterval
				rc.Queues[name] = c
			}
		}
		c, err := river.NewClient(newQuietSQLite(d.Writer()), rc)
		if err != nil {
			return nil, fmt.Errorf("making the queue: %w", err)
		}
		q.client = sqliteClient{c}
	}
	return q, nil
}

// DefaultWorkers is how many jobs are worked at once when nobody says.
func DefaultWorkers() int { return max(2, runtime.NumCPU()) }

// Add registers the worker of one kind of job.
func Add[T river.JobArgs](q *Queue, worker river.Worker[T]) { river.AddWorker(q.workers, worker) }

// InsertTx enqueues a job in a transaction: rolled back, it leaves nothing.
// It gives the job's id.
func (q *Queue) InsertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error) {
	id, err := q.client.insertTx(ctx, tx, args, opts)
	if err != nil {
		return 0, fmt.Errorf("enqueuing %s: %w", args.Kind(), err)
	}
	return id, nil
}

// Start begins to work jobs, until Stop.
func (q *Queue) Start(ctx context.Context) error {
	// The context given to River ends its work at once when cancelled; stopping
	// is Stop's.
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting the queue: %w", err)
	}
	return nil
}

// Stop takes no new job and waits for those under way; when ctx ends they are
// cancelled, and go back to the queue.
func (q *Queue) Stop(ctx context.Context) error {
	err := q.client.Stop(ctx)
	if err != nil && ctx.Err() != nil {
		hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = q.client.StopAndCancel(hard)
	}
	if err != nil {
		return fmt.Errorf("stopping the queue: %w", err)
	}
	return nil
}

type sqliteClient struct{ *river.Client[*sql.Tx] }

func (c sqliteClient) insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error) {
	res, err := c.InsertTx(ctx, tx.Tx, args, opts)
	if err != nil {
		return 0, err
	}
	return res.Job.ID, nil
}

type postgresClient struct{ *river.Client[pgx.Tx] }

func (c postgresClient) insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (id int64, err error) {
	err = tx.Raw(func(driverConn any) error {
		b, err := newBridge(driverConn)
		if err != nil {
			return err
		}
		res, err := c.InsertTx(ctx, b, args, opts)
		if err != nil {
			return err
		}
		id = res.Job.ID
		return nil
	})
	return id, err
}

// waits are the pauses after the first, second, ... failed attempt; the last
// one repeats. Their sum over eight attempts is about an hour: an authority or
// a disk that is down over lunch costs no certificate.
var waits = [...]time.Duration{
	2 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute, 6 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

type retryPolicy struct{}

// NextRetry spreads the waits by a tenth, so that many that failed together do
// not come back together.
func (retryPolicy) NextRetry(row *rivertype.JobRow) time.Time {
	wait := waits[min(max(row.Attempt-1, 0), len(waits)-1)]
	jitter := time.Duration(rand.Int64N(int64(wait / 10))) //nolint:gosec // spreading load, not guarding a secret
	return time.Now().Add(wait + jitter)
}
