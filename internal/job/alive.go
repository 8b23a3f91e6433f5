package job

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// aliveStates are the states of an unfinished job, which waits or is running.
const aliveStates = `('available', 'pending', 'retryable', 'running', 'scheduled')`

// UnfinishedTx reports whether there is an unfinished job of a kind.
func UnfinishedTx(ctx context.Context, tx *db.Tx, kind string) (alive bool, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE kind = $1 AND state IN `+aliveStates+`)`, kind).Scan(&alive); err != nil {
		return false, fmt.Errorf("querying jobs of the kind %s: %w", kind, err)
	}
	return alive, nil
}

// Unfinished returns an SQL condition for the statements of other packages. The condition is true if the
// job whose id is in the column is unfinished.
func Unfinished(column string) string {
	return `EXISTS (SELECT 1 FROM river_job WHERE river_job.id = ` + column + ` AND river_job.state IN ` + aliveStates + `)`
}

// Busy returns an SQL condition for the statements of other packages. The condition is true if the job
// whose id is in the column is running or can start at once. A job that waits for another attempt is not
// busy.
func Busy(column string) string {
	return `EXISTS (SELECT 1 FROM river_job WHERE river_job.id = ` + column + ` AND river_job.state IN ('available', 'running'))`
}

// NodeAlive returns an SQL condition for the statements of other packages. The condition is true if the
// node whose id is in the column has sent a heartbeat at or after a time. since is the placeholder for
// this time, which should be DeadAfter ago. Nodes of release 0.1 have more time: see beatAt.
func NodeAlive(column, since string) string {
	return `EXISTS (SELECT 1 FROM nodes WHERE nodes.id = ` + column + ` AND ` + beatAt + ` >= ` + since + `)`
}
