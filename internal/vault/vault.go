// Package vault creates the services of a vault, connects them, and configures the queues of their
// jobs. The package has no web interface and reads no flags.
//
// The package is separate so that internal/app and the tests below internal/web create the services in
// the same way.
package vault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/trace"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/webhook"
)

// mailWorkers is the number of messages that are sent concurrently.
const mailWorkers = 2

// Links returns the public addresses of the vault.
type Links interface {
	// To returns the address of a path.
	To(path string) string
	// Verify returns the address of the public page of a reference id.
	Verify(referenceID string) string
}

// Deps has the dependencies of the services. All fields are required unless their comment says
// otherwise.
type Deps struct {
	DB      *db.DB
	Keyring *keyring.Ring
	Keys    *authority.Authority
	Blobs   blob.Store
	// BaseURL is the base URL of the vault. It is also the origin of passkeys.
	BaseURL string
	Links   Links
	// Drill means that the vault sends no mail and no webhooks. Messages and deliveries stay queued.
	Drill bool
	// NodeID identifies this process among the processes on the same database.
	NodeID string
	// Node describes this process to operators.
	Node job.NodeInfo
	// NoWork means that this process runs no jobs and sends no webhooks, because another process does.
	NoWork bool

	Sealer cert.Sealer
	Verify cert.Verifier
	// TimeStamps is optional. Without it, the time of a signature is that of the clock of this process.
	TimeStamps *pades.TimeStampAuthority
	// Fonts is optional. Without fonts, templates cannot be drawn. If Sealer is not a template.Sealer,
	// templates cannot be published.
	Fonts *typeset.Fonts
	// Drawer and Templates are optional. Tests set them to replace the service of templates. See
	// cert.Config.Drawer and batch.Config.Templates.
	Drawer    cert.Drawer
	Templates func(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]batch.TemplateName, error)
	// SealWorkers is the maximum number of single uploads that are processed concurrently, and BulkWorkers
	// is that of certificates of batches. Processors is the maximum number of files that are sealed
	// concurrently, or 0 for no limit.
	SealWorkers, BulkWorkers, Processors int
	// Attempts is the maximum number of attempts of a job.
	Attempts int
	// StagedQuota is the maximum total size of an institution's staged files, in bytes. The same limit
	// applies separately to the files of drafts of applications.
	StagedQuota int64

	// Mail contains Sender, NoServer, From, Keyring, Bounces and Metrics. Wire sets the other fields.
	Mail mail.Config
	// Delivery has the settings of the deliverer. Wire sets Notify, Tracer, Log, Node and Off.
	Delivery webhook.DelivererConfig

	// Tracer records traces. It may be nil.
	Tracer *trace.Tracer
	// Sealing and SignIns are metrics. They may be nil.
	Sealing *cert.Metrics
	SignIns *identity.Metrics
	// BlobKeep is the minimum time between the first sweep that finds no row for a file and the deletion
	// of the file.
	BlobKeep time.Duration
	// PasswordCost is the cost of hashing passwords.
	PasswordCost account.Cost
	Now          func() time.Time
	// LeaseNow is the clock of leases and schedules, which all processes on the database must share. It is
	// optional. The default is Now.
	LeaseNow func() time.Time
	Log      *slog.Logger
}

// Services are all services of a vault.
type Services struct {
	Accounts    *account.Service
	Invitations *account.Invitations
	Tokens      *token.Service
	// IdempotencyKeys stores the idempotency keys.
	IdempotencyKeys *limit.Keys
	Hooks           *webhook.Service
	Queue           *job.Queue
	Languages       *locale.Catalog
	Mailer          *mail.Mailer
	Deletions       *deletion.Service
	Certs           *cert.Service
	Search          *search.Service
	Tasks           *task.Service
	Batches         *batch.Service
	Templates       *template.Service
	Approvals       *approval.Service
	BulkImports     *bulkimport.Service
	Recipients      *recipient.Service
	Applications    *application.Service
	Issuer          *issuer.Service
	People          *identity.Service
	Deliverer       *webhook.Deliverer
	// Verifications counts how often certificates are verified.
	Verifications *verification.Service
}

