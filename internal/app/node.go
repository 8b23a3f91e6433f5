package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

// errOutbox means that several servers run jobs, and one of them has no mail server.
var errOutbox = errors.New("several servers use this database, and without --smtp each would write mail to a folder of its own; " +
	"set --smtp on all servers that have the role work, or stop the other servers")

// errRoles means that no server would have the role that this server lacks.
var errRoles = errors.New("--roles requires --database: on the embedded database, one server does everything")

// nodeID returns a new id for a process. The id begins with the name.
func nodeID(name string) string { return name + "_" + uuid.NewString() }

// nodeInfo describes this server to operators.
func (a *App) nodeInfo() job.NodeInfo {
	return job.NodeInfo{Name: a.cfg.NodeName(), Roles: a.cfg.RoleList(), Release: Version(), Outbox: a.cfg.SMTP == "" && a.cfg.Has(config.Work)}
}

// checkRoles returns an error if this server lacks a role that no other server can have.
func checkRoles(c *config.Serve) error {
	if c.Database == "" && (!c.Has(config.Web) || !c.Has(config.Work)) {
		return errRoles
	}
	return nil
}

// checkOutbox returns errOutbox if this server and another server run jobs, and one of them has no mail
// server. It ignores servers without a recent heartbeat.
func (a *App) checkOutbox(ctx context.Context) error {
	if a.DB.Dialect == db.SQLite || !a.cfg.Has(config.Work) {
		return nil
	}
	list, err := job.ListNodes(ctx, a.DB, a.DB.Now())
	if err != nil {
		return err
	}
	own := a.nodeInfo().Outbox
	for _, n := range list {
		works := n.Roles == "" || n.Roles != string(config.Web) // servers of earlier releases store no roles
		if n.Alive && n.ID != a.store.node && works && (own || n.Outbox) {
			return fmt.Errorf("%w: %s is running", errOutbox, n.Name)
		}
	}
	return nil
}

// drain keeps the vault running for the time of --drain, while /readyz reports that it is not ready,
// so that proxies send no more requests to it.
func (a *App) drain(ctx context.Context) {
	wait := a.cfg.DrainTime()
	if wait == 0 {
		return
	}
	a.draining.Store(true)
	a.log.InfoContext(ctx, "draining", slog.Duration("for", wait))
	select {
	case <-time.After(wait):
	case err := <-a.fatal:
		a.log.ErrorContext(ctx, "a part of the vault failed while it was draining", slog.Any("error", err))
	}
}

// withoutWeb responds to requests for pages and interfaces on a server without the role web.
func withoutWeb(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusNotFound, "This server has only the role work.\n")
}

// nodeGauge returns a metric that describes this server.
func (a *App) nodeGauge() prometheus.Collector {
	info := a.nodeInfo()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "certvault_node_info", Help: "This server; the value is always 1.",
		ConstLabels: prometheus.Labels{"node": info.Name, "roles": info.Roles, "version": info.Release},
	})
	g.Set(1)
	return g
}
