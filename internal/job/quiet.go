package job

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivertype"
)

// quietSQLite is River's SQLite driver without two features that use more processor time of an idle
// vault than all its other work.
//
// The driver imitates notifications: it writes a row for each job, and polls for the row on the
// only connection that writes. Polling for the jobs themselves is as fast and requires no such
// rows.
//
// A fetch is an UPDATE that SQLite parses each time, and nearly every fetch finds no job.
// quietSQLite therefore checks with a prepared statement whether there is a job.
type quietSQLite struct {
	*riversqlite.Driver

	waiting *waiting
}

func newQuietSQLite(pool *sql.DB) quietSQLite {
	return quietSQLite{riversqlite.New(pool), &waiting{pool: pool}}
}

// SupportsListener implements [riverdriver.Driver].
func (quietSQLite) SupportsListener() bool { return false }

// SupportsListenNotify implements [riverdriver.Driver].
func (quietSQLite) SupportsListenNotify() bool { return false }

// GetExecutor implements [riverdriver.Driver].
func (d quietSQLite) GetExecutor() riverdriver.Executor {
	return quietExecutor{d.Driver.GetExecutor(), d.waiting}
}

type quietExecutor struct {
	riverdriver.Executor

	waiting *waiting
}

// JobGetAvailable implements [riverdriver.Executor].
func (e quietExecutor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) ([]*rivertype.JobRow, error) {
	if found, err := e.waiting.hasJobs(ctx, params.Queue); err != nil || !found {
		return nil, err
	}
	return e.Executor.JobGetAvailable(ctx, params)
}

// waiting checks whether a queue has jobs to fetch. It uses the connection of the fetch, so that
// list queries, which use the other connections, do not delay jobs.
type waiting struct {
	pool *sql.DB

	mu   sync.Mutex
	stmt *sql.Stmt // prepared when it is first needed, closed with the database
}

// hasJobs reports whether a queue has an available job. The job may be scheduled for later; the
// fetch omits such jobs.
func (w *waiting) hasJobs(ctx context.Context, queue string) (found bool, err error) {
	stmt, err := w.prepared(ctx) //nolint:sqlclosecheck // the statement is used again
	if err == nil {
		err = stmt.QueryRowContext(ctx, queue).Scan(&found)
	}
	if err != nil {
		return false, fmt.Errorf("querying jobs of the queue %s: %w", queue, err)
	}
	return found, nil
}

func (w *waiting) prepared(ctx context.Context) (stmt *sql.Stmt, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stmt == nil {
		w.stmt, err = w.pool.PrepareContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state = 'available' AND queue = $1 AND priority >= 0)`)
	}
	return w.stmt, err
}
