package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

// sweepBlobsEvery is how often files without an owner are looked for.
const sweepBlobsEvery = time.Hour

// startTasks starts what happens by the clock. Each is harmless to run on
// several nodes at once.
func (a *App) startTasks(ctx context.Context) {
	ctx, a.stopTasks = context.WithCancel(context.WithoutCancel(ctx))
	a.every(ctx, "sweep of jobs", cert.SweepEvery, a.certs.SweepJobs)
	a.every(ctx, "sweep of files", sweepBlobsEvery, a.certs.SweepBlobs)
	a.every(ctx, "check of stored files", cert.RehashEvery, a.certs.Rehash)
	a.every(ctx, "heartbeat", job.Beat, func(ctx context.Context) error { return a.queue.Heartbeat(ctx, time.Now()) })
	if a.DB.Dialect == db.PostgreSQL {
		a.every(ctx, "rescue", job.Beat, func(ctx context.Context) error { return a.queue.Rescue(ctx, time.Now(), a.certs.Rescued) })
	}
}

// every does f at each tick until ctx ends. An error is logged and the next
// tick tries again.
func (a *App) every(ctx context.Context, name string, interval time.Duration, f func(context.Context) error) {
	a.tasks.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
				a.log.ErrorContext(ctx, "a regular task failed and will be tried again", slog.String("task", name), slog.Any("error", err))
			}
		}
	})
}

// warmRenderer compiles the PDF renderer beside the first requests, so that the
// first certificate does not wait for it.
func (a *App) warmRenderer(ctx context.Context) {
	a.tasks.Go(func() {
		if err := a.renderer.Warm(context.WithoutCancel(ctx)); err != nil {
			a.log.ErrorContext(ctx, "the PDF renderer cannot be prepared", slog.Any("error", err))
		}
	})
}
