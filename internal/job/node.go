package job

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// HeartbeatInterval is the interval of heartbeats.
	HeartbeatInterval = time.Second
	// DeadAfter is the time without a heartbeat after which a node is considered dead. The other nodes
	// detect it at their next heartbeat and continue its work, within 5 s after its last heartbeat.
	DeadAfter = 4 * HeartbeatInterval
	// maxGap is the longest time between two heartbeats of a node that runs without interruption.
	maxGap = DeadAfter / 2
	// earlierDeadAfter is DeadAfter of release 0.1, which sends heartbeats every 3 s.
	earlierDeadAfter = 12 * time.Second
	// nodeLife is the time for which a dead node is listed.
	nodeLife = time.Hour
	// rescueInterval is the interval of rescues if no node dies. These rescues find the jobs of nodes
	// that are no longer listed.
	rescueInterval = 30 * time.Second
)

// beatAt is the SQL expression for the time of a node's last heartbeat. A node is dead if this time is
// more than DeadAfter ago. Nodes of release 0.1, which may run during an upgrade, have no roles and send
// fewer heartbeats. For these nodes the expression adds the difference of earlierDeadAfter and DeadAfter.
var beatAt = fmt.Sprintf(`(nodes.heartbeat_at + CASE WHEN nodes.roles = '' THEN %d ELSE 0 END)`, (earlierDeadAfter - DeadAfter).Microseconds())

// NodeInfo describes a node to operators.
type NodeInfo struct {
	// Name is the name that the operator chose, or the name of the host.
	Name string
	// Roles is a list such as "web,work", which is the default. A node of release 0.1 has none.
	Roles   string
	Release string
	// Outbox means that the node writes mail to a local folder.
	Outbox bool
}

// Node is a process that uses the database, or used it in the last hour.
type Node struct {
	NodeInfo

	ID                     string
	StartedAt, HeartbeatAt time.Time
	Alive                  bool
}

// Heartbeat records that this node is alive. It also reads how many nodes are alive and whether other
// nodes have died.
func (q *Queue) Heartbeat(ctx context.Context, now time.Time) error {
	var alive, dead int64
	err := q.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO nodes (id, started_at, heartbeat_at, name, roles, release, outbox) VALUES ($1, $2, $2, $3, $4, $5, $6)
			ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at, rescued_at = NULL`,
			q.nodeID, db.Micros(now), q.info.Name, cmp.Or(q.info.Roles, "web,work"), q.info.Release, q.info.Outbox); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `
			SELECT count(*) FILTER (WHERE `+beatAt+` >= $1), count(*) FILTER (WHERE `+beatAt+` < $1 AND rescued_at IS NULL) FROM nodes`,
			db.Micros(now.Add(-DeadAfter))).Scan(&alive, &dead)
	})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	q.nodes.Store(alive)
	q.recordBeat(time.Now(), dead > 0)
	return nil
}

// beats is the state of the heartbeats and the rescues of this node.
type beats struct {
	// last is the time of the last heartbeat. since is the time of the first heartbeat after the last
	// gap of more than maxGap.
	last, since time.Time
	// dead reports whether the last heartbeat found a dead node whose jobs were not rescued yet.
	dead bool
	// rescued is the time of the last rescue.
	rescued time.Time
}

func (q *Queue) recordBeat(at time.Time, dead bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.Sub(q.beats.last) > maxGap {
		q.beats.since = at
	}
	q.beats.last, q.beats.dead = at, dead
}

// Interrupted reports whether other nodes may have considered this node dead after begin, because its
// heartbeats were interrupted. This happens if the process is suspended or cannot reach the database. On
// SQLite there are no other nodes, and Interrupted returns false.
func (q *Queue) Interrupted(begin time.Time) bool {
	if q.db.Dialect == db.SQLite {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.beats.last) > maxGap || q.beats.since.After(begin)
}

// MustRescue reports whether this node should call Rescue, because another node has died or the
// last rescue was at least rescueInterval ago. After an interruption of its own heartbeats, a node first
// sends heartbeats for DeadAfter. If the database caused the interruption, the other nodes may be alive.
func (q *Queue) MustRescue() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.beats.last.Sub(q.beats.since) >= DeadAfter && (q.beats.dead || q.beats.last.Sub(q.beats.rescued) >= rescueInterval)
}

// buryTx records that the jobs of dead nodes were rescued, ends the terms of dead leaders, and removes
// nodes without a heartbeat in the last hour.
func (q *Queue) buryTx(ctx context.Context, tx *db.Tx, now time.Time) error {
	for _, s := range []struct {
		statement string
		at        time.Time
	}{
		{`DELETE FROM river_leader WHERE leader_id IN (SELECT id FROM nodes WHERE ` + beatAt + ` < $1)`, now.Add(-DeadAfter)},
		{`UPDATE nodes SET rescued_at = heartbeat_at WHERE ` + beatAt + ` < $1 AND rescued_at IS NULL`, now.Add(-DeadAfter)},
		{`DELETE FROM nodes WHERE heartbeat_at < $1`, now.Add(-nodeLife)},
	} {
		if _, err := tx.ExecContext(ctx, s.statement, db.Micros(s.at)); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.beats.dead, q.beats.rescued = false, q.beats.last
	})
	return nil
}

// LastHeartbeat returns the time of the newest heartbeat of all nodes, or a zero time if there is none. It
// ignores heartbeats later than now, apart from a difference of clocks: a node may have died while the clock
// of the database was ahead.
func LastHeartbeat(ctx context.Context, q db.Queryer, now time.Time) (time.Time, error) {
	var at sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT max(heartbeat_at) FROM nodes WHERE heartbeat_at <= $1`, db.Micros(now.Add(db.ClockTolerance))).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("reading the newest heartbeat: %w", err)
	}
	if !at.Valid {
		return time.Time{}, nil
	}
	return db.Time(at.Int64), nil
}

// ListNodes returns all nodes with a heartbeat in the last hour, sorted by name.
func ListNodes(ctx context.Context, q db.Queryer, now time.Time) ([]Node, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT id, name, roles, release, outbox, started_at, heartbeat_at FROM nodes WHERE heartbeat_at >= $1 ORDER BY name, started_at, id`,
		db.Micros(now.Add(-nodeLife)))
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (n Node, err error) {
		var started, beat int64
		err = rows.Scan(&n.ID, &n.Name, &n.Roles, &n.Release, &n.Outbox, &started, &beat)
		n.StartedAt, n.HeartbeatAt = db.Time(started), db.Time(beat)
		limit := DeadAfter
		if n.Roles == "" {
			limit = earlierDeadAfter
		}
		n.Alive = !n.HeartbeatAt.Before(now.Add(-limit))
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list, nil
}

// Others returns the times of the last heartbeats of the other nodes that may be alive. The keys of the
// map are the ids of the nodes. The values are in microseconds since 1970.
func (q *Queue) Others(ctx context.Context, now time.Time) (map[string]int64, error) {
	rows, err := q.db.QueryContext(ctx, `SELECT id, heartbeat_at FROM nodes WHERE id <> $1 AND `+beatAt+` >= $2`, q.nodeID, db.Micros(now.Add(-DeadAfter)))
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

// Leave removes this node from the list of nodes when it stops, so that other nodes can take over its
// periodic tasks at once.
func (q *Queue) Leave(ctx context.Context) error { return q.Remove(ctx, q.nodeID) }

// Remove removes a node that is known to be dead from the list of nodes, so that the other nodes do not
// wait for DeadAfter.
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
