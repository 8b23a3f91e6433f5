package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

// nearPostgres is River's PostgreSQL driver, changed so that a new job wakes only the node that
// enqueued it while this node has few waiting jobs. The node has the files of the job in its cache.
// The other nodes do not fetch a job that they would not get, and the commit does not wait for the
// lock that all transactions with NOTIFY share.
//
// Every node polls, so the others run the job if its node dies.
type nearPostgres struct {
	steadyPostgres

	pool    *pgxpool.Pool
	local   *listener
	backlog *backlog
}

// GetListener implements [riverdriver.Driver].
func (d nearPostgres) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return nearListener{d.steadyPostgres.GetListener(params), d.local}
}

// GetExecutor implements [riverdriver.Driver].
func (d nearPostgres) GetExecutor() riverdriver.Executor {
	return fetchExecutor{d.steadyPostgres.GetExecutor(), d.steadyPostgres, d.pool, d.backlog}
}

// UnwrapExecutor implements [riverdriver.Driver].
func (d nearPostgres) UnwrapExecutor(tx pgx.Tx) riverdriver.ExecutorTx {
	return insertExecutor{d.steadyPostgres.UnwrapExecutor(tx)}
}

// UnwrapTx implements [riverdriver.Driver].
func (d nearPostgres) UnwrapTx(tx riverdriver.ExecutorTx) pgx.Tx {
	if e, ok := tx.(insertExecutor); ok {
		tx = e.ExecutorTx
	}
	return d.steadyPostgres.UnwrapTx(tx)
}

// insertExecutor is the executor of the transactions that enqueue jobs.
type insertExecutor struct{ riverdriver.ExecutorTx }

// NotifyMany implements [riverdriver.Executor]. It sends nothing about new jobs, because
// postgresClient.insertTx does.
func (e insertExecutor) NotifyMany(ctx context.Context, params *riverdriver.NotifyManyParams) error {
	if params.Topic == insertTopic {
		return nil
	}
	return e.ExecutorTx.NotifyMany(ctx, params)
}

// fetchExecutor fetches jobs without waiting for the disk, and records in a backlog how many.
type fetchExecutor struct {
	riverdriver.Executor

	driver  steadyPostgres
	pool    *pgxpool.Pool
	backlog *backlog
}

// JobGetAvailable implements [riverdriver.Executor].
func (e fetchExecutor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) (jobs []*rivertype.JobRow, err error) {
	err = e.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) (err error) {
		r := &relaxed{bridge: bridge{c.Conn()}}
		jobs, err = e.driver.UnwrapExecutor(r).JobGetAvailable(ctx, params)
		return errors.Join(err, r.end())
	})
	if err != nil {
		return nil, err
	}
	e.backlog.fetched(params.Queue, len(jobs), params.MaxToLock)
	return jobs, nil
}

// relaxed runs one query in a transaction whose commit does not wait for the disk, with one round trip.
// If PostgreSQL crashes, a job whose fetch was lost is fetched again. The job may then run twice, like a
// job of a node that was considered dead while the node was alive.
type relaxed struct {
	bridge

	results pgx.BatchResults
}

// Query implements [pgx.Tx]. The statements of a batch are a transaction.
func (r *relaxed) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('synchronous_commit', 'off', TRUE)`)
	batch.Queue(query, args...)
	r.results = r.conn.SendBatch(ctx, &batch)
	if _, err := r.results.Exec(); err != nil {
		return nil, err
	}
	return r.results.Query()
}

// end ends the transaction.
func (r *relaxed) end() error {
	if r.results == nil {
		return nil
	}
	return r.results.Close()
}

const (
	// jobsPerWorker is the number of waiting jobs per worker from which on a node wakes the others.
	jobsPerWorker = 2
	// wakeInterval is the minimum time between two notifications of the others about a queue that this
	// node runs too. A node that was woken fetches as long as there are jobs.
	wakeInterval = 50 * time.Millisecond
)

// backlog estimates how many of the jobs that this node enqueued still wait.
type backlog struct {
	// limits has the number of waiting jobs of each queue from which on a new job wakes all nodes.
	// It lacks the queues whose jobs this node does not run.
	limits map[string]int

	mu      sync.Mutex
	waiting map[string]int
	woken   map[string]time.Time // the last notification of the others
	// started reports whether this node runs jobs.
	started bool
}

// newBacklog returns the backlog of a node. workers is the number of workers of each queue.
func newBacklog(workers map[string]int) *backlog {
	b := &backlog{limits: map[string]int{}, waiting: map[string]int{}, woken: map[string]time.Time{}}
	for queue, n := range workers {
		b.limits[queue] = jobsPerWorker * n
	}
	return b
}

func (b *backlog) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = true
}

func (b *backlog) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = false
}

// add counts a new job of a queue, and reports whether all nodes are to be woken, or else only this
// one. A transaction that is rolled back counts until the next fetch.
func (b *backlog) add(queue string) (all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := b.limits[queue]
	if !b.started || limit == 0 {
		return true
	}
	if b.waiting[queue] < limit {
		b.waiting[queue]++
		return false
	}
	now := time.Now()
	if now.Sub(b.woken[queue]) < wakeInterval {
		return false
	}
	b.woken[queue] = now
	return true
}

// fetched records that this node has fetched n jobs of at most limit. The queue is then empty if
// there were fewer than the limit.
func (b *backlog) fetched(queue string, n, limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[queue] = max(0, b.waiting[queue]-n); n < limit {
		b.waiting[queue] = 0
	}
}

// nearListener returns the notifications of this node and those of the database.
type nearListener struct {
	riverdriver.Listener

	local *listener
}

// WaitForNotification implements [riverdriver.Listener].
func (l nearListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	for {
		if queue := l.local.take(); queue != "" {
			return &riverdriver.Notification{Topic: insertTopic, Payload: notice(queue)}, nil
		}
		wait, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-l.local.added:
				end()
			case <-wait.Done():
			}
		}()
		n, err := l.Listener.WaitForNotification(wait)
		interrupted := wait.Err() != nil && ctx.Err() == nil
		end()
		<-ended // the goroutine may have received the signal for a queue, which the next call of take returns
		if err == nil || !interrupted {
			return n, err
		}
	}
}
