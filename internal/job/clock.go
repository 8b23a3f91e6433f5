package job

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// maxWait is longer than any time that a job waits: both the longest entry of waits with its jitter, and
// the longest delay after which an inserted job becomes due.
const maxWait = time.Hour

// PullBack corrects times that were set while a clock was ahead, and returns the number of
// corrected rows. A job that waits for more than maxWait becomes due. A heartbeat more than
// DeadAfter in the future is set to the current time. A leader of the queue whose term ends after
// more than maxWait is removed.
func (q *Queue) PullBack(ctx context.Context) (n int64, err error) {
	now, later := `now()`, fmt.Sprintf(`now() + interval '%d seconds'`, int(maxWait.Seconds()))
	if q.db.Dialect == db.SQLite {
		// River stores times as text on SQLite.
		now, later = `datetime('now', 'subsec')`, fmt.Sprintf(`datetime('now', 'subsec', '+%d seconds')`, int(maxWait.Seconds()))
	}
	at := q.now()
	err = q.db.Tx(ctx, func(tx *db.Tx) error {
		n = 0
		for _, s := range []struct {
			statement string
			args      []any
		}{
			{`UPDATE river_job SET scheduled_at = ` + now + ` WHERE state IN ('available', 'retryable', 'scheduled') AND scheduled_at > ` + later, nil},
			{`DELETE FROM river_leader WHERE expires_at > ` + later, nil},
			{`UPDATE nodes SET heartbeat_at = $1 WHERE heartbeat_at > $2`, []any{db.Micros(at), db.Micros(at.Add(DeadAfter))}},
		} {
			res, err := tx.ExecContext(ctx, s.statement, s.args...)
			if err != nil {
				return err
			}
			changed, err := res.RowsAffected()
			if err != nil {
				return err
			}
			n += changed
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("pulling back the times of jobs: %w", err)
	}
	return n, nil
}