// Wire creates the services and starts none of them. A service that is created later than its user is
// used only in callbacks, which read it from s when they are called.
func Wire(d Deps) (*Services, error) {
	if d.LeaseNow == nil {
		d.LeaseNow = d.Now
	}
	s := &Services{
		Accounts: account.New(d.DB, d.Now, account.WithCost(d.PasswordCost)), Tokens: token.New(d.DB, d.Now), IdempotencyKeys: limit.NewKeys(d.DB, d.NodeID, d.LeaseNow),
		Hooks: webhook.New(d.DB, d.Keyring, d.LeaseNow),
	}
	d.useTemplates(s)
	var err error
	if s.Languages, err = locale.Load(); err != nil {
		return nil, fmt.Errorf("reading the languages: %w", err)
	}
	if s.Queue, err = queue(d); err != nil {
		return nil, err
	}
	if s.Mailer, err = mailer(d, s); err != nil {
		return nil, err
	}
	s.Invitations = account.NewInvitations(account.InvitationsConfig{
		Accounts: s.Accounts, Send: s.Mailer.EnqueueTx, Languages: s.Languages, Link: d.Links.To,
	})
	s.Deletions = Deletions(deletion.Config{DB: d.DB, Blobs: d.Blobs, Keep: d.BlobKeep, Now: d.LeaseNow, Log: d.Log})
	s.Certs = cert.New(cert.Config{
		DB: d.DB, Blobs: d.Blobs, Deletions: s.Deletions, Queue: s.Queue, Hooks: s.Hooks, Sealer: d.Sealer, VerifyURL: d.Links.Verify,
		Keys: d.Keys, TimeStamps: d.TimeStamps, Verify: d.Verify, Drawer: d.Drawer, Attempts: d.Attempts, BulkWorkers: d.BulkWorkers, Processors: d.Processors,
		Now: d.Now, LeaseNow: d.LeaseNow, Log: d.Log,
		Recipient: func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error) {
			return s.Recipients.LookUpTx(ctx, tx, institutionID, emailFolded)
		},
		Sheet: func(ctx context.Context, c *cert.Certificate) (*seal.Sheet, error) { return s.sheet(ctx, d, c) },
		StatusChanged: func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
			return errors.Join(s.Recipients.MovedTx(ctx, tx, c), s.Applications.MovedTx(ctx, tx, c))
		},
		Expiring: func(ctx context.Context, tx *db.Tx, list []*cert.Certificate) error {
			return s.Recipients.ExpiringTx(ctx, tx, list)
		},
		Planned: func(ctx context.Context, tx *db.Tx, c *cert.Certificate, n cert.Notify) error {
			return s.Recipients.PlanTx(ctx, tx, recipient.Subject{InstitutionID: c.InstitutionID, CertificateID: c.ID}, n)
		},
		TellRevoked: func(ctx context.Context, tx *db.Tx, list []*cert.Certificate) error {
			return s.Recipients.TellRevokedTx(ctx, tx, list)
		},
		Purged: PurgedTx, Metrics: d.Sealing,
	})
	s.Verifications = verification.New(verification.Config{DB: d.DB, Now: d.Now, Log: d.Log})
	s.Search = search.New(d.DB, d.Keyring, d.Now)
	s.Batches = batch.New(batch.Config{
		DB: d.DB, Keyring: d.Keyring, Certs: s.Certs, Queue: s.Queue, Templates: d.Templates, Signatories: template.SignatoriesOf, Quota: d.StagedQuota,
		Planned: func(ctx context.Context, tx *db.Tx, institutionID int64, batchID string, n cert.Notify) error {
			return s.Recipients.PlanTx(ctx, tx, recipient.Subject{InstitutionID: institutionID, BatchID: batchID}, n)
		},
		Now: d.Now, Log: d.Log,
	})
	s.Templates = templates(d, s)
	s.Approvals = approval.New(approval.Config{
		DB: d.DB, Certs: s.Certs, Batches: s.Batches, Templates: s.Templates, Send: s.Mailer.EnqueueTx, Languages: s.Languages, To: d.Links.To, Now: d.Now, Log: d.Log,
	})
	s.Recipients = recipient.New(recipient.Config{
		DB: d.DB, Certs: s.Certs, Accounts: s.Accounts, Mailer: s.Mailer, Queue: s.Queue, Catalog: s.Languages, To: d.Links.To, Verify: d.Links.Verify, Now: d.Now, Log: d.Log,
		Applications: func(ctx context.Context, userID int64) ([]recipient.ExportedApplication, error) {
			return s.Applications.Exported(ctx, userID)
		},
	})
	s.Issuer = issuer.New(issuer.Config{
		DB: d.DB, Keyring: d.Keyring, Keys: d.Keys, Accounts: s.Accounts, Certs: s.Certs, Catalog: s.Languages, BaseURL: d.BaseURL, Verify: d.Links.Verify,
		Send: s.Mailer.EnqueueTx, Now: d.Now,
	})
	s.Applications = application.New(application.Config{
		DB: d.DB, Keyring: d.Keyring, Accounts: s.Accounts, Certs: s.Certs, Search: s.Search, Templates: s.Templates, Deletions: s.Deletions, Mailer: s.Mailer,
		Catalog: s.Languages, To: d.Links.To, Quota: d.StagedQuota, Now: d.Now, Log: d.Log,
	})
	s.Tasks = task.New(task.Config{
		DB: d.DB, Queue: s.Queue, Certs: s.Certs, Search: s.Search, Applications: s.Applications, Issuer: s.Issuer,
		Renewal: s.Templates.Renewal, VerifyURL: d.Links.Verify, Now: d.Now, Log: d.Log,
	})
	s.BulkImports = bulkimport.New(bulkimport.Config{
		DB: d.DB, Certs: s.Certs, Search: s.Search, Tasks: s.Tasks, Batches: s.Batches, Templates: s.Templates, Blobs: d.Blobs, Queue: s.Queue, Now: d.Now, Log: d.Log,
	})
	s.People, err = identity.New(identity.Config{
		DB: d.DB, Keyring: d.Keyring, Queue: s.Queue, Mailer: s.Mailer, Languages: s.Languages, BaseURL: d.BaseURL,
		OnVerified: func(ctx context.Context, tx *db.Tx, p identity.Person) error {
			return errors.Join(s.Recipients.ClaimTx(ctx, tx, p.ID, p.EmailFolded), s.Applications.AssignTx(ctx, tx, p.ID, p.EmailFolded))
		},
		OnDeleted: func(ctx context.Context, tx *db.Tx, p identity.Person) error {
			return errors.Join(s.Applications.ForgetTx(ctx, tx, p.ID), s.Recipients.ForgetTx(ctx, tx, p.ID))
		},
		PasswordCost: d.PasswordCost, Metrics: d.SignIns, Now: d.Now, Log: d.Log,
	})
	if err != nil {
		return nil, err
	}
	s.Deliverer = deliverer(d, s)
	return s, nil
}

