// Package app connects all parts of the vault. It starts the parts in order and stops them in
// reverse order.
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
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/replica"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/trace"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	// stopTime is the time for which running work may continue when the vault stops, for example after a
	// signal and the time of --drain. Then jobs are cancelled, which may take 5 s more.
	stopTime = 20 * time.Second
	// requestTime is the part of stopTime for which running requests may continue. The rest of stopTime
	// is for jobs.
	requestTime = 12 * time.Second
	// rendererIdle is the time without work after which the PDF renderer is removed from memory.
	// Loading it again takes about as long as processing a certificate.
	rendererIdle = 2 * time.Minute
	// leaveTime is the time limit of the last writes to the database.
	leaveTime = time.Second
	// exitTime is the time after the beginning of the stop at which the process ends, even if something
	// is still running. By default, Kubernetes kills a process 30 s after it sends the signal.
	exitTime = 28 * time.Second
)

// Storage contains the open database, the keyring and the signing keys of a vault.
type Storage struct {
	DB      *db.DB
	Keyring *keyring.Ring
	// Keys contains the institutions' signing keys.
	Keys *authority.Authority
	// rootsFile is the path of the file with the root certificates, for commands that do not use the
	// database.
	rootsFile string
}

// prepareSchema is one of migrateSchema, checkSchema and createSchema.
type prepareSchema func(ctx context.Context, d *db.DB) error

// migrateSchema migrates the schema to this version. Only the commands serve and migrate may call it:
// other commands must not change the schema while a server of an earlier version is running.
func migrateSchema(ctx context.Context, d *db.DB) error { return d.Migrate(ctx) }

// checkSchema returns an error if this version cannot use the schema.
func checkSchema(ctx context.Context, d *db.DB) error { return d.CheckSchema(ctx) }

// createSchema creates the schema if the database is empty, because no server uses an empty database. If
// the database is not empty, createSchema checks the schema.
func createSchema(ctx context.Context, d *db.DB) error {
	empty, err := d.IsEmpty(ctx)
	if err != nil {
		return err
	}
	if empty {
		return d.Migrate(ctx)
	}
	return d.CheckSchema(ctx)
}

// openStorage opens the storage and calls prepare. base is the base URL, or "" if it is unknown.
func openStorage(ctx context.Context, c config.Storage, base string, prepare prepareSchema) (_ *Storage, err error) {
	if err := backup.CheckInterrupted(ctx, c.Data, nil); err != nil {
		return nil, err
	}
	if _, err := makePrivate(c.Data); err != nil {
		return nil, err
	}
	options, err := keyOptions(c, base)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, c.Data, c.Database)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.CheckRestoring(ctx); err != nil {
		return nil, err
	}
	if err := prepare(ctx, d); err != nil {
		return nil, err
	}
	keys := authority.New(d, options)
	ring, err := openKeyring(ctx, d, c, keys)
	if err != nil {
		return nil, err
	}
	return &Storage{DB: d, Keyring: ring, Keys: keys, rootsFile: filepath.Join(c.Data, RootsFile)}, nil
}

// Base contains the services for commands other than serve.
type Base struct {
	*Storage

	Accounts *account.Service
	Tokens   *token.Service
	Hooks    *webhook.Service
	// People has no mailer, so it cannot send mail.
	People *identity.Service
}

// OpenBase opens the storage and creates the services. It returns an error if this version cannot use
// the schema. base is the base URL, or "" if it is unknown.
func OpenBase(ctx context.Context, c config.Storage, base string) (*Base, error) {
	return openBase(ctx, c, base, checkSchema)
}

// CreateBase is like OpenBase, but it creates the schema if the database is empty. It returns an error
// if the database is empty and the file store has files. It also imports the signing keys of an earlier
// version.
func CreateBase(ctx context.Context, c config.Storage, base string) (*Base, error) {
	if err := verifyFiles(ctx, c); err != nil {
		return nil, err
	}
	b, err := openBase(ctx, c, base, createSchema)
	if err != nil {
		return nil, err
	}
	if err := b.importKeys(ctx, slog.New(slog.DiscardHandler)); err != nil {
		return nil, errors.Join(err, b.DB.Close())
	}
	return b, nil
}

