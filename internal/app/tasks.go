package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/replica"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/webhook"
)

// firstTask is the maximum time until the first run of a periodic task that has not run before.
const firstTask = time.Minute

// startTasks starts the periodic tasks. On nodes without the role config.Work, it starts only the tasks
// that run on each node. Each task in list runs on one node at a time.
func (a *App) startTasks(ctx context.Context) {
	ctx, a.stopTasks = context.WithCancel(context.WithoutCancel(ctx))
	a.every(ctx, "check of the TLS certificate", checkCertificateEvery, a.reloadCertificate)
	a.every(ctx, "sweep of idempotency keys", limit.SweepInterval, a.IdempotencyKeys.Sweep)
	a.every(ctx, "creation of signing keys", keysEvery, a.CreateKeys)
	a.every(ctx, "heartbeat", heartbeatInterval(a.DB.Dialect), a.beat)
	a.every(ctx, "probe of the file store", probeInterval, a.probeFiles)
	a.every(ctx, "check of due times", pullBackInterval, a.pullBack)
	a.every(ctx, "counts of verifications", verification.FoldEvery, a.Verifications.Fold)
	if a.shared != nil {
		a.every(ctx, "exchange of request counts", limit.ShareInterval, a.shared.Exchange)
	}
	if a.replica != nil {
		a.every(ctx, "poll of the read replica", replica.PollInterval, a.replica.Poll)
		a.every(ctx, "sweep of marks of writes", replica.SweepInterval, a.replica.Sweep)
	}
	if !a.cfg.Has(config.Work) {
		return
	}
	a.startBackups(ctx)
	list := []heldTask{
		{"sweep of jobs", cert.SweepInterval, a.Certs.SweepJobs},
		{"sweep of counts", search.FoldEvery, a.Search.SweepCounts},
		{"count of usage", search.FoldEvery, func(ctx context.Context) error { return quota.Count(ctx, a.DB) }},
		{"sweep of usage", search.FoldEvery, func(ctx context.Context) error { return quota.Fold(ctx, a.DB) }},
		{"sweep of files", deletion.TaskInterval, a.withStore(a.Deletions.Sweep)},
		{"end of retention periods", cert.RetentionInterval, a.Certs.SweepExpired},
		{"sweep of expiries", cert.ExpiryInterval, a.Certs.SweepExpiries},
		{"removal of old addresses", cert.RetentionInterval, a.Recipients.SweepExpired},
		{"mail at a chosen time", recipient.SweepInterval, a.Recipients.SweepPlans},
		{"sweep of tasks", cert.SweepInterval, a.Tasks.Sweep},
		{"sweep of bulk uploads", bulkimport.SweepInterval, a.BulkImports.Sweep},
		{"sweep of batches", batch.SweepInterval, a.Batches.Sweep},
		{"sweep of applications", application.SweepInterval, a.withStore(a.Applications.Sweep)},
		{"check of stored files", cert.RehashEvery, a.withStore(a.checkFiles)},
		{"sweep of sign-ins", identity.SweepInterval, a.People.Sweep},
		{"sweep of mail", mail.SweepInterval, a.Mailer.Sweep},
		{"sweep of approvals", approval.SweepInterval, a.Approvals.Sweep},
		{"sweep of notices", recipient.SweepInterval, a.Recipients.Sweep},
		{"sweep of credential offers", issuer.SweepInterval, a.Issuer.Sweep},
		{"sweep of webhooks", webhook.SweepInterval, a.Deliverer.Sweep},
	}
	if a.acme != nil {
		list = append(list, heldTask{"renewal of the TLS certificate", acme.CheckInterval, a.renewCertificate})
	}
	a.startHeldTasks(ctx, list)
}

// checkFiles checks the stored files whose last check is older than cert.RehashAge, oldest first.
func (a *App) checkFiles(ctx context.Context) error {
	all, err := search.Verified(ctx, a.DB)
	if err != nil {
		return err
	}
	return a.Certs.Rehash(ctx, int64(all), int64(a.cfg.FileCheckRate)<<20)
}

// withStore returns a task that runs f only if the file store still belongs to the database. While
// the file system of the store is not mounted, or another file system is mounted in its place, all
// files would seem to be missing.
func (a *App) withStore(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := checkInstallation(ctx, a.cfg.Storage, a.DB, a.blobs); err != nil {
			return err
		}
		return f(ctx)
	}
}

// every calls f repeatedly in the background until ctx is done, and waits for the interval between two
// calls. It makes the first call after at most firstTask. It logs errors and continues.
func (a *App) every(ctx context.Context, name string, interval time.Duration, f func(context.Context) error) {
	a.tasks.Go(func() {
		// The first run is early, because a vault that is restarted daily must also run its tasks.
		timer := time.NewTimer(min(interval, firstTask))
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			a.runTask(ctx, name, f)
			timer.Reset(interval)
		}
	})
}

// runTask runs a periodic task and reports whether the task succeeded. It logs all errors except
// context.Canceled.
func (a *App) runTask(ctx context.Context, name string, f func(context.Context) error) bool {
	err := f(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		a.log.ErrorContext(ctx, "a periodic task failed and will run again", slog.String("task", name), slog.Any("error", err))
	}
	return err == nil
}

// warmRenderer compiles the PDF renderer in the background, so that the first certificate does not
// wait for the compilation.
func (a *App) warmRenderer(ctx context.Context) {
	a.tasks.Go(func() {
		if err := a.renderer.Compile(context.WithoutCancel(ctx)); err != nil {
			a.rendererFailed.Store(true)
			a.log.ErrorContext(ctx, "preparing the PDF renderer failed", slog.Any("error", err))
		}
	})
}
