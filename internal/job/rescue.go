package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// Beat is how often a node says that it lives.
	Beat = 3 * time.Second
	// DeadAfter is how long a node may be silent before its jobs are taken for
	// dead: with the beat, a job goes on well within 30 s.
	DeadAfter = 4 * Beat
)

// Rescued is a job that died with its process.
type Rescued struct {
	ID   int64
	Kind string
	// Args are the job's arguments as JSON.
	Args []byte
}

// Heartbeat says that this node lives, forgets nodes long gone, and counts those
// that live.
func (q *Queue) Heartbeat(ctx context.Context, now time.Time) error {
	var alive int64
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ($1, $2, $2)
			ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`, q.nodeID, db.Micros(now)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE heartbeat_at < $1`, db.Micros(now.Add(-time.Hour))); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM nodes WHERE heartbeat_at >= $1`, db.Micros(now.Add(-DeadAfter))).Scan(&alive)
	})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	q.nodes.Store(alive)
	return nil
}

// Nodes is how many nodes lived at the last heartbeat, this one among them.
func (q *Queue) Nodes() int { return max(1, int(q.nodes.Load())) }

// Leave says that this node has ended in good order.
func (q *Queue) Leave(ctx context.Context) error {
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id = $1`, q.nodeID)
		return err
	})
	if err != nil {
		return fmt.Errorf("leaving: %w", err)
	}
	return nil
}

// Rescue makes jobs available that died with their process, with no attempt
// counted, and tells each to f in the same transaction. On SQLite one process
// has the data folder, so that at its start, before the queue runs, every
// running job is dead; calling it later would be wrong there. On PostgreSQL the
// dead are those of nodes whose heartbeat has stopped.
func (q *Queue) Rescue(ctx context.Context, now time.Time, f func(context.Context, *db.Tx, Rescued) error) error {
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		dead, err := q.takeDead(ctx, tx, now)
		if err != nil {
			return err
		}
		for _, r := range dead {
			if err := f(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rescuing jobs: %w", err)
	}
	return nil
}

func (q *Queue) takeDead(ctx context.Context, tx *db.Tx, now time.Time) ([]Rescued, error) {
	const available = `UPDATE river_job SET state = 'available', attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END WHERE state = 'running'`
	var rows *sql.Rows
	var err error
	if q.db.Dialect == db.SQLite {
		// A leader that died holds its office until it runs out, and without one
		// no retry is scheduled.
		if _, err := tx.ExecContext(ctx, `DELETE FROM river_leader`); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id <> $1`, q.nodeID); err != nil {
			return nil, err
		}
		// River keeps JSON in SQLite's binary form.
		rows, err = tx.QueryContext(ctx, available+` RETURNING id, kind, json(args)`)
	} else {
		rows, err = tx.QueryContext(ctx, available+`
			AND NOT `+NodeAlive(`attempted_by[array_length(attempted_by, 1)]`, `$1`)+`
			RETURNING id, kind, args`, db.Micros(now.Add(-DeadAfter)))
	}
	if err != nil {
		return nil, err
	}
	var dead []Rescued
	for rows.Next() {
		var r Rescued
		if err := rows.Scan(&r.ID, &r.Kind, &r.Args); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		dead = append(dead, r)
	}
	return dead, errors.Join(rows.Err(), rows.Close())
}
