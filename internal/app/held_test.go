package app

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/job"
)

func TestFirstRunOfHeldTask(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		last           time.Time
		interval, want time.Duration
	}{
		"never succeeded":             {time.Time{}, time.Hour, firstTask},
		"never succeeded, frequent":   {time.Time{}, 5 * time.Second, 5 * time.Second},
		"overdue on a dead node":      {now.Add(-2 * time.Hour), time.Hour, firstHeldTask},
		"not due":                     {now.Add(-20 * time.Minute), time.Hour, 40 * time.Minute},
		"succeeded in the far future": {now.AddDate(1, 0, 0), time.Hour, firstHeldTask},
	} {
		if got := firstRun(now, c.last, c.interval).Sub(now); got != c.want {
			t.Errorf("%s: time until the first run = %s, want %s", name, got, c.want)
		}
	}
}

// TestHeldTasksExpire checks that a node does not run its tasks if its last claim was job.DeadAfter ago,
// for example because the node was suspended.
func TestHeldTasksExpire(t *testing.T) {
	t.Parallel()
	h := &heldTasks{}
	h.set([]job.Task{{Name: "sweep"}}, time.Now())
	if _, held := h.holds("sweep"); !held {
		t.Error("a claimed task is not held")
	}
	if _, held := h.holds("other"); held {
		t.Error("a task that was not claimed is held")
	}
	h.set([]job.Task{{Name: "sweep"}}, time.Now().Add(-job.DeadAfter))
	if _, held := h.holds("sweep"); held {
		t.Error("a task is held job.DeadAfter after its claim")
	}
}
