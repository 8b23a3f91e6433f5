// Package cert owns the certificate: its record, its states, how it comes in,
// how it is made into a verified PDF, and how it is retried and revoked. The
// rules hold here, whoever calls: the API, the panel, a batch. It knows neither
// HTTP nor how its values are shown.
package cert

import (
	"context"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// Source is where a certificate comes from.
type Source string

// Vault certificates are files that the institution had already approved.
const Vault Source = "vault"

// TriggerContext is what set off a certificate's record or an event of it.
type TriggerContext string

const (
	// SingleUpload is one request with the file, through the API.
	SingleUpload TriggerContext = "single_upload"
	// BulkUpload is an entry of a batch, through the API.
	BulkUpload TriggerContext = "bulk_upload"
	// PanelUpload is one certificate, uploaded in the panel.
	PanelUpload TriggerContext = "panel_upload"
	// PanelBulkUpload is an entry of a batch of the panel's.
	PanelBulkUpload TriggerContext = "panel_bulk_upload"
	// Retrying is carried by the events that follow a retry.
	Retrying TriggerContext = "retry"
)

// Actor is who made a certificate's record.
type Actor struct {
	// Type is "token" or "user".
	Type string
	ID   int64
	Name string
}

// Failure is why processing ended in an error.
type Failure struct {
	// Code is a stable word in snake case.
	Code string
	// Message is a sentence for the institution.
	Message string
}

// Certificate is a certificate's record.
type Certificate struct {
	ID             int64
	UUID           string
	InstitutionID  int64
	ReferenceID    string
	Title          string
	FullName       string
	Email          string
	IssueDate      string // YYYY-MM-DD
	Details        string
	Source         Source
	TriggerContext TriggerContext
	// EventContext is the trigger context that its events carry from now on.
	EventContext TriggerContext
	Status       Status
	Failure      *Failure
	BatchID      string
	CustomerID   int64 // 0 until assigned
	Creator      Actor

	File     File
	Verified *Verified // nil until approved

	Placement     string
	PlacementPage int
	PlacementBox  *seal.Box
	Notices       []seal.Notice

	CreatedAt        time.Time
	UpdatedAt        time.Time
	ApprovedAt       *time.Time
	RevokedAt        *time.Time
	RevocationReason string
	RevocationNote   string
	// FilesEndedAt is when the files of a revoked certificate were removed, by its
	// institution's wish; nil as long as they are there.
	FilesEndedAt *time.Time

	jobID    int64
	crashes  int
	imageKey string
}

// File is an original, stored.
type File struct {
	Name string
	Type seal.MediaType
	Size int64
	// SHA256 is the digest of the whole, State that of crypto/sha256 after the
	// last byte, from which the verified PDF's digest goes on.
	SHA256 [32]byte
	State  []byte
	Key    string
	// Notices are what the check at upload found worth saying.
	Notices []seal.Notice
}

// Verified says where the verified PDF is and what it hashes to.
type Verified struct {
	// TailKey is the blob that follows the original, or the whole file.
	TailKey string
	Whole   bool
	SHA256  [32]byte
	Size    int64
}

// Config is what a Service is made from.
type Config struct {
	DB     *db.DB
	Blobs  blob.Store
	Queue  *job.Queue
	Hooks  *webhook.Service
	Sealer Sealer
	// Keys has the institutions' signing keys.
	Keys *authority.Authority
	// TimeStamps dates signatures; without it they carry the vault's own time
	// alone.
	TimeStamps *pades.TimeStampAuthority
	Verify     Verifier
	// VerifyURL gives the address that the QR code of a reference id leads to.
	VerifyURL func(referenceID string) string
	// Attempts is how often sealing is tried before a passing fault becomes a
	// failure.
	Attempts int
	// BulkWorkers is how many certificates of batches a process seals at once.
	BulkWorkers int
	// Recipient gives the number that the person whose address it is has in an
	// institution, 0 while nobody has proved that it is theirs. It is asked in
	// the transaction in which a certificate is made; nil knows nobody.
	Recipient func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (customerID int64, err error)
	// Moved is told of each change of status, in its transaction. It may be nil.
	Moved Then
	// Ended is told of each certificate that is about to be removed for good, in the
	// transaction of it. It may be nil.
	Ended Then
	Now   func() time.Time
	Log   *slog.Logger
}

// Service works on certificates.
type Service struct {
	db         *db.DB
	blobs      blob.Store
	queue      *job.Queue
	hooks      *webhook.Service
	sealer     Sealer
	keys       *authority.Authority
	timeStamps *pades.TimeStampAuthority
	verify     Verifier
	verifyURL  func(string) string
	attempts   int
	ahead      int
	recipient  func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error)
	moved      Then
	ended      Then
	now        func() time.Time
	log        *slog.Logger
	images     singleflight.Group
}

// New makes a service and registers its workers with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, blobs: c.Blobs, queue: c.Queue, hooks: c.Hooks, sealer: c.Sealer, keys: c.Keys, timeStamps: c.TimeStamps,
		verify: c.Verify, verifyURL: c.VerifyURL, attempts: c.Attempts, ahead: feedAhead * max(1, c.BulkWorkers),
		recipient: c.Recipient, moved: c.Moved, ended: c.Ended, now: c.Now, log: c.Log,
	}
	job.Add(c.Queue, &sealWorker{service: s})
	return s
}

// Content is a stored file, open for reading.
type Content struct {
	*io.SectionReader

	closers []io.Closer
}

// Close closes what the content is read from.
func (c *Content) Close() error {
	var err error
	for _, x := range c.closers {
		if e := x.Close(); e != nil && err == nil {
			err = e
		}
	}
	return err
}
