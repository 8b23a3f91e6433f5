package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Rescued is a job whose process died.
type Rescued struct {
	ID   int64
	Kind string
	// Args are the job's arguments as JSON.
	Args []byte

	queue string
}

// Rescue makes jobs of dead processes available again, without counting the interrupted attempt,
// and calls f for each job in the same transaction. On SQLite only one process runs jobs. Rescue makes
// every running job available, so it must be called before Start. On PostgreSQL, Rescue makes the jobs
// of dead nodes available. If River's leader is a dead node, Rescue ends its term.
func (q *Queue) Rescue(ctx context.Context, now time.Time, f func(context.Context, *db.Tx, Rescued) error) error {
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		dead, err := q.rescueDead(ctx, tx, now)
		if err != nil {
			return err
		}
		queues := map[string]bool{}
		for _, r := range dead {
			queues[r.queue] = true
			if err := f(ctx, tx, r); err != nil {
				return err
			}
		}
		if err := q.client.notifyTx(ctx, tx, slices.Sorted(maps.Keys(queues))); err != nil {
			return err
		}
		return q.buryTx(ctx, tx, now)
	})
	if err != nil {
		return fmt.Errorf("rescuing jobs: %w", err)
	}
	return nil
}

func (q *Queue) rescueDead(ctx context.Context, tx *db.Tx, now time.Time) ([]Rescued, error) {
	const available = `UPDATE river_job SET state = 'available', attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END WHERE state = 'running'`
	var rows *sql.Rows
	var err error
	if q.db.Dialect == db.SQLite {
		// River's leader schedules retries. A dead leader would remain elected until its term expires.
		if _, err := tx.ExecContext(ctx, `DELETE FROM river_leader`); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id <> $1`, q.nodeID); err != nil {
			return nil, err
		}
		// River stores JSON in SQLite's binary form.
		rows, err = tx.QueryContext(ctx, available+` RETURNING id, kind, json(args), queue`)
	} else {
		rows, err = tx.QueryContext(ctx, available+`
			AND NOT `+NodeAlive(`attempted_by[array_length(attempted_by, 1)]`, `$1`)+`
			RETURNING id, kind, args, queue`, db.Micros(now.Add(-DeadAfter)))
	}
	if err != nil {
		return nil, err
	}
	var dead []Rescued
	for rows.Next() {
		var r Rescued
		if err := rows.Scan(&r.ID, &r.Kind, &r.Args, &r.queue); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		dead = append(dead, r)
	}
	return dead, errors.Join(rows.Err(), rows.Close())
}