// Migrate migrates the schema to this version and returns the number of the schema's version. It also
// imports the signing keys of an earlier version. It changes nothing if the file store belongs to another
// installation.
func Migrate(ctx context.Context, c config.Storage, log *slog.Logger) (version int, err error) {
	if err := verifyFiles(ctx, c); err != nil {
		return 0, err
	}
	s, err := openStorage(ctx, c, "", migrateSchema)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.DB.Close()) }()
	if err := s.importKeys(ctx, log); err != nil {
		return 0, err
	}
	version, _, err = s.DB.SchemaVersion(ctx)
	return version, err
}

func openBase(ctx context.Context, c config.Storage, base string, prepare prepareSchema) (*Base, error) {
	s, err := openStorage(ctx, c, base, prepare)
	if err != nil {
		return nil, err
	}
	people, err := identity.New(identity.Config{DB: s.DB, Keyring: s.Keyring, BaseURL: base, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, s.DB.Close())
	}
	return &Base{
		Storage: s, Accounts: account.New(s.DB, time.Now), Tokens: token.New(s.DB, time.Now), Hooks: webhook.New(s.DB, s.Keyring, time.Now), People: people,
	}, nil
}

// App is a running vault.
type App struct {
	*Storage
	*vault.Services

	cfg    *config.Serve
	log    *slog.Logger
	stdout io.Writer
	lock   *flock.Flock
	// locked describes the file of lock at the time when this process locked it.
	locked os.FileInfo
	store  store
	// previous is the id of the server that locked this data folder before.
	previous string
	// drill means that the vault is a drill of a restore. It sends no mail and no webhooks.
	drill bool
	blobs blob.FileStore
	// backups is nil if --backup is not set.
	backups *backup.Schedule
	// replica is nil if --database-read is not set.
	replica  *replica.Replica
	renderer *pdfium.Renderer
	fonts    *typeset.Fonts
	links    *web.Links
	registry *prometheus.Registry
	// tracer is nil if --otlp is not set.
	tracer *trace.Tracer
	// patterns contains the routes that a test compares with the OpenAPI document.
	patterns []string

	gate *startGate
	// acme obtains the TLS certificate. It is nil if --acme-domain is not set.
	acme *lateManager
	// shared shares the counts of requests with other servers. It is nil if the database is SQLite.
	shared *limit.Shared
	// draining means that the vault will stop soon, and that a balancer should send no more requests.
	draining atomic.Bool

	// onStop contains functions that end responses of unlimited duration. They are called when the vault
	// begins to stop.
	onStop   []func()
	public   *http.Server
	listener net.Listener
	// accepting is closed when the public port accepts no more connections.
	accepting chan struct{}
	newConns  newConns
	// certificate is nil if a proxy provides TLS.
	certificate *serverCertificate
	// rendererFailed means that the PDF renderer could not be prepared.
	rendererFailed atomic.Bool
	metrics        *http.Server
	metricsAt      net.Listener

	tasks     sync.WaitGroup
	stopTasks context.CancelFunc
	fatal     chan error
	startedAt time.Time
	// requestTime and exitTime have the values of the constants, except in tests.
	requestTime, exitTime time.Duration
	// databaseProbe and fileProbe are the results of the last test writes.
	databaseProbe, fileProbe probe
}

// ErrRunning means that another server uses the data folder.
var ErrRunning = errors.New("another certvault serve is using this data folder")

