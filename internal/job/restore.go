package job

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// ForgetNodesTx removes all nodes and makes their jobs available again, without counting the
// interrupted attempts. It is for a database that was restored from a backup: the nodes in the
// backup do not use the restored database.
func ForgetNodesTx(ctx context.Context, tx *db.Tx) error {
	for _, statement := range []string{
		`UPDATE river_job SET state = 'available', attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END WHERE state = 'running'`,
		`DELETE FROM river_leader`,
		`DELETE FROM nodes`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("removing nodes: %w", err)
		}
	}
	return nil
}

// Alive returns the number of nodes that are alive.
func Alive(ctx context.Context, q db.Queryer, now time.Time) (n int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT count(*) FROM nodes WHERE `+beatAt+` >= $1`, db.Micros(now.Add(-DeadAfter))).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting nodes: %w", err)
	}
	return n, nil
}
