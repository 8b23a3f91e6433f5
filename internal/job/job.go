// Package job implements the job queue. A job is one piece of background work, such as the sealing
// of a certificate. It is enqueued in the transaction that makes the work necessary, and this
// process or another process runs it. The package uses the job queue River with SQLite and PostgreSQL,
// and manages the tables of River and the list of nodes. It does not depend on the kinds of jobs.
//
// The packages that enqueue jobs store in their own tables which work is unfinished. Workers are
// idempotent, and a sweep enqueues unfinished work that has no job.
package job

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/trace"
)

const (
	// fetchCooldown is the minimum time between two fetches of jobs. River's default, 100 ms, limits
	// the throughput to about 1,000 jobs per second; 2 ms allows about 7,000.
	fetchCooldown = 2 * time.Millisecond
	// pollInterval is the longest delay of a job about which no notification arrives, such as a job that
	// a command enqueues on SQLite. On PostgreSQL the interval is longer, because the polls of the seven
	// queues are half of the load of an idle vault.
	pollInterval         = time.Second
	postgresPollInterval = 2 * time.Second
	// keepCompleted is the minimum time for which completed jobs are stored.
	keepCompleted = time.Hour
	// stuckAfter is the minimum time after which River assumes that the process of a running job is dead.
	// Rescue finds the jobs of dead processes much earlier.
	stuckAfter = time.Hour
)

// Config configures the queue of a process.
type Config struct {
	// NodeID identifies this process among the processes on the same database.
	NodeID string
	// Info describes this process to operators.
	Info NodeInfo
	// Queues is the number of workers of each queue. If Queues is empty, this process only enqueues
	// jobs.
	Queues map[string]int
	// MaxAttempts is the maximum number of attempts of a job whose InsertOpts do not specify one.
	MaxAttempts int
	// Timeout is the maximum duration of one attempt.
	Timeout time.Duration
	// Now returns the current time for schedules; nil means time.Now. The processes on a database
	// should use the same clock.
	Now func() time.Time
	// Tracer records traces; it may be nil.
	Tracer *trace.Tracer
	Logger *slog.Logger
}

// Queue enqueues jobs and runs them.
type Queue struct {
	db      *db.DB
	nodeID  string
	now     func() time.Time
	workers *river.Workers
	client  client
	// works is false if this process only enqueues jobs.
	works bool
	// names are the names of the queues whose jobs this process runs.
	names []string
	info  NodeInfo
	// nodes is the number of nodes that were alive at the last heartbeat.
	nodes atomic.Int64

	mu    sync.Mutex
	beats beats
}

// client is River's client, whose type depends on the driver.
type client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
	insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error)
	// notifyTx wakes the workers of queues after the commit.
	notifyTx(ctx context.Context, tx *db.Tx, queues []string) error
}

// New returns a queue. Register workers with Add, then call Start.
func New(d *db.DB, cfg Config) (*Queue, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	poll := pollInterval
	if d.Dialect == db.PostgreSQL {
		poll = postgresPollInterval
	}
	workers := river.NewWorkers()
	rc := &river.Config{
		ID:                          cfg.NodeID,
		CompletedJobRetentionPeriod: keepCompleted,
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           poll,
		JobTimeout:                  cfg.Timeout,
		Logger:                      cfg.Logger,
		MaxAttempts:                 cfg.MaxAttempts,
		RescueStuckJobsAfter:        max(stuckAfter, cfg.Timeout+time.Minute),
		RetryPolicy:                 retryPolicy{cfg.Now},
		// A process may enqueue jobs that only another process runs.
		SkipUnknownJobCheck: true,
		Workers:             workers,
	}
	if cfg.Tracer != nil {
		rc.Middleware = []rivertype.Middleware{&tracing{tracer: cfg.Tracer}}
	}
	if len(cfg.Queues) > 0 {
		rc.Queues = map[string]river.QueueConfig{}
		for name, n := range cfg.Queues {
			rc.Queues[name] = river.QueueConfig{MaxWorkers: n}
		}
	}
	q := &Queue{db: d, nodeID: cfg.NodeID, info: cfg.Info, now: cfg.Now, workers: workers, works: len(cfg.Queues) > 0, names: slices.Sorted(maps.Keys(cfg.Queues))}
	switch d.Dialect {
	case db.PostgreSQL:
		driver := nearPostgres{steadyPostgres{riverpgxv5.New(d.Pool())}, d.Pool(), newListener(), newBacklog(cfg.Queues)}
		c, err := river.NewClient(driver, rc)
		if err != nil {
			return nil, fmt.Errorf("creating the queue: %w", err)
		}
		q.client = postgresClient{c, driver.local, driver.backlog}
	case db.SQLite:
		driver := newQuietSQLite(d)
		c, err := river.NewClient(driver, rc)
		if err != nil {
			return nil, fmt.Errorf("creating the queue: %w", err)
		}
		q.client = sqliteClient{c, driver.listener}
	}
	return q, nil
}

