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
	// HeartbeatInterval is the interval of heartbeats.
	HeartbeatInterval = 3 * time.Second
	// DeadAfter is the time without a heartbeat after which a node is considered dead. With
	// HeartbeatInterval, a job of a dead node continues within less than 30 s.
	DeadAfter = 4 * HeartbeatInterval
)

// Rescued is a job whose process died.
type Rescued struct {
	ID   int64
	Kind string
	// Args are the job's arguments as JSON.
	Args []byte
}

// Heartbeat records that this node is alive, removes the nodes without a heartbeat in the last
// hour, and counts the nodes that are alive.
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

// Others returns the times of the last heartbeats of the other nodes that may be alive, in
// microseconds. The keys of the map are the ids of the nodes.
func (q *Queue) Others(ctx context.Context, now time.Time) (map[string]int64, error) {
	rows, err := q.db.QueryContext(ctx, `SELECT id, heartbeat_at FROM nodes WHERE id <> $1 AND heartbeat_at >= $2`, q.nodeID, db.Micros(now.Add(-DeadAfter)))
	if err != nil {
		return nil, fmt.Errorf("reading heartbeats: %w", err)
	}
	type node struct {
		id string
		at int64
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (n node, err error) {
		err = rows.Scan(&n.id, &n.at)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading heartbeats: %w", err)
	}
	others := map[string]int64{}
	for _, n := range list {
		others[n.id] = n.at
	}
	return others, nil
}

// Nodes returns the number of nodes that were alive at the last heartbeat, including this node.
func (q *Queue) Nodes() int { return max(1, int(q.nodes.Load())) }

// Leave removes this node from the list of nodes when it stops.
func (q *Queue) Leave(ctx context.Context) error { return q.Remove(ctx, q.nodeID) }

// Remove removes a node that is known to be dead from the list of nodes, so that its work is
// rescued before DeadAfter has passed.
func (q *Queue) Remove(ctx context.Context, node string) error {
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id = $1`, node)
		return err
	})
	if err != nil {
		return fmt.Errorf("removing node %s: %w", node, err)
	}
	return nil
}

// Rescue makes jobs of dead processes available again, without counting the interrupted attempt,
// and calls f for each job in the same transaction. On SQLite only one process runs jobs, and
// Rescue makes every running job available. There, Rescue must be called when the process starts,
// before the queue runs. On PostgreSQL, Rescue makes available the jobs of nodes whose heartbeat
// has stopped.
func (q *Queue) Rescue(ctx context.Context, now time.Time, f func(context.Context, *db.Tx, Rescued) error) error {
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		dead, err := q.rescueDead(ctx, tx, now)
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

func (q *Queue) rescueDead(ctx context.Context, tx *db.Tx, now time.Time) ([]Rescued, error) {
	const available = `UPDATE river_job SET state = 'available', attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END WHERE state = 'running'`
	var rows *sql.Rows
	var err error
	if q.db.Dialect == db.SQLite {
		// A leader that died remains elected until its term expires. Without a working leader, no
		// retry is scheduled.
		if _, err := tx.ExecContext(ctx, `DELETE FROM river_leader`); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id <> $1`, q.nodeID); err != nil {
			return nil, err
		}
		// River stores JSON in SQLite's binary form.
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
