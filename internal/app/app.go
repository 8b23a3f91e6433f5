// Package app puts the vault together: it is the one place that knows every
// package. It starts them in order and stops them in the opposite one.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/intake"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/webhook"
)

// stopTime is how long work under way may go on after a signal to end; with
// what follows it, the process is gone within 30 s.
const stopTime = 20 * time.Second

// Base is what commands beside a running server need.
type Base struct {
	DB       *db.DB
	Ring     *keyring.Ring
	Accounts *account.Service
	Tokens   *token.Service
	Hooks    *webhook.Service
	// People writes no mail, but for that of a running vault.
	People *identity.Service
	// Keys has the institutions' signing keys.
	Keys *authority.Authority
}

// OpenBase opens the storage and brings its schema to this version.
// base is the base URL where it is known.
func OpenBase(ctx context.Context, s config.Storage, base string) (*Base, error) {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	ring, err := keyring.Open(filepath.Join(s.Data, "keys"))
	if err != nil {
		return nil, err
	}
	keys, err := openKeys(s, base)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, s.Data, s.Database)
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := checkKey(ctx, d, ring); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	people, err := identity.New(identity.Config{DB: d, Ring: ring, BaseURL: base, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &Base{
		DB: d, People: people, Ring: ring, Accounts: account.New(d, time.Now), Tokens: token.New(d, time.Now), Hooks: webhook.New(d, ring, time.Now),
		Keys: keys,
	}, nil
}

// App is a running vault.
type App struct {
	*Base

	cfg      *config.Serve
	log      *slog.Logger
	stdout   io.Writer
	lock     *flock.Flock
	blobs    *blob.Folder
	queue    *job.Queue
	certs    *cert.Service
	search   *search.Service
	bulk     *task.Service
	batches  *batch.Service
	intake   *intake.Service
	renderer *pdfium.Renderer
	stamps   *pades.TimeStampAuthority
	onceKeys *limit.Keys
	mailer   *mail.Mailer
	// languages are those of pages and of mail.
	languages *locale.Catalog
	// recipients is told by certs and mailer, which are made before it.
	recipients *recipient.Service
	hooks      *webhook.Deliverer
	links      *web.Links
	registry   *prometheus.Registry
	// patterns are all routes, which a test holds against the OpenAPI document.
	patterns []string

	// onStop is called when requests are to end: for answers that go on by themselves.
	onStop    []func()
	public    *http.Server
	listener  net.Listener
	metrics   *http.Server
	metricsAt net.Listener

	tasks     sync.WaitGroup
	stopTasks context.CancelFunc
	fatal     chan error
	startedAt time.Time
}

// ErrRunning is another process that has the data folder.
var ErrRunning = errors.New("another certvault serve is using this data folder")

// New opens everything and starts nothing. What it prints for the operator
// goes to stdout, never to the log.
func New(ctx context.Context, cfg *config.Serve, log *slog.Logger, stdout io.Writer) (_ *App, err error) {
	a := &App{cfg: cfg, log: log, stdout: stdout, fatal: make(chan error, 3), registry: prometheus.NewRegistry(), startedAt: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close(context.WithoutCancel(ctx)))
		}
	}()
	if err := a.lockData(); err != nil {
		return nil, err
	}
	if err := a.listen(ctx); err != nil {
		return nil, err
	}
	if a.Base, err = OpenBase(ctx, cfg.Storage, cfg.BaseURL); err != nil {
		return nil, err
	}
	if a.blobs, err = blob.NewFolder(filepath.Join(cfg.Data, "files")); err != nil {
		return nil, err
	}
	if a.renderer, err = pdfium.New(ctx, pdfium.Options{CacheDir: filepath.Join(cfg.Data, "cache")}); err != nil {
		return nil, fmt.Errorf("preparing the PDF renderer: %w", err)
	}
	node := nodeID()
	if a.queue, err = job.New(a.DB, job.Config{
		NodeID: node, Queues: map[string]int{
			cert.SealQueue: job.DefaultWorkers(), cert.BulkQueue: bulkWorkers(), batch.Queue: 1, intake.Queue: 1, task.Queue: 1, mail.QueueName: mailWorkers,
			cert.RecipientQueue: recipient.Workers,
		},
		Patient:     []string{cert.BulkQueue, batch.Queue, intake.Queue, task.Queue, cert.RecipientQueue, mail.QueueName},
		MaxAttempts: cfg.ProcessAttempts, Timeout: cert.SealTimeout, Logger: queueLogger(log),
	}); err != nil {
		return nil, err
	}
	a.onceKeys = limit.NewKeys(a.DB, node, time.Now)
	a.links = web.NewLinks(cfg.BaseURL, a.Ring, time.Now)
	if cfg.TSA != "" {
		a.stamps = timeStamps(cfg.TSA)
	}
	a.certs = cert.New(cert.Config{
		DB: a.DB, Blobs: a.blobs, Queue: a.queue, Hooks: a.Hooks, Sealer: seal.New(a.renderer), VerifyURL: a.links.Verify,
		Keys: a.Keys, TimeStamps: a.stamps, Verify: pades.Verify, Attempts: cfg.ProcessAttempts, BulkWorkers: bulkWorkers(), Now: time.Now, Log: log,
		Recipient: func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error) {
			return a.recipients.LookUpTx(ctx, tx, institutionID, emailFolded)
		},
		Moved: func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
			return a.recipients.MovedTx(ctx, tx, c)
		},
		Ended: func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
			return errors.Join(a.batches.EndedTx(ctx, tx, c), a.recipients.EndedTx(ctx, tx, c))
		},
	})
	a.search = search.New(a.DB, a.Ring, time.Now)
	a.bulk = task.New(task.Config{DB: a.DB, Queue: a.queue, Certs: a.certs, Search: a.search, VerifyURL: a.links.Verify, Now: time.Now, Log: log})
	a.batches = batch.New(batch.Config{DB: a.DB, Ring: a.Ring, Certs: a.certs, Queue: a.queue, Quota: batch.StagedQuota, Now: time.Now, Log: log})
	a.intake = intake.New(intake.Config{DB: a.DB, Certs: a.certs, Search: a.search, Tasks: a.bulk, Batches: a.batches, Blobs: a.blobs, Queue: a.queue, Now: time.Now, Log: log})
	if err := a.prepareMail(); err != nil {
		return nil, err
	}
	if err := a.prepareIdentity(); err != nil {
		return nil, err
	}
	if err := a.prepareDelivery(); err != nil {
		return nil, err
	}
	if err := a.prepareServers(); err != nil {
		return nil, err
	}
	return a, nil
}