// DefaultWorkers returns the number of CPUs, but at least 2. The numbers of workers are derived from it.
func DefaultWorkers() int { return max(2, runtime.NumCPU()) }

// Names returns the names of the queues whose jobs this process runs.
func (q *Queue) Names() []string { return q.names }

// Add registers the worker of one kind of job.
func Add[T river.JobArgs](q *Queue, worker river.Worker[T]) { river.AddWorker(q.workers, worker) }

// InsertTx enqueues a job in a transaction and returns its id. If the transaction is rolled back,
// there is no job.
func (q *Queue) InsertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error) {
	id, err := q.client.insertTx(ctx, tx, args, continued(ctx, opts))
	if err != nil {
		return 0, fmt.Errorf("enqueuing %s: %w", args.Kind(), err)
	}
	return id, nil
}

// Start begins to run jobs and returns. Jobs run until Stop is called. If this process only enqueues
// jobs, Start does nothing.
func (q *Queue) Start(ctx context.Context) error {
	if !q.works {
		return nil
	}
	// River cancels all running jobs when the context is cancelled. Only Stop should end jobs.
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting the queue: %w", err)
	}
	return nil
}

// Stop stops fetching jobs and waits until the running jobs have finished. If ctx ends first, Stop
// cancels the running jobs, which return to the queue.
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

type sqliteClient struct {
	*river.Client[*sql.Tx]

	listener *listener
}

func (c sqliteClient) insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error) {
	res, err := c.InsertTx(tx.Context(ctx), tx.Tx, args, opts)
	if err != nil {
		return 0, err
	}
	tx.AfterCommit(func() { c.listener.notify(res.Job.Queue) })
	return res.Job.ID, nil
}

func (c sqliteClient) notifyTx(_ context.Context, tx *db.Tx, queues []string) error {
	tx.AfterCommit(func() {
		for _, queue := range queues {
			c.listener.notify(queue)
		}
	})
	return nil
}

type postgresClient struct {
	*river.Client[pgx.Tx]

	local   *listener
	backlog *backlog
}

func (c postgresClient) Start(ctx context.Context) error {
	c.backlog.start()
	return c.Client.Start(ctx)
}

func (c postgresClient) Stop(ctx context.Context) error {
	c.backlog.stop()
	return c.Client.Stop(ctx)
}

func (c postgresClient) insertTx(ctx context.Context, tx *db.Tx, args river.JobArgs, opts *river.InsertOpts) (int64, error) {
	var job *rivertype.JobRow
	err := tx.Raw(func(driverConn any) error {
		b, err := newBridge(driverConn)
		if err != nil {
			return err
		}
		res, err := c.InsertTx(ctx, b, args, opts)
		if err != nil {
			return err
		}
		job = res.Job
		return nil
	})
	if err != nil {
		return 0, err
	}
	switch {
	case job.State != rivertype.JobStateAvailable:
		return job.ID, nil
	case c.backlog.add(job.Queue):
		return job.ID, c.notifyTx(ctx, tx, []string{job.Queue})
	default:
		tx.AfterCommit(func() { c.local.notify(job.Queue) })
		return job.ID, nil
	}
}

func (postgresClient) notifyTx(ctx context.Context, tx *db.Tx, queues []string) error {
	if len(queues) == 0 {
		return nil
	}
	params := &riverdriver.NotifyManyParams{Topic: insertTopic}
	for _, queue := range queues {
		params.Payload = append(params.Payload, notice(queue))
	}
	return tx.Raw(func(driverConn any) error {
		b, err := newBridge(driverConn)
		if err != nil {
			return err
		}
		return riverpgxv5.New(nil).UnwrapExecutor(b).NotifyMany(ctx, params)
	})
}

// waits are the delays after the first, second and later failed attempts; the last delay repeats. By
// default, the eight attempts to process a certificate take about 54 minutes. Therefore no certificate
// fails because of a shorter outage of a time-stamp authority or a disk.
var waits = [...]time.Duration{
	2 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute, 6 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

type retryPolicy struct{ now func() time.Time }

// NextRetry adds up to a tenth to each wait, so that jobs that failed at the same time are not
// retried at the same time.
func (p retryPolicy) NextRetry(row *rivertype.JobRow) time.Time {
	wait := waits[min(max(row.Attempt-1, 0), len(waits)-1)]
	jitter := time.Duration(rand.Int64N(int64(wait / 10))) //nolint:gosec // the jitter spreads load and is not secret
	return p.now().Add(wait + jitter)
}