// drawer draws certificates with the service of templates. It reads the service from services at each
// call, because the service of templates is created after the service of certificates.
type drawer struct{ services *Services }

func (d drawer) Draw(ctx context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	return d.services.Templates.Draw(ctx, c)
}

// useTemplates makes Drawer and Templates use the service of templates, unless they are set.
func (d *Deps) useTemplates(s *Services) {
	if d.Drawer == nil {
		d.Drawer = drawer{s}
	}
	if d.Templates == nil {
		d.Templates = func(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]batch.TemplateName, error) {
			return s.Templates.Names(ctx, institutionID, versionIDs)
		}
	}
}

func templates(d Deps, s *Services) *template.Service {
	sealer, _ := d.Sealer.(template.Sealer)
	return template.New(template.Config{
		DB: d.DB, Blobs: d.Blobs, Sealer: sealer, Fonts: d.Fonts, Certs: s.Certs, Batches: s.Batches, Search: s.Search, VerifyURL: d.Links.Verify, Now: d.Now, Log: d.Log,
	})
}

// Deletions returns the service that deletes files, with the look-ups of all packages whose rows
// refer to files.
func Deletions(c deletion.Config) *deletion.Service {
	// A package that passes keys on must come before the package that gets them; see
	// deletion.Config.References. Package template passes the keys of bases on to package batch. Package
	// batch passes the keys of bases and staged files on to package cert.
	c.References = []deletion.References{application.ReferencedBlobs, bulkimport.ReferencedBlobs, template.ReferencedBlobs, batch.ReferencedBlobs, cert.ReferencedBlobs}
	return deletion.New(c)
}

