package job

import (
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// One node holds a task. Another node claims the task if the first node is dead, has left or does not
// renew its right.
func TestOneNodeHoldsATask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, now := t.Context(), time.Now().Truncate(time.Microsecond)
		open := func(name string) *Queue {
			t.Helper()
			q, err := New(d, Config{NodeID: name, MaxAttempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		beat := func(nodes ...*Queue) {
			t.Helper()
			for _, q := range nodes {
				if err := q.Heartbeat(ctx, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		hold := func(q *Queue) (names []string) {
			t.Helper()
			held, err := q.HoldTasks(ctx, now, []string{"count", "sweep"})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range held {
				names = append(names, h.Name)
			}
			slices.Sort(names)
			return names
		}
		both := []string{"count", "sweep"}
		first, second := open("first"), open("second")
		beat(first, second)
		if got := hold(first); !slices.Equal(got, both) {
			t.Fatalf("the first node holds %q, want both tasks", got)
		}
		if got := hold(second); len(got) != 0 {
			t.Fatalf("the second node holds %q while the first is alive, want none", got)
		}
		success := now.Add(time.Second)
		if err := first.TaskSucceeded(ctx, "sweep", success, 1500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		// A node that calls HoldTasks repeatedly renews its right, and holds the tasks for longer than holdTime.
		for range 4 {
			now = now.Add(renewBefore + time.Second)
			beat(first, second)
			if got := hold(second); len(got) != 0 {
				t.Fatalf("the second node holds %q while the first renews its right, want none", got)
			}
			if got := hold(first); !slices.Equal(got, both) {
				t.Fatalf("the first node holds %q after another call of HoldTasks, want both tasks", got)
			}
		}
		now = now.Add(DeadAfter + time.Microsecond)
		beat(second)
		if got := hold(second); !slices.Equal(got, both) {
			t.Fatalf("the second node holds %q after the first died, want both tasks", got)
		}
		beat(first)
		if got := hold(first); len(got) != 0 {
			t.Fatalf("the first node holds %q after it sent a heartbeat again, want none", got)
		}
		list, err := ListTasks(ctx, d, now)
		if err != nil || len(list) != 2 || list[0] != (Task{Name: "count", Node: "second"}) ||
			list[1].Node != "second" || !list[1].LastAt.Equal(success) || list[1].Took != 1500*time.Millisecond {
			t.Fatalf("tasks = %+v, error %v, want both held by the second node, and LastAt and Took of the sweep", list, err)
		}
		if err := second.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if got := hold(first); !slices.Equal(got, both) {
			t.Fatalf("the first node holds %q after the second left, want both tasks", got)
		}
		// A node that sends heartbeats, but does not renew its right, loses the task.
		now = now.Add(holdTime)
		beat(first, second)
		if got := hold(second); !slices.Equal(got, both) {
			t.Errorf("the second node holds %q after the right of the first node has ended, want both tasks", got)
		}
	})
}