// New opens all parts and the public port. The gate handles requests until Run has started the parts.
// The vault writes messages for the operator, such as the set-up link, to stdout, and never to the log.
func New(ctx context.Context, cfg *config.Serve, log *slog.Logger, stdout io.Writer) (_ *App, err error) {
	a := &App{
		cfg: cfg, log: log, stdout: stdout, fatal: make(chan error, 3), registry: prometheus.NewRegistry(), startedAt: time.Now(),
		requestTime: requestTime, exitTime: exitTime, gate: newStartGate(),
	}
	if cfg.Node.Node != "" {
		a.log = log.With(slog.String("node", cfg.Node.Node))
	}
	if cfg.OTLP != "" {
		a.tracer = trace.New(trace.Options{URL: cfg.OTLP, Node: cfg.NodeName(), Version: Version(), Log: a.log})
	}
	a.store = store{dir: filesDir(cfg.Storage), node: nodeID(cfg.NodeName())}
	defer func() {
		if err != nil {
			err = errors.Join(explainDamage(cfg.Storage, err), a.close(context.WithoutCancel(ctx)))
		}
	}()
	if err := backup.CheckInterrupted(ctx, cfg.Data, nil); err != nil {
		return nil, err
	}
	if err := checkRoles(cfg); err != nil {
		return nil, err
	}
	if err := a.lockData(ctx); err != nil {
		return nil, err
	}
	// If the files belong to another installation, New opens no port and does not migrate the database.
	// The check makes no changes, because New may still fail if a port is in use.
	if err := a.openFiles(); err != nil {
		return nil, err
	}
	if err := verifyInstallation(ctx, cfg.Storage, a.blobs); err != nil {
		return nil, err
	}
	if err := a.checkBackups(); err != nil {
		return nil, err
	}
	if err := a.listen(ctx); err != nil {
		return nil, err
	}
	a.notify("STATUS=Migrating the database")
	if a.Storage, err = openStorage(ctx, cfg.Storage, cfg.BaseURL, migrateSchema); err != nil {
		return nil, err
	}
	a.gate.phase.Store(starting)
	a.notify("STATUS=Starting")
	if err := a.openACME(ctx); err != nil {
		return nil, err
	}
	a.warnOfNetwork(ctx)
	if err := a.readRestore(ctx); err != nil {
		return nil, err
	}
	if err := a.importKeys(ctx, log); err != nil {
		return nil, err
	}
	if err := a.checkIdentity(ctx, log); err != nil {
		return nil, err
	}
	if err := checkClock(ctx, a.DB); err != nil {
		return nil, err
	}
	if a.blobs, err = createFiles(cfg.Storage, a.blobs); err != nil {
		return nil, err
	}
	if err := claimStore(ctx, cfg.Storage, a.DB, a.blobs, time.Now()); err != nil {
		return nil, err
	}
	if err := a.openReplica(ctx); err != nil {
		return nil, err
	}
	a.prepareBackups()
	if a.renderer, err = pdfium.New(ctx, pdfium.Options{CompiledDir: cfg.Cache, CacheDir: cfg.OwnCache(), Unload: rendererIdle}); err != nil {
		return nil, fmt.Errorf("preparing the PDF renderer: %w", err)
	}
	if a.fonts, err = typeset.New(fontFolders(cfg.Data, cfg.Fonts)...); err != nil {
		return nil, fmt.Errorf("preparing the fonts: %w", err)
	}
	if err := a.wire(); err != nil {
		return nil, err
	}
	if err := a.prepareServers(); err != nil {
		return nil, err
	}
	return a, nil
}

// systemFonts is the folder in which Linux distributions install fonts.
const systemFonts = "/usr/share/fonts"

// maxBulkWorkers limits the workers for batches on up to eight processors: a process has four for each
// processor, but at least eight and at most maxBulkWorkers. On more processors, it has about two for each.
// More workers would take connections to the database that pages need.
const maxBulkWorkers = 16

