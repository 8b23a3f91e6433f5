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

// nearPostgres is River's PostgreSQL driver with fewer notifications. While a node has few waiting jobs,
// a job that it enqueues wakes only this node, which has the files of the job in its cache. The other
// nodes do not try to fetch the job, and the commit does not wait for the lock that all transactions
// with NOTIFY use.
//
// All nodes with workers poll, so another node runs the job if this node dies.
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

// NotifyMany implements [riverdriver.Executor]. It sends no notifications about new jobs, because
// postgresClient.insertTx sends them.
func (e insertExecutor) NotifyMany(ctx context.Context, params *riverdriver.NotifyManyParams) error {
	if params.Topic == insertTopic {
		return nil
	}
	return e.ExecutorTx.NotifyMany(ctx, params)
}

// fetchExecutor fetches jobs without waiting for the disk, and records their number in the backlog.
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
// If PostgreSQL crashes and loses the fetch of a job, the job is fetched again and may run twice.
type relaxed struct {
	bridge

	results pgx.BatchResults
}

// Query implements [pgx.Tx]. PostgreSQL runs a batch as one transaction.
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

// end closes the batch, which ends the transaction.
func (r *relaxed) end() error {
	if r.results == nil {
		return nil
	}
	return r.results.Close()
}

const (
	// jobsPerWorker is the number of waiting jobs per worker above which a node wakes all nodes.
	jobsPerWorker = 2
	// wakeInterval is the minimum time between two notifications to all nodes about a queue whose jobs
	// this node also runs. A node that was woken fetches jobs until there are none.
	wakeInterval = 50 * time.Millisecond
)

// backlog estimates how many of the jobs that this node enqueued still wait.
type backlog struct {
	// limits has the number of waiting jobs above which a new job wakes all nodes. Its keys are the
	// queues whose jobs this node runs.
	limits map[string]int

	mu      sync.Mutex
	waiting map[string]int
	woken   map[string]time.Time // the last notification to all nodes
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

// add counts a new job of a queue, and reports whether to wake all nodes instead of only this node. A
// job whose transaction is rolled back is counted until a fetch returns fewer jobs than it asked for.
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

// fetched records that a fetch of at most limit jobs returned n jobs. If n is less than limit, the queue
// is empty.
func (b *backlog) fetched(queue string, n, limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[queue] = max(0, b.waiting[queue]-n); n < limit {
		b.waiting[queue] = 0
	}
}

// nearListener returns the notifications of this node and of the database.
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
