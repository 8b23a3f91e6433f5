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

// quietSQLite is River's SQLite driver without two things that cost an idle
// vault more than all its other work.
//
// Its stand-in for notifications writes a row for each job and polls for it on
// the one connection that writes: polling for the jobs themselves is no later
// and costs nothing.
//
// A fetch is an UPDATE whose text SQLite reads anew each time, and nearly every
// one finds nothing. So a statement that is kept asks first whether there is
// anything to fetch.
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

// waiting tells whether a queue has jobs to fetch. It asks on the connection
// that fetches, so that lists which keep all others busy do not hold up jobs.
type waiting struct {
	pool *sql.DB

	mu   sync.Mutex
	stmt *sql.Stmt // prepared when it is first needed, closed with the database
}

// in is true also where the time of all jobs is still to come: that is the
// fetch's to judge.
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
