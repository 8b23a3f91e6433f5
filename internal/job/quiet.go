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

// quietSQLite is River's SQLite driver without two things that take more of an idle vault's time
// than all its other work.
//
// The driver imitates notifications: it writes a row for each job and polls for it on the only
// connection that writes. Polling for the jobs is as fast and needs no rows.
//
// A fetch is an UPDATE that SQLite parses each time, and nearly every fetch finds nothing. A
// prepared statement checks first whether there is a job.
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
	if some, err := e.waiting.in(ctx, params.Queue); err != nil || !some {
		return nil, err
	}
	return e.Executor.JobGetAvailable(ctx, params)
}

// waiting reports whether a queue has jobs to fetch. It uses the connection of the fetch, so that
// lists on all other connections do not delay jobs.
type waiting struct {
	pool *sql.DB

	mu   sync.Mutex
	stmt *sql.Stmt // prepared when it is first needed, closed with the database
}

// in may report true for jobs scheduled later; the fetch filters them.
func (w *waiting) in(ctx context.Context, queue string) (some bool, err error) {
	stmt, err := w.prepared(ctx) //nolint:sqlclosecheck // it is kept
	if err == nil {
		err = stmt.QueryRowContext(ctx, queue).Scan(&some)
	}
	if err != nil {
		return false, fmt.Errorf("looking for jobs of %s: %w", queue, err)
	}
	return some, nil
}

func (w *waiting) prepared(ctx context.Context) (stmt *sql.Stmt, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stmt == nil {
		w.stmt, err = w.pool.PrepareContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state = 'available' AND queue = $1 AND priority >= 0)`)
	}
	return w.stmt, err
}
