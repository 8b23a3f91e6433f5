// Package cert implements certificates: records and states, receiving and uploading files, sealing,
// retry, revocation and retention. Its rules apply to all callers: the API, the panel and batches.
// It does not depend on HTTP or on the pages. Package search finds certificates, and package task
// changes many certificates in the background.
package cert

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// Source is the origin of a certificate.
type Source string

const (
	// Vault is the source of certificates whose files the institution approved before the upload.
	Vault Source = "vault"
	// Template is the source of certificates that are drawn from a template.
	Template Source = "template"
	// Customer is the source of certificates for which a person applied.
	Customer Source = "customer"
	// closed is the source of the records of applications that ended without a certificate. Only
	// package application shows these records. Their events have the source Customer.
	closed Source = "closed"
)

// Sources are the sources of all certificates.
var Sources = []Source{Vault, Template, Customer}

// TriggerContext is the cause of a record or of one of its events.
type TriggerContext string

const (
	// SingleUpload is an API request with one file.
	SingleUpload TriggerContext = "single_upload"
	// BulkUpload is an entry of a batch from the API.
	BulkUpload TriggerContext = "bulk_upload"
	// PanelUpload is an upload of one certificate in the panel.
	PanelUpload TriggerContext = "panel_upload"
	// PanelBulkUpload is an entry of a batch from the panel.
	PanelBulkUpload TriggerContext = "panel_bulk_upload"
	// FromTemplate is a certificate that is issued from a template, alone or in a batch.
	FromTemplate TriggerContext = "template"
	// CustomerSubmission is the application of a person.
	CustomerSubmission TriggerContext = "customer_submission"
	// Retrying is the context of the events after a retry.
	Retrying TriggerContext = "retry"
)

// Actor is the person or token that created a certificate.
type Actor struct {
	// Type is "token" or "user".
	Type string
	ID   int64
	Name string
}

// Failure is the reason why processing failed.
type Failure struct {
	// Code is a stable identifier in snake case.
	Code string
	// Message is a sentence for the institution.
	Message string
}

// Certificate is the record of a certificate.
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
	// EventContext is the trigger context of the certificate's future events.
	EventContext TriggerContext
	Status       Status
	Failure      *Failure
	BatchID      string
	CustomerID   int64 // 0 until assigned
	Creator      Actor

	// File is the original. The original of a certificate from a template is drawn, and has no size and no
	// digest until the certificate is approved. An application has no original until a reviewer approves it.
	File     File
	Verified *Verified // nil until approved
	// Template is nil unless the certificate is made from a template.
	Template *TemplateUse

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
	// FilesDeletedAt is the time at which the files of a revoked certificate were erased or their
	// retention ended. It is nil while the record refers to the files.
	FilesDeletedAt *time.Time

	// ExpiresOn is the last day on which the certificate is valid, in UTC, as YYYY-MM-DD, or "".
	ExpiresOn string
	// Replaces is the certificate that this certificate replaces, or will replace when it is approved.
	// ReplacedBy is the certificate that has replaced this certificate. Each is nil if there is none.
	Replaces, ReplacedBy *Link

	jobID    int64
	crashes  int
	imageKey string
	// lineage is the UUID of the first certificate of the chain of replacements, or "" if this certificate
	// is the first.
	lineage string
}

// File is a stored original.
type File struct {
	Name string
	Type seal.MediaType
	Size int64
	// SHA256 is the digest of the file. State is the state of crypto/sha256 after the last byte.
	// The digest of the verified PDF is computed from this state.
	SHA256 [32]byte
	State  []byte
	Key    string
	// Notices are findings of the check at upload that are no reason to refuse the file.
	Notices []seal.Notice
}

// Verified describes the verified PDF.
type Verified struct {
	// TailKey is the key of the tail, or of the whole verified PDF if Whole is true.
	TailKey string
	Whole   bool
	SHA256  [32]byte
	Size    int64
}

