package job

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// aliveStates are the states of a job that is to be worked or is being worked.
const aliveStates = `('available', 'pending', 'retryable', 'running', 'scheduled')`

// AliveTx reports whether a job of a kind is to be worked or is being worked.
func AliveTx(ctx context.Context, tx *db.Tx, kind string) (alive bool, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE kind = $1 AND state IN `+aliveStates+`)`, kind).Scan(&alive); err != nil {
		return false, fmt.Errorf("looking for jobs of the kind %s: %w", kind, err)
	}
	return alive, nil
}

// Alive returns an SQL condition for the statements of other packages: the job
// whose id is in a column is to be worked or is being worked.
func Alive(column string) string {
	return `EXISTS (SELECT 1 FROM river_job WHERE river_job.id = ` + column + ` AND river_job.state IN ` + aliveStates + `)`
}

// Busy returns an SQL condition for the statements of other packages: the job
// whose id is in a column has a worker or waits for one. A job that waits for
// another attempt is not busy.
func Busy(column string) string {
	return `EXISTS (SELECT 1 FROM river_job WHERE river_job.id = ` + column + ` AND river_job.state IN ('available', 'running'))`
}

// NodeAlive returns an SQL condition for the statements of other packages: the
// node whose id is in a column has sent a heartbeat since the time of a
// placeholder, which should be DeadAfter ago.
func NodeAlive(column, since string) string {
	return `EXISTS (SELECT 1 FROM nodes WHERE nodes.id = ` + column + ` AND nodes.heartbeat_at >= ` + since + `)`
}
