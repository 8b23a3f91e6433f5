package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Each periodic task is held by one node, which runs it. The right to a task ends when the node is dead
// or has left, or after holdTime if the node does not renew the right.
const (
	holdTime = time.Minute
	// renewBefore is the remaining time below which a node renews its right.
	renewBefore = holdTime / 2
)

// Task is a periodic task.
type Task struct {
	Name string
	// Node is the id of the node that runs the task, or "" if no living node does.
	Node string
	// LastAt is the end of the last successful run, or zero. Took is the duration of this run.
	LastAt time.Time
	Took   time.Duration
}

// ListTasks returns all periodic tasks, sorted by name.
func ListTasks(ctx context.Context, q db.Queryer, now time.Time) (list []Task, err error) {
	rows, err := taskRows(ctx, q, now)
	for _, t := range rows {
		list = append(list, t.Task)
	}
	return list, err
}

// taskRow is a task and the time at which the right of its node ends.
type taskRow struct {
	Task

	until time.Time
}

func taskRows(ctx context.Context, q db.Queryer, now time.Time) ([]taskRow, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT name, CASE WHEN until > $1 AND `+NodeAlive(`tasks.node`, `$2`)+` THEN node ELSE '' END, until, last_at, took FROM tasks ORDER BY name`,
		db.Micros(now), db.Micros(now.Add(-DeadAfter)))
	if err != nil {
		return nil, fmt.Errorf("listing periodic tasks: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (t taskRow, err error) {
		var until int64
		var last, took sql.NullInt64
		err = rows.Scan(&t.Name, &t.Node, &until, &last, &took)
		t.until = db.Time(until)
		if last.Valid {
			t.LastAt, t.Took = db.Time(last.Int64), time.Duration(took.Int64)*time.Microsecond
		}
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing periodic tasks: %w", err)
	}
	return list, nil
}

// HoldTasks claims the tasks in names that no living node holds, and renews the right to the tasks
// of this node. It returns the tasks that this node holds. The node may run these tasks until it would
// be considered dead.
func (q *Queue) HoldTasks(ctx context.Context, now time.Time, names []string) (held []Task, err error) {
	all, err := taskRows(ctx, q.db, now)
	if err != nil {
		return nil, err
	}
	known := map[string]taskRow{}
	for _, t := range all {
		known[t.Name] = t
	}
	var claim []string
	for _, name := range names {
		t, exists := known[name]
		switch {
		case !exists || t.Node == "" || t.Node == q.nodeID && t.until.Sub(now) < renewBefore:
			claim = append(claim, name)
		case t.Node == q.nodeID:
			held = append(held, t.Task)
		}
	}
	if len(claim) == 0 {
		return held, nil
	}
	claimed, err := q.claimTasks(ctx, now, claim)
	return append(held, claimed...), err
}

func (q *Queue) claimTasks(ctx context.Context, now time.Time, names []string) (claimed []Task, err error) {
	// If the claim is lost in a power failure, a node claims the task again.
	err = q.db.TxRelaxed(ctx, func(tx *db.Tx) error {
		claimed = claimed[:0]
		for _, name := range names { // in the same order on all nodes, to prevent deadlocks
			var last sql.NullInt64
			err := tx.QueryRowContext(ctx, `
				INSERT INTO tasks (name, node, until) VALUES ($1, $2, $3)
				ON CONFLICT (name) DO UPDATE SET node = excluded.node, until = excluded.until
				WHERE tasks.node = excluded.node OR tasks.until <= $4 OR NOT `+NodeAlive(`tasks.node`, `$5`)+`
				RETURNING last_at`,
				name, q.nodeID, db.Micros(now.Add(holdTime)), db.Micros(now), db.Micros(now.Add(-DeadAfter))).Scan(&last)
			if errors.Is(err, sql.ErrNoRows) {
				continue // another node has claimed the task
			}
			if err != nil {
				return err
			}
			t := Task{Name: name, Node: q.nodeID}
			if last.Valid {
				t.LastAt = db.Time(last.Int64)
			}
			claimed = append(claimed, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claiming periodic tasks: %w", err)
	}
	return claimed, nil
}

// TaskSucceeded records the end and the duration of a successful run of a task.
func (q *Queue) TaskSucceeded(ctx context.Context, name string, at time.Time, took time.Duration) error {
	err := q.db.TxRelaxed(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE tasks SET last_at = $2, took = $3 WHERE name = $1`, name, db.Micros(at), took.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("recording a periodic task: %w", err)
	}
	return nil
}