// Config has the dependencies of a Service.
type Config struct {
	DB     *db.DB
	Blobs  blob.Store
	Queue  *job.Queue
	Hooks  *webhook.Service
	Sealer Sealer
	// Deletions deletes the files of an erased certificate.
	Deletions *deletion.Service
	// Keys has the institutions' signing keys.
	Keys *authority.Authority
	// TimeStamps adds time stamps to signatures. If it is nil, signatures have only the time of the
	// vault.
	TimeStamps *pades.TimeStampAuthority
	Verify     Verifier
	// VerifyURL returns the address in the QR code of a reference id.
	VerifyURL func(referenceID string) string
	// Drawer draws the originals of certificates from templates. It may be nil if there are no such
	// certificates, or if the Service processes no certificates.
	Drawer Drawer
	// Attempts is the number of attempts at sealing after which a temporary error becomes a failure.
	Attempts int
	// BulkWorkers is the number of batch certificates that a process handles concurrently.
	BulkWorkers int
	// Processors is the maximum number of files that the Sealer handles concurrently, or 0 for no limit.
	// If it is more than 1, the maximum for the files of batches is lower by 1. More workers than
	// processors are useful, because a worker also waits for the disk.
	Processors int
	// Recipient returns the customer number that the recipient with an address has in an
	// institution, or 0 if the address is not verified. It is called in the transaction that creates
	// a certificate. It may be nil.
	Recipient func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (customerID int64, err error)
	// Sheet returns the contents of the verification sheet of a certificate. For a preview, the certificate
	// has no UUID and no address, and its title and name may be empty. Sheet may be nil.
	Sheet func(ctx context.Context, c *Certificate) (*seal.Sheet, error)
	// StatusChanged is called when a certificate is created and for each change of its status by moveTx, in
	// the same transaction. It may be nil.
	StatusChanged TxFunc
	// Expiring is called for certificates that expire soon, in the transaction of their events. It may
	// be nil.
	Expiring func(ctx context.Context, tx *db.Tx, list []*Certificate) error
	// Planned stores the time of the mail to the recipient of a new certificate without a batch, if the mail is
	// not sent at the approval. It is called in the transaction that creates the certificate. It may be nil.
	Planned func(ctx context.Context, tx *db.Tx, c *Certificate, n Notify) error
	// TellRevoked is called with certificates of one institution that were revoked in the same
	// transaction, if their recipients get mail about the revocation. It may be nil.
	TellRevoked func(ctx context.Context, tx *db.Tx, list []*Certificate) error
	// Purged is called before a certificate is deleted, in the same transaction. It may be nil.
	Purged TxFunc
	// Metrics may be nil.
	Metrics *Metrics
	Now     func() time.Time
	// LeaseNow is the clock that decides whether a certificate has expired. All processes on the database
	// share it, so that a wrong clock of one host does not make a certificate valid. If it is nil, it is Now.
	LeaseNow func() time.Time
	Log      *slog.Logger
}

// Service implements the operations on certificates.
type Service struct {
	db          *db.DB
	blobs       blob.Store
	deletions   *deletion.Service
	queue       *job.Queue
	hooks       *webhook.Service
	sealer      Sealer
	keys        *authority.Authority
	timeStamps  *pades.TimeStampAuthority
	verify      Verifier
	verifyURL   func(string) string
	drawer      Drawer
	attempts    int
	jobsPerNode int
	sheet       func(context.Context, *Certificate) (*seal.Sheet, error)
	recipient   func(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error)
	moved       TxFunc
	expiring    func(ctx context.Context, tx *db.Tx, list []*Certificate) error
	plan        func(ctx context.Context, tx *db.Tx, c *Certificate, n Notify) error
	tellRevoked func(ctx context.Context, tx *db.Tx, list []*Certificate) error
	purged      TxFunc
	metrics     *Metrics
	now         func() time.Time
	leaseNow    func() time.Time
	log         *slog.Logger
	images      singleflight.Group
	sealing     *semaphore.Weighted // lets a trial seal its certificate alone; see enter
	checking    *semaphore.Weighted // limits the files that are checked at a time
	processors  processors
	intact      intactFiles
	texts       textCache
	// waitLogged is the time of the last log entry about a store that is full or not available, in
	// microseconds.
	waitLogged atomic.Int64
}

// New returns a service and registers its worker with the queue.
func New(c Config) *Service {
	if c.LeaseNow == nil {
		c.LeaseNow = c.Now
	}
	s := &Service{
		db: c.DB, blobs: c.Blobs, deletions: c.Deletions, queue: c.Queue, hooks: c.Hooks, sealer: c.Sealer, keys: c.Keys, timeStamps: c.TimeStamps,
		verify: c.Verify, verifyURL: c.VerifyURL, drawer: c.Drawer, attempts: c.Attempts, jobsPerNode: jobsPerWorker * max(1, c.BulkWorkers),
		sheet: c.Sheet, recipient: c.Recipient, moved: c.StatusChanged, expiring: c.Expiring, plan: c.Planned, tellRevoked: c.TellRevoked,
		purged: c.Purged, metrics: c.Metrics, now: c.Now, leaseNow: c.LeaseNow, log: c.Log,
		sealing: semaphore.NewWeighted(wholeProcess), checking: semaphore.NewWeighted(maxChecks),
		processors: newProcessors(c.Processors),
	}
	job.Add(c.Queue, &sealWorker{service: s})
	return s
}

// Content is a stored file, open for reading.
type Content struct {
	*io.SectionReader

	// parts are the blobs that the content is read from.
	parts []blob.Object
}

// Close closes all files that the content is read from, and returns the first error.
func (c *Content) Close() error {
	var err error
	for _, x := range c.parts {
		if e := x.Close(); e != nil && err == nil {
			err = e
		}
	}
	return err
}
