package job

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
)

// quietSQLite is River's SQLite driver with fewer writes.
//
// For a notification, River's driver writes a row, and polls for new rows on the only connection that
// writes. quietSQLite has a listener instead, which Queue.InsertTx notifies after the commit.
//
// A fetch is an UPDATE, and nearly every poll of an idle vault finds no job. Therefore quietSQLite
// first checks with a query whether there is a job.
//
// The commits of a fetch and of the end of a job do not wait for the disk. After a power failure, a
// job whose fetch was lost is fetched again, and a job whose end was lost is rescued and runs again.
// This does no harm, because workers are idempotent.
type quietSQLite struct {
	*riversqlite.Driver

	db       *db.DB
	listener *listener
}

func newQuietSQLite(d *db.DB) quietSQLite {
	return quietSQLite{riversqlite.New(d.Writer()), d, newListener()}
}

// SupportsListener implements [riverdriver.Driver].
func (quietSQLite) SupportsListener() bool { return true }

// GetListener implements [riverdriver.Driver].
func (d quietSQLite) GetListener(*riverdriver.GetListenenerParams) riverdriver.Listener {
	return d.listener
}

// SupportsListenNotify implements [riverdriver.Driver]. It returns false, because River would send
// notifications before the commit.
func (quietSQLite) SupportsListenNotify() bool { return false }

// GetExecutor implements [riverdriver.Driver].
func (d quietSQLite) GetExecutor() riverdriver.Executor {
	return quietExecutor{d.Driver.GetExecutor(), d.db, d.UnwrapExecutor}
}

// quietExecutor is the executor outside transactions.
type quietExecutor struct {
	riverdriver.Executor

	db *db.DB
	// in returns the executor of a transaction.
	in func(tx *sql.Tx) riverdriver.ExecutorTx
}

// JobGetAvailable implements [riverdriver.Executor].
func (e quietExecutor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) (jobs []*rivertype.JobRow, err error) {
	if found, err := e.hasJobs(ctx, params.Queue); err != nil || !found {
		return nil, err
	}
	err = e.db.TxRelaxed(ctx, func(tx *db.Tx) (err error) {
		jobs, err = e.in(tx.Tx).JobGetAvailable(tx.Context(ctx), params)
		return err
	})
	return jobs, err
}

// JobSetStateIfRunningMany implements [riverdriver.Executor].
func (e quietExecutor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) (jobs []*rivertype.JobRow, err error) {
	err = e.db.TxRelaxed(ctx, func(tx *db.Tx) (err error) {
		jobs, err = e.in(tx.Tx).JobSetStateIfRunningMany(tx.Context(ctx), params)
		return err
	})
	return jobs, err
}

// hasJobs reports whether a queue has an available job. It uses the connection that also fetches jobs,
// so that the queries of lists on the other connections do not delay jobs.
func (e quietExecutor) hasJobs(ctx context.Context, queue string) (found bool, err error) {
	err = e.db.Writer().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state = 'available' AND queue = $1 AND priority >= 0)`, queue).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("querying jobs of the queue %s: %w", queue, err)
	}
	return found, nil
}
