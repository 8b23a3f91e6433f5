package job

import (
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// While the database does not respond, no node can send heartbeats. Afterwards, no node considers the
// others dead before they had time to send the next heartbeat.
func TestNoRescueAfterAnInterruption(t *testing.T) {
	t.Parallel()
	q, at := &Queue{}, time.Unix(1000, 0)
	beat := func(dead bool) bool {
		q.recordBeat(at, dead)
		at = at.Add(HeartbeatInterval)
		return q.MustRescue()
	}
	for range int(DeadAfter / HeartbeatInterval) {
		if beat(true) {
			t.Fatal("a node rescues jobs before it has sent heartbeats for DeadAfter")
		}
	}
	if !beat(true) {
		t.Fatal("a node that sends heartbeats does not rescue the jobs of a dead node")
	}
	at = at.Add(DeadAfter)
	for range int(DeadAfter / HeartbeatInterval) {
		if beat(true) {
			t.Fatal("a node rescues jobs right after an interruption of its own heartbeats")
		}
	}
	if !beat(true) {
		t.Error("a node rescues no jobs long after an interruption")
	}
	q.beats.rescued = q.beats.last
	if beat(false) {
		t.Error("a node rescues jobs although no node is dead")
	}
}

// A node that is dead is listed as dead, its work is continued once, and it may come back.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, now := t.Context(), time.Now()
		open := func(name string) *Queue {
			t.Helper()
			q, err := New(d, Config{NodeID: name, Info: NodeInfo{Name: name, Roles: "web,work", Release: "1", Outbox: true}, MaxAttempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		list := func() []Node {
			t.Helper()
			list, err := ListNodes(ctx, d, now)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		beat := func(q *Queue) {
			t.Helper()
			if err := q.Heartbeat(ctx, now); err != nil {
				t.Fatal(err)
			}
		}
		silent, other := open("a"), open("b")
		beat(silent)
		now = now.Add(DeadAfter + time.Microsecond)
		beat(other)
		got := list()
		if len(got) != 2 || got[0].Alive || !got[1].Alive || got[1].NodeInfo != other.info || other.Nodes() != 1 || !other.beats.dead {
			t.Fatalf("nodes = %+v, want a dead and b alive with its description", got)
		}
		if d.Dialect == db.SQLite {
			return // one process
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return other.buryTx(ctx, tx, now) }); err != nil {
			t.Fatal(err)
		}
		beat(other)
		if other.beats.dead || len(list()) != 2 {
			t.Error("after its work was continued, a dead node is not listed, or is found dead for a second time")
		}
		beat(silent)
		if got := list(); slices.ContainsFunc(got, func(n Node) bool { return !n.Alive }) || silent.Nodes() != 2 {
			t.Errorf("nodes = %+v after the dead node came back, want two that are alive", got)
		}
		now = now.Add(DeadAfter + time.Microsecond)
		beat(other)
		if !other.beats.dead {
			t.Error("a node that came back and died again is not found")
		}
	})
}

// During an upgrade, a node of release 0.1, which sends a heartbeat every 3 s, is dead after 12 s, as in
// that release.
func TestNodeOfRelease01(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	ctx, began := t.Context(), time.Now()
	q, err := New(d, Config{NodeID: "new", MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('old', $1, $1)`, db.Micros(began))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]bool{DeadAfter + time.Second: true, 11 * time.Second: true, 13 * time.Second: false} {
		now := began.Add(after)
		if err := q.Heartbeat(ctx, now); err != nil {
			t.Fatal(err)
		}
		list, err := ListNodes(ctx, d, now)
		if err != nil || len(list) != 2 || list[0].ID != "old" || list[0].Alive != want || (q.Nodes() == 2) != want || q.beats.dead == want {
			t.Errorf("after %s: nodes = %+v, %v; want the old one alive: %v", after, list, err, want)
		}
		var alive bool
		if err := d.QueryRowContext(ctx, `SELECT `+NodeAlive(`'old'`, `$1`), db.Micros(now.Add(-DeadAfter))).Scan(&alive); err != nil || alive != want {
			t.Errorf("after %s: NodeAlive = %v, %v; want %v", after, alive, err, want)
		}
	}
}