// wire creates the services.
func (a *App) wire() error {
	sender, err := a.sender()
	if err != nil {
		return err
	}
	delivery, err := a.delivery()
	if err != nil {
		return err
	}
	a.links = web.NewLinks(a.cfg.BaseURL, a.Keyring, time.Now)
	workers := job.DefaultWorkers()
	d := vault.Deps{
		DB: a.DB, Keyring: a.Keyring, Keys: a.Keys, Blobs: a.tracedFiles(), BaseURL: a.cfg.BaseURL, Links: a.links, Drill: a.drill, NodeID: a.store.node,
		Node: a.nodeInfo(), NoWork: !a.cfg.Has(config.Work),
		Sealer: seal.New(a.renderer, a.fonts), Fonts: a.fonts, Verify: pades.Verify,
		// There are more workers than processors, because workers mostly wait for the disk and the database.
		SealWorkers: 3 * workers, BulkWorkers: max(2*workers-1, min(4*workers, maxBulkWorkers)), Processors: workers,
		Attempts: a.cfg.ProcessAttempts, StagedQuota: batch.StagedQuota, BlobKeep: time.Duration(a.cfg.BlobKeep),
		Sealing: cert.NewMetrics(a.registry), SignIns: identity.NewMetrics(a.registry), Mail: sender, Delivery: delivery, PasswordCost: account.DefaultCost,
		Tracer: a.tracer, Now: time.Now, LeaseNow: a.DB.Now, Log: a.log,
	}
	if a.cfg.TSA != "" {
		d.TimeStamps = timeStamps(a.cfg.TSA)
	}
	if a.Services, err = vault.Wire(d); err != nil {
		return err
	}
	a.registry.MustRegister(a.Hooks.Conditions(func(err error) {
		a.log.Warn("reading the condition of webhooks failed", slog.Any("error", err))
	}))
	return nil
}

// Run starts the vault, serves requests until ctx is done or a part fails, and stops the vault. If ctx is
// done, Run returns nil even if some work did not end in time, because the next start continues the work.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() {
		err = errors.Join(err, a.stop(context.WithoutCancel(ctx)))
		if err != nil && ctx.Err() != nil {
			a.log.WarnContext(ctx, "the vault could not end all work; the next start continues it", slog.Any("error", err))
			err = nil
		}
	}()
	limitMemory()
	if err := a.start(ctx); err != nil {
		return explainDamage(a.cfg.Storage, err)
	}
	a.notify(daemon.SdNotifyReady + "\nSTATUS=Serving " + a.cfg.BaseURL)
	defer a.notify(daemon.SdNotifyStopping + "\nSTATUS=Stopping")
	select {
	case <-ctx.Done():
		a.notify(daemon.SdNotifyStopping + "\nSTATUS=Draining")
		a.drain(context.WithoutCancel(ctx))
		a.log.InfoContext(ctx, "stopping")
		return nil
	case err := <-a.fatal:
		return err
	}
}

func (a *App) start(ctx context.Context) error {
	if err := a.checkStore(ctx); err != nil {
		return err
	}
	if err := a.heartbeat(ctx); err != nil {
		return err
	}
	// Of two servers that start at the same time, at least one sees the heartbeat of the other.
	if err := a.checkOutbox(ctx); err != nil {
		return err
	}
	if err := a.claimBaseURL(ctx); err != nil {
		return err
	}
	// Rescue makes the jobs of crashed processes available before the queue starts.
	if err := a.Queue.Rescue(ctx, a.DB.Now(), a.Certs.Rescued); err != nil {
		return err
	}
	if err := a.pullBack(ctx); err != nil {
		return err
	}
	if err := a.CreateKeys(ctx); err != nil {
		// Requests that require no key are still served, and a periodic task tries again.
		a.log.ErrorContext(ctx, "creating the signing keys failed", slog.Any("error", err))
	}
	if err := a.Queue.Start(ctx); err != nil {
		return err
	}
	if err := a.startDelivery(ctx); err != nil {
		return err
	}
	a.startTasks(ctx)
	a.serve()
	if a.cfg.Has(config.Work) {
		a.warmRenderer(ctx)
	}
	a.log.InfoContext(ctx, "serving", slog.String("address", a.listener.Addr().String()), slog.String("base_url", a.cfg.BaseURL),
		slog.String("database", string(a.DB.Dialect)))
	if err := a.printSetupLink(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	// The vault serves requests now, so Run must drain it even if ctx has ended meanwhile.
	return nil
}
