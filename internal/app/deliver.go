package app

import (
	"context"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// prepareDelivery puts together what sends events out.
func (a *App) prepareDelivery() error {
	allow, err := a.cfg.WebhookNetworks()
	if err != nil {
		return err
	}
	a.hooks = webhook.NewDeliverer(a.Hooks, webhook.DelivererConfig{
		Transport: safehttp.Transport(safehttp.Options{Allow: allow}), Waits: a.cfg.WebhookRetry,
		Metrics: webhook.NewMetrics(a.registry), Log: a.log,
	})
	return nil
}

// startDelivery begins to send. On SQLite this process has the data folder to
// itself: leases are those of one that died, and need not run out.
func (a *App) startDelivery(ctx context.Context) error {
	if a.DB.Dialect == db.SQLite {
		if err := a.Hooks.FreeLeases(ctx); err != nil {
			return err
		}
	}
	a.hooks.Start(ctx)
	return nil
}
