// Package recipient owns the data about the recipient of a certificate: the assignment to a person, the
// mail about the certificate, the links and portfolios that show it, and requests for correction. It
// does not own certificates (cert), accounts (account and identity) or messages (mail).
package recipient

import (
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// Queue is the name of the queue for the jobs of this package.
	Queue = "recipient"
	// Workers is the number of jobs of Queue that a process runs concurrently.
	Workers = 2
)

// Config has the dependencies of a Service.
type Config struct {
	DB       *db.DB
	Certs    *cert.Service
	Accounts *account.Service
	Mailer   *mail.Mailer
	Queue    *job.Queue
	Catalog  *locale.Catalog
	// To returns the URL of a path of the vault.
	To func(path string) string
	// Verify returns the URL of the public page of a reference id.
	Verify func(referenceID string) string
	// Applications returns the applications of a person, for the export. It may be nil.
	Applications func(ctx context.Context, userID int64) ([]ExportedApplication, error)
	Now          func() time.Time
	Log          *slog.Logger
}

// Service provides the operations for recipients.
type Service struct {
	db       *db.DB
	certs    *cert.Service
	accounts *account.Service
	mailer   *mail.Mailer
	queue    *job.Queue
	catalog  *locale.Catalog
	to       func(string) string
	verify   func(string) string
	applied  func(ctx context.Context, userID int64) ([]ExportedApplication, error)
	now      func() time.Time
	log      *slog.Logger
	// maxShown is maxLinkCertificates, and plansAtOnce is the constant plansAtOnce. Tests set lower
	// values.
	maxShown, plansAtOnce int
}

// New returns a service and registers its workers with the queue. Package vault passes methods of the
// service to packages cert, batch, mail and identity as callbacks.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, certs: c.Certs, accounts: c.Accounts, mailer: c.Mailer, queue: c.Queue,
		catalog: c.Catalog, to: c.To, verify: c.Verify, applied: c.Applications, now: c.Now, log: c.Log, maxShown: maxLinkCertificates,
		plansAtOnce: plansAtOnce,
	}
	job.Add(c.Queue, &noticeWorker{service: s})
	job.Add(c.Queue, &claimWorker{service: s})
	return s
}

// noticeArgs is the job that assigns an approved certificate to the person with its address, and mails
// the recipient.
type noticeArgs struct {
	UUID string `json:"uuid"`
}

// Kind returns the name of the job.
func (noticeArgs) Kind() string { return "recipient" }

var noticeOptions = &river.InsertOpts{Queue: Queue}

type noticeWorker struct {
	river.WorkerDefaults[noticeArgs]

	service *Service
}

// Work may run more than once for one certificate.
func (w *noticeWorker) Work(ctx context.Context, j *river.Job[noticeArgs]) error {
	return w.service.notify(ctx, j.Args.UUID)
}

// claimArgs is the job that claims certificates for a verified address a second time: the first
// claim does not see uploads of concurrent transactions.
type claimArgs struct {
	UserID int64  `json:"user_id"`
	Email  string `json:"email_folded"`
}

// Kind returns the name of the job.
func (claimArgs) Kind() string { return "recipient_claim" }

type claimWorker struct {
	river.WorkerDefaults[claimArgs]

	service *Service
}

// Work claims the certificates that the first claim did not see.
func (w *claimWorker) Work(ctx context.Context, j *river.Job[claimArgs]) error {
	s := w.service
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		u, err := account.VerifiedUser(ctx, tx, j.Args.Email)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil || u.ID != j.Args.UserID {
			return err
		}
		return s.claimTx(ctx, tx, u.ID, j.Args.Email)
	})
}
