package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/job"
)

const (
	// holdInterval is the interval at which a node claims the tasks that no living node holds, and
	// renews its own claims.
	holdInterval = 2 * time.Second
	// firstHeldTask is the minimum time between a claim and the first run of a task, unless the interval
	// of the task is shorter.
	firstHeldTask = 5 * time.Second
	// recordInterval is the minimum time between two records of successes of a task.
	recordInterval = 30 * time.Second
)

// heldTask is a periodic task of the vault that one node at a time runs.
type heldTask struct {
	name     string
	interval time.Duration
	run      func(context.Context) error
}

// heldTasks are the periodic tasks that this node may run.
type heldTasks struct {
	mu sync.Mutex
	// last contains the time of the last success of each held task. The time is zero if the task never
	// succeeded.
	last map[string]time.Time
	// checkedAt is the time of the last claim. A node whose claims were interrupted may have lost its
	// tasks.
	checkedAt time.Time
}

func (h *heldTasks) set(held []job.Task, at time.Time) {
	last := map[string]time.Time{}
	for _, t := range held {
		last[t.Name] = t.LastAt
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.checkedAt = last, at
}

// holds reports whether this node may run a task, and when the task last succeeded.
func (h *heldTasks) holds(name string) (last time.Time, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.checkedAt) >= job.DeadAfter {
		return time.Time{}, false
	}
	last, held = h.last[name]
	return last, held
}

// startHeldTasks claims tasks and runs those that this node holds.
func (a *App) startHeldTasks(ctx context.Context, list []heldTask) {
	names := make([]string, 0, len(list))
	for _, t := range list {
		names = append(names, t.name)
	}
	held := &heldTasks{}
	claim := func(ctx context.Context) error {
		began := time.Now()
		tasks, err := a.Queue.HoldTasks(ctx, a.DB.Now(), names)
		if err == nil {
			held.set(tasks, began)
		}
		return err
	}
	a.tasks.Go(func() { a.runTask(ctx, "claim of periodic tasks", claim) })
	a.every(ctx, "claim of periodic tasks", holdInterval, claim)
	for _, t := range list {
		a.tasks.Go(func() { a.runHeld(ctx, held, t) })
	}
}

// runHeld runs a task at its interval while this node holds the task, until ctx is done.
func (a *App) runHeld(ctx context.Context, held *heldTasks, t heldTask) {
	check := time.NewTicker(min(t.interval, holdInterval))
	defer check.Stop()
	var next, recorded time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-check.C:
		}
		now := a.DB.Now()
		last, mine := held.holds(t.name)
		switch {
		case !mine:
			next = time.Time{}
		case next.IsZero():
			next = firstRun(now, last, t.interval)
		case !now.Before(next):
			if a.runTask(ctx, t.name, t.run) && now.Sub(recorded) >= recordInterval {
				recorded = now
				end := a.DB.Now()
				a.runTask(ctx, "record of "+t.name, func(ctx context.Context) error { return a.Queue.TaskSucceeded(ctx, t.name, end, end.Sub(now)) })
			}
			next = a.DB.Now().Add(t.interval)
		}
	}
}

// firstRun returns the time of the first run of a task that this node begins to hold. A task that never
// succeeded runs after firstTask at the latest, so that a task with a long interval also runs in a vault
// that is often restarted.
func firstRun(now, last time.Time, interval time.Duration) time.Time {
	if last.IsZero() {
		return now.Add(min(interval, firstTask))
	}
	next, earliest := last.Add(interval), now.Add(min(interval, firstHeldTask))
	if next.Before(earliest) || next.After(now.Add(interval)) { // the clock may have been ahead at the last success
		return earliest
	}
	return next
}

// nodeMetrics are the metrics of nodes and periodic tasks, which are read from the database at each
// request for metrics.
type nodeMetrics struct {
	app                  *App
	nodes, success, took *prometheus.Desc
}

func newNodeMetrics(a *App) *nodeMetrics {
	return &nodeMetrics{
		app:     a,
		nodes:   prometheus.NewDesc("certvault_nodes", "Servers on this database by state: alive, or dead for less than an hour.", []string{"state"}, nil),
		success: prometheus.NewDesc("certvault_task_last_success_timestamp_seconds", "Time of the last successful run of a periodic task.", []string{"task"}, nil),
		took:    prometheus.NewDesc("certvault_task_duration_seconds", "Duration of the last successful run of a periodic task.", []string{"task"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *nodeMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.nodes
	ch <- m.success
	ch <- m.took
}

// Collect implements [prometheus.Collector].
func (m *nodeMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	now := m.app.DB.Now()
	nodes, err := job.ListNodes(ctx, m.app.DB, now)
	tasks, e := job.ListTasks(ctx, m.app.DB, now)
	if err := errors.Join(err, e); err != nil {
		m.app.log.WarnContext(ctx, "reading the metrics of nodes and periodic tasks failed", slog.Any("error", err))
		return
	}
	alive := 0
	for _, n := range nodes {
		if n.Alive {
			alive++
		}
	}
	ch <- prometheus.MustNewConstMetric(m.nodes, prometheus.GaugeValue, float64(alive), "alive")
	ch <- prometheus.MustNewConstMetric(m.nodes, prometheus.GaugeValue, float64(len(nodes)-alive), "dead")
	for _, t := range tasks {
		if !t.LastAt.IsZero() {
			ch <- prometheus.MustNewConstMetric(m.success, prometheus.GaugeValue, float64(t.LastAt.UnixMilli())/1000, t.Name)
			ch <- prometheus.MustNewConstMetric(m.took, prometheus.GaugeValue, t.Took.Seconds(), t.Name)
		}
	}
}