// PurgedTx removes what other packages store about a certificate that is about to be deleted. It is
// the callback cert.Config.Purged.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	return errors.Join(batch.PurgedTx(ctx, tx, c), application.PurgedTx(ctx, tx, c), recipient.PurgedTx(ctx, tx, c))
}

// queue creates the queue with the workers of this process.
func queue(d Deps) (*job.Queue, error) {
	queues := map[string]int{
		cert.SealQueue: d.SealWorkers, cert.BulkQueue: d.BulkWorkers, batch.Queue: 1, bulkimport.Queue: 1, task.Queue: 1, recipient.Queue: recipient.Workers,
	}
	if d.NoWork {
		queues = nil
	} else if !d.Drill {
		queues[mail.QueueName] = mailWorkers
	}
	return job.New(d.DB, job.Config{
		NodeID: d.NodeID, Info: d.Node, Queues: queues,
		MaxAttempts: d.Attempts, Timeout: cert.SealTimeout, Tracer: d.Tracer, Now: d.LeaseNow, Logger: queueLogger(d.Log),
	})
}

// mailer returns the mailer, which reports the final state of each message to the service of recipients.
func mailer(d Deps, s *Services) (*mail.Mailer, error) {
	c := d.Mail
	c.DB, c.Queue, c.Now, c.Log = d.DB, s.Queue, d.Now, d.Log
	c.Finished = func(ctx context.Context, tx *db.Tx, e mail.Result) error {
		return s.Recipients.MailFinishedTx(ctx, tx, e)
	}
	c.Picture = func(ctx context.Context, source string) (*mail.Image, error) {
		return s.Recipients.MailPicture(ctx, source)
	}
	if d.Drill {
		c.Sender = mail.NoSender{}
	}
	return mail.New(c)
}

// deliverer returns the deliverer, which sends mail about the health of an endpoint to the owners
// of the institution.
func deliverer(d Deps, s *Services) *webhook.Deliverer {
	c := d.Delivery
	c.Log, c.Node, c.Tracer, c.Off = d.Log, d.NodeID, d.Tracer, d.Drill || d.NoWork
	c.Notify = func(ctx context.Context, tx *db.Tx, n webhook.Notice) error { return notifyOwnersTx(ctx, tx, d, s, n) }
	return webhook.NewDeliverer(s.Hooks, c)
}

// notifyOwnersTx queues a mail about an endpoint to each owner of its institution. The mail is in the
// language of the owner, or in the institution's language for mail if the owner has chosen none.
func notifyOwnersTx(ctx context.Context, tx *db.Tx, d Deps, s *Services, n webhook.Notice) error {
	owners, err := s.Accounts.OwnersTx(ctx, tx, n.InstitutionID)
	if err != nil {
		return err
	}
	institution, err := account.InstitutionByID(ctx, tx, n.InstitutionID)
	if err != nil {
		return err
	}
	settings, err := account.ReadSettings(ctx, tx, n.InstitutionID)
	if err != nil {
		return err
	}
	head, err := account.MailHeadOf(ctx, tx, n.InstitutionID)
	if err != nil {
		return err
	}
	for _, o := range owners {
		l := s.Languages.FirstOf(o.Language, settings.MailLanguage)
		letter, subject, err := n.Letter(l, head.Name, d.Links.To("/panel/"+institution.Slug+"/webhooks/"+n.Endpoint))
		if err != nil {
			return err
		}
		m, err := head.Write(letter, mail.Address{Name: o.Name, Email: o.Email}, subject)
		if err != nil {
			return err
		}
		if _, err := s.Mailer.EnqueueTx(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}
