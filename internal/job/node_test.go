package job

import (
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// While the database does not respond, no node can send heartbeats. After such an interruption, a node
// sends heartbeats for DeadAfter before it rescues jobs, so that the other nodes can send theirs.
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
			t.Fatal("MustRescue = true before the node has sent heartbeats for DeadAfter, want false")
		}
	}
	if !beat(true) {
		t.Fatal("MustRescue = false although a node is dead, want true")
	}
	at = at.Add(DeadAfter)
	for range int(DeadAfter / HeartbeatInterval) {
		if beat(true) {
			t.Fatal("MustRescue = true in the first DeadAfter after an interruption, want false")
		}
	}
	if !beat(true) {
		t.Error("MustRescue = false after the node has sent heartbeats for DeadAfter again, want true")
	}
	q.beats.rescued = q.beats.last
	if beat(false) {
		t.Error("MustRescue = true although no node is dead, want false")
	}
}

// A dead node is listed as dead. The heartbeats of the other node find it until buryTx records that its jobs
// were rescued, and again if the node dies after another heartbeat.
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
			return // on SQLite, there is only one node
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return other.buryTx(ctx, tx, now) }); err != nil {
			t.Fatal(err)
		}
		beat(other)
		if other.beats.dead || len(list()) != 2 {
			t.Errorf("after the rescue: dead = %v and %d nodes are listed, want false and 2", other.beats.dead, len(list()))
		}
		beat(silent)
		if got := list(); slices.ContainsFunc(got, func(n Node) bool { return !n.Alive }) || silent.Nodes() != 2 {
			t.Errorf("nodes = %+v after a heartbeat of the dead node, want two that are alive", got)
		}
		now = now.Add(DeadAfter + time.Microsecond)
		beat(other)
		if !other.beats.dead {
			t.Error("dead = false after the node died again, want true")
		}
	})
}

// A node of release 0.1 sends a heartbeat every 3 s. During an upgrade, it is dead after 12 s without a
// heartbeat, as in release 0.1.
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
			t.Errorf("after %s: nodes = %+v, error %v; want Alive = %v for the node old", after, list, err, want)
		}
		var alive bool
		if err := d.QueryRowContext(ctx, `SELECT `+NodeAlive(`'old'`, `$1`), db.Micros(now.Add(-DeadAfter))).Scan(&alive); err != nil || alive != want {
			t.Errorf("after %s: NodeAlive = %v, %v; want %v", after, alive, err, want)
		}
		if others, err := q.Others(ctx, now); err != nil || (others["old"] == db.Micros(began)) != want || (len(others) == 1) != want {
			t.Errorf("after %s: Others = %v, %v; want the heartbeat of the node old: %v", after, others, err, want)
		}
	}
}