// bulkWorkers is how many certificates of batches are sealed at once: one less
// than single uploads, so that however many batches there are, an upload finds a
// processor.
func bulkWorkers() int { return job.DefaultWorkers() - 1 }

// lockData holds the data folder for this process alone. The lock goes with
// the process, however it ends.
func (a *App) lockData() error {
	if err := os.MkdirAll(a.cfg.Data, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	lock := flock.New(filepath.Join(a.cfg.Data, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("locking the data folder: %w", err)
	}
	if !ok {
		return fmt.Errorf("%w: %s", ErrRunning, a.cfg.Data)
	}
	a.lock = lock
	return nil
}

func nodeID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%.50s_%s", host, uuid.NewString())
}

// Run starts the vault and serves until ctx ends, then stops it in good order.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.close(context.WithoutCancel(ctx))) }()
	boundMemory()
	if err := a.start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		a.log.InfoContext(ctx, "stopping")
		return nil
	case err := <-a.fatal:
		return err
	}
}

func (a *App) start(ctx context.Context) error {
	// What died with the process before goes on first of all.
	if err := a.queue.Heartbeat(ctx, time.Now()); err != nil {
		return err
	}
	if err := a.queue.Rescue(ctx, time.Now(), a.certs.Rescued); err != nil {
		return err
	}
	if err := a.MakeKeys(ctx); err != nil {
		// What needs no key is served all the same, and the making is tried again.
		a.log.ErrorContext(ctx, "signing keys cannot be made", slog.Any("error", err))
	}
	if err := a.queue.Start(ctx); err != nil {
		return err
	}
	if err := a.startDelivery(ctx); err != nil {
		return err
	}
	a.startTasks(ctx)
	a.serve()
	a.warmRenderer(ctx)
	a.log.InfoContext(ctx, "serving", slog.String("address", a.listener.Addr().String()), slog.String("base_url", a.cfg.BaseURL),
		slog.String("database", string(a.DB.Dialect)))
	return a.greet(ctx)
}

// greet prints where the vault is and, as long as nobody owns it, the one-time
// set-up link.
func (a *App) greet(ctx context.Context) error {
	if _, err := fmt.Fprintf(a.stdout, "Certvault serves %s\n", a.cfg.BaseURL); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	owned, err := a.Accounts.HasOwner(ctx)
	if err != nil || owned {
		return err
	}
	secret, err := a.Accounts.NewSetupLink(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "Set it up within an hour: %s\n", a.links.To("/setup?token="+secret)); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return nil
}

// close ends what was opened, in the opposite order.
func (a *App) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	note(a.stopServing(ctx))
	if a.stopTasks != nil {
		a.stopTasks()
		a.tasks.Wait()
	}
	// Attempts and jobs under way end beside each other: one slow receiver must not
	// use up the time that both have.
	var sending sync.WaitGroup
	if a.hooks != nil {
		sending.Go(func() { a.hooks.Stop(ctx) })
	}
	if a.queue != nil {
		note(a.queue.Stop(ctx))
		note(a.queue.Leave(context.WithoutCancel(ctx)))
	}
	sending.Wait()
	if a.renderer != nil {
		note(a.renderer.Close(context.WithoutCancel(ctx)))
	}
	if a.Base != nil {
		a.People.Wait()
		note(a.DB.Close())
	}
	if a.lock != nil {
		note(a.lock.Unlock())
	}
	return errors.Join(errs...)
}
