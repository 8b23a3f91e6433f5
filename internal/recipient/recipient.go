// Package recipient owns what an approved certificate means to the person it
// belongs to: whose it is, the mail that tells them, the links by which they and
// those they choose see it, and what they may ask for. Certificates themselves
// are cert's, accounts identity's, and messages on their way out mail's.
package recipient

import (
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// Workers is how many jobs of cert.RecipientQueue a process works at once.
const Workers = 2

// Config says what a Service works with.
type Config struct {
	DB       *db.DB
	Certs    *cert.Service
	Accounts *account.Service
	Mailer   *mail.Mailer
	Queue    *job.Queue
	Catalog  *locale.Catalog
	// To gives the address of a path of ours.
	To  func(path string) string
	Now func() time.Time
	Log *slog.Logger
}

// Service works for recipients.
type Service struct {
	*Ledger

	db       *db.DB
	certs    *cert.Service
	accounts *account.Service
	mailer   *mail.Mailer
	queue    *job.Queue
	catalog  *locale.Catalog
	to       func(string) string
	log      *slog.Logger
	// shows is linkShows; tests set it low.
	shows int
}

// New makes a service and registers its workers with the queue. cert, mail and
// identity call its operations that end in Tx; package vault connects them.
func New(c Config) *Service {
	s := &Service{
		Ledger: NewLedger(c.Now), db: c.DB, certs: c.Certs, accounts: c.Accounts, mailer: c.Mailer, queue: c.Queue, catalog: c.Catalog, to: c.To, log: c.Log, shows: linkShows,
	}
	job.Add(c.Queue, &noticeWorker{service: s})
	job.Add(c.Queue, &claimWorker{service: s})
	return s
}

type noticeWorker struct {
	river.WorkerDefaults[cert.RecipientArgs]

	service *Service
}

// Work finds whose an approved certificate is, and mails them. It may run more
// than once for one certificate.
func (w *noticeWorker) Work(ctx context.Context, j *river.Job[cert.RecipientArgs]) error {
	return w.service.notify(ctx, j.Args.UUID)
}

// claimArgs is the job that looks again for what a proved address claims: an
// upload that was under way when it was proved may have missed it.
type claimArgs struct {
	UserID int64  `json:"user_id"`
	Email  string `json:"email_folded"`
}

// Kind names the job.
func (claimArgs) Kind() string { return "recipient_claim" }

type claimWorker struct {
	river.WorkerDefaults[claimArgs]

	service *Service
}

// Work claims what is left.
func (w *claimWorker) Work(ctx context.Context, j *river.Job[claimArgs]) error {
	s := w.service
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		p, found, err := proved(ctx, tx, j.Args.Email)
		if err != nil || !found || p.id != j.Args.UserID {
			return err
		}
		return s.claimTx(ctx, tx, p.id, j.Args.Email)
	})
}
