package main

import (
	"io"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/job"
)

type nodeCommand struct {
	List nodeList `cmd:"" help:"List the servers that use the database or used it in the last hour, and the periodic tasks."`
}

type nodeList struct {
	config.Storage
}

type nodeRow struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	State       string    `json:"state"`
	Roles       []string  `json:"roles"`
	Version     string    `json:"version"`
	StartedAt   time.Time `json:"started_at"`
	HeartbeatAt time.Time `json:"heartbeat_at"`
}

type taskRow struct {
	Name string `json:"name"`
	// Node is the id of the server that runs the task, or "" if no server that is alive runs it.
	Node   string     `json:"node"`
	LastAt *time.Time `json:"last_success_at"`
	Took   float64    `json:"took_seconds"`
}

// Run lists nodes and periodic tasks.
func (n *nodeList) Run(c *console) error {
	return c.existing(n.Storage, func(base *app.Base) error {
		if _, err := base.DB.SyncClock(c.ctx); err != nil {
			return err
		}
		now := base.DB.Now()
		nodes, err := job.ListNodes(c.ctx, base.DB, now)
		if err != nil {
			return err
		}
		tasks, err := job.ListTasks(c.ctx, base.DB, now)
		if err != nil {
			return err
		}
		result := struct {
			Nodes []nodeRow `json:"nodes"`
			Tasks []taskRow `json:"tasks"`
		}{make([]nodeRow, len(nodes)), make([]taskRow, len(tasks))}
		names := map[string]string{}
		for i, n := range nodes {
			state := "dead"
			if n.Alive {
				state = "alive"
			}
			result.Nodes[i] = nodeRow{n.ID, n.Name, state, strings.Split(n.Roles, ","), n.Release, n.StartedAt, n.HeartbeatAt}
			names[n.ID] = n.Name
		}
		for i, t := range tasks {
			result.Tasks[i] = taskRow{Name: t.Name, Node: t.Node, Took: t.Took.Seconds()}
			if !t.LastAt.IsZero() {
				result.Tasks[i].LastAt = &t.LastAt
			}
		}
		return c.print(result, func(w io.Writer) {
			table := newTable(w, "NODE", "STATE", "ROLES", "VERSION", "STARTED", "LAST HEARTBEAT", "ID")
			for _, r := range result.Nodes {
				table.row(r.Name, r.State, strings.Join(r.Roles, ","), r.Version, formatTime(&r.StartedAt), formatTime(&r.HeartbeatAt), r.ID)
			}
			table.flush()
			printf(w, "\n")
			table = newTable(w, "PERIODIC TASK", "NODE", "LAST SUCCESS", "TOOK")
			for i, t := range result.Tasks {
				table.row(t.Name, names[t.Node], formatTime(t.LastAt), tasks[i].Took.Round(time.Millisecond))
			}
			table.flush()
		})
	})
}
