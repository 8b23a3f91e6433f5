package application

import (
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/template"
)

// Config has the dependencies of a Service.
type Config struct {
	DB        *db.DB
	Keyring   *keyring.Ring
	Accounts  *account.Service
	Certs     *cert.Service
	Search    *search.Service
	Templates *template.Service
	Deletions *deletion.Service
	Mailer    *mail.Mailer
	Catalog   *locale.Catalog
	// To returns the URL for a path of the vault.
	To func(path string) string
	// Quota is the total size in bytes of the files of an institution's drafts at which further files are
	// refused.
	Quota int64
	Now   func() time.Time
	Log   *slog.Logger
}

// Service provides the operations on offers and applications.
type Service struct {
	db        *db.DB
	keyring   *keyring.Ring
	accounts  *account.Service
	certs     *cert.Service
	search    *search.Service
	templates *template.Service
	deletions *deletion.Service
	mailer    *mail.Mailer
	catalog   *locale.Catalog
	to        func(string) string
	quota     int64
	now       func() time.Time
	log       *slog.Logger

	cursors listing.Cursors
	// networks counts the submissions and uploads of applicants by their network.
	networks *limit.Counter
}

// perNetwork is the maximum number of submissions and uploads of applicants from one network in a
// minute. It is large enough for a class that applies from one room.
const perNetwork = 120

// New returns a service.
func New(c Config) *Service {
	return &Service{
		db: c.DB, keyring: c.Keyring, accounts: c.Accounts, certs: c.Certs, search: c.Search, templates: c.Templates, deletions: c.Deletions,
		mailer: c.Mailer, catalog: c.Catalog, to: c.To, quota: c.Quota, now: c.Now, log: c.Log,
		cursors: listing.NewCursors(c.Keyring, "applications"), networks: limit.NewCounter(perNetwork, c.Now),
	}
}

// moment returns the current time in UTC with the precision of stored times.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

var (
	errNotFound = fault.New(fault.NotFound, "There is no such application.")
	errNoOffer  = fault.New(fault.NotFound, "There is no such offer.")
	errNoFile   = fault.New(fault.NotFound, "There is no such file.")
	errNoDraft  = fault.New(fault.NotFound, "There is no saved application for this offer.")
	// errState is the error of a step that the state of an application does not allow.
	errState    = fault.New(fault.BadRequest, "Invalid operation")
	errChanged  = fault.New(fault.Conflict, "The application has changed in the meantime. Reload it to see the changes.")
	errRevision = fault.New(fault.Conflict, "The offer has changed in the meantime. Reload it to see the changes.")
	// errVerify is the error for an applicant without a verified address.
	errVerify = fault.New(fault.Forbidden, "Confirm your e-mail address first.")
	errFast   = fault.New(fault.TooMany, "Too many requests from this network. Try again in a minute.")
	// ErrFull is the error if the files of drafts for an institution have reached the quota.
	ErrFull = &fault.Error{Kind: fault.TooMany, Message: "The files that applicants have not sent yet take up too much space. Try again later.", RetryAfter: time.Hour}
)

// ErrAsked is the error of an answer to a hold that another hold has replaced.
var ErrAsked = fault.New(fault.Conflict, "The institution has asked something else in the meantime. Reload the application to see it.")

// ErrDraft is the error if the draft or the questions of its offer have changed since the applicant saw them.
var ErrDraft = fault.New(fault.Conflict, "The draft or the questions have changed in the meantime. Reload the form to see the changes.")

// ErrReviewer is the error if a member may not review the applications of the offer.
var ErrReviewer = fault.New(fault.Forbidden, "Only the reviewers of this offer may do this.")

// ErrFourEyes is the error if the offer requires two people, and the person who approves the application
// has claimed it.
var ErrFourEyes = fault.New(fault.Forbidden, "This offer requires two people: another person must approve the application.")

// ErrNotClaimed is the error of an approval if the offer requires two people, and no one has claimed the
// application.
var ErrNotClaimed = fault.New(fault.BadRequest, "Claim the application first. This offer requires two people.")
