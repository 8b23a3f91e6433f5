// Package template manages the templates of institutions: their versions, designs, fonts and pictures,
// and the certificates that are issued from them. It checks all entries of a list before it stores any of
// them, and draws the originals for package cert.
//
// A version is a draft, published or retired. Each change of a draft increases its revision, so that
// two people cannot overwrite each other's changes. The design and the fields of a published version
// never change: changing the template creates the next draft. Publishing draws the base, which all
// certificates of the version share, and checks that the QR code can be read on certificates.
//
// Package design draws certificates and decides whether a text fits. Package batch stores the entries of a
// list until they are certificates.
package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/typeset"
)

// State is the state of a version.
type State string

// These are the states of a version.
const (
	// StateDraft versions can be changed, and no certificate is made from them.
	StateDraft State = "draft"
	// StatePublished versions are used to issue certificates.
	StatePublished State = "published"
	// StateRetired versions were published earlier. Their certificates do not change.
	StateRetired State = "retired"
)

// MaxEntries is the maximum number of entries of Issue.
const MaxEntries = batch.MaxEntries

// Template is a template of an institution.
type Template struct {
	ID            int64
	UUID          string
	InstitutionID int64
	Name          string
	// Draft and Published are the draft and the published version of the template. Each is nil if there is
	// none.
	Draft, Published *Version
	// Issued is the number of certificates that were issued from the template, singly or as entries of
	// batches. Only Service.CountIssued sets it.
	Issued     int
	ArchivedAt *time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Latest returns the draft, or the published version if there is no draft.
func (t *Template) Latest() *Version {
	if t.Draft != nil {
		return t.Draft
	}
	return t.Published
}

// Version is a version of a template.
type Version struct {
	ID int64
	// Number counts the versions of the template, from 1.
	Number int
	State  State
	// Revision increases with each change of the draft, and does not start again with the next draft. A
	// change names the revision on which it is based.
	Revision int64
	// Pages are the sizes of the pages of the design.
	Pages  []design.Page
	Layout design.Layout
	// Warnings are remarks about the design.
	Warnings []design.Warning
	// Signatories are the members who must approve each certificate, in the order of their index. If
	// InOrder is true, each signatory is asked after the previous one has approved.
	Signatories []Signatory
	InOrder     bool
	// PublishedAt is nil for a draft. PublishedBy is the name of the actor who published the version.
	PublishedAt *time.Time
	PublishedBy string
	CreatedAt   time.Time
	UpdatedAt   time.Time

	templateID    int64
	institutionID int64
	designKey     string
	baseKey       string
	fonts         []string // digests in hexadecimal
}

// DesignID returns an identifier of the design of the version.
func (v *Version) DesignID() string {
	sum := sha256.Sum256([]byte(v.designKey))
	return hex.EncodeToString(sum[:8])
}

// Sealer makes verified PDFs and pictures of pages. seal.Sealer implements it.
type Sealer interface {
	Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error)
	// Page renders a page of a PDF as PNG. Pages count from 1, and the longer side has side pixels.
	Page(ctx context.Context, r io.ReaderAt, size int64, page, side int) ([]byte, error)
}

// Config has the dependencies of a Service.
type Config struct {
	DB     *db.DB
	Blobs  blob.Store
	Sealer Sealer
	// Fonts are the fonts of the vault. If Fonts is nil, templates cannot be drawn.
	Fonts   *typeset.Fonts
	Certs   *cert.Service
	Batches *batch.Service
	Search  *search.Service
	// VerifyURL returns the address in the QR code of the certificate with the given reference id.
	VerifyURL func(referenceID string) string
	Now       func() time.Time
	Log       *slog.Logger
}

// Service provides the operations on templates.
type Service struct {
	db        *db.DB
	blobs     blob.Store
	sealer    Sealer
	fonts     *typeset.Fonts
	certs     *cert.Service
	batches   *batch.Service
	search    *search.Service
	verifyURL func(string) string
	now       func() time.Time
	log       *slog.Logger

	opened     opened
	gallery    gallery
	signatures signatureCache
	// designing limits the number of designs that are read, published or drawn at a time, because each may
	// need several times its size in memory.
	designing *semaphore.Weighted
	// decoding limits the number of uploaded pictures that are decoded at a time.
	decoding *semaphore.Weighted
}

// maxDesigning is the maximum number of designs that are read, published or drawn at a time.
const maxDesigning = 2

// New returns a service.
func New(c Config) *Service {
	return &Service{
		db: c.DB, blobs: c.Blobs, sealer: c.Sealer, fonts: c.Fonts, certs: c.Certs, batches: c.Batches, search: c.Search, verifyURL: c.VerifyURL, now: c.Now, log: c.Log,
		designing: semaphore.NewWeighted(maxDesigning), decoding: semaphore.NewWeighted(1),
	}
}

// These are errors of several operations on templates.
var (
	errNotFound    = fault.New(fault.NotFound, "There is no such template.")
	errNoFont      = fault.New(fault.NotFound, "There is no such font.")
	errNoPicture   = fault.New(fault.NotFound, "There is no such picture.")
	errNoPage      = fault.New(fault.NotFound, "There is no such page.")
	errRevision    = fault.New(fault.Conflict, "The template has changed in the meantime. Reload the page to see the changes.")
	errNoDraft     = fault.New(fault.BadRequest, "The template has no draft. Reload the page to see the current version.")
	errUnavailable = fault.New(fault.Unavailable, "This vault cannot draw certificates.")
	errArchived    = fault.New(fault.BadRequest, "The template is archived. Restore it first.")
)

// Unusable is the cause of a fault of kind Invalid if no certificate can be issued from a template.
type Unusable struct {
	// Code is CodeNotPublished or CodeArchived.
	Code cert.Code
}

// Error returns the code.
func (u *Unusable) Error() string { return string(u.Code) }

func unusable(code cert.Code, message string) error {
	return &fault.Error{Kind: fault.Invalid, Fields: []fault.Field{{Name: "template", Messages: []string{message}}}, Err: &Unusable{code}}
}

// The codes of problems of this package, in addition to those of packages cert and design.
const (
	// CodeNotPublished means that the template has no published version.
	CodeNotPublished cert.Code = "template_not_published"
	// CodeArchived means that the template is archived.
	CodeArchived cert.Code = "template_archived"
	// CodeSameEntry means that an entry would become the same certificate as the entry with the index
	// Limit, from 0.
	CodeSameEntry cert.Code = "same_entry"
	// CodeQRNotReadable means that the QR code cannot be read at its place on the design.
	CodeQRNotReadable = "qr_not_readable"
)

// Filter selects the templates that List returns.
type Filter struct {
	// Archived selects the archived templates. Without it, List returns the templates that are not
	// archived.
	Archived bool
	// Search selects templates whose name contains the text.
	Search string
}

// NewTemplate is the input of Create. It has a Design or the name of a BuiltIn design.
type NewTemplate struct {
	Institution *account.Institution
	Name        string
	// Design is a PDF, PNG or JPEG.
	Design io.Reader
	// BuiltIn is the name of a built-in design. Paper is its paper, "a4" or "letter". Accent is its colour
	// as "#rrggbb", or "" for the colour of the institution. For a PNG or JPEG, Paper is the format of the
	// page: "a4", "letter", "16:9", or "" for the size of the picture.
	BuiltIn, Paper, Accent string
	// Language is the tag of the language of the texts of a built-in design. The default is English.
	Language string
}

// Draft is the input of Save.
type Draft struct {
	// Revision is the revision on which the changes are based: that of the draft, or of the published
	// version if there is no draft.
	Revision int64
	// Name is the name of the template. If it is empty, the name does not change.
	Name   string
	Layout design.Layout
}

// Font is a font that an institution uploaded.
type Font struct {
	// ID is the digest of the file in hexadecimal.
	ID         string
	FileName   string
	Size       int64
	Info       typeset.Info
	UploadedBy string
	CreatedAt  time.Time

	key string
}

// Entry is a row of a list: the texts of one certificate.
type Entry struct {
	FullName, Email, Title, IssueDate, Details, ExpiresOn string
	// Values maps the names of the columns to their values.
	Values map[string]string
}

// Of returns a pointer to the text of a field, or nil if an entry does not have the field.
func (e *Entry) Of(f cert.Field) *string {
	switch f { //nolint:exhaustive // the other fields are those of other operations
	case cert.FieldTitle:
		return &e.Title
	case cert.FieldName:
		return &e.FullName
	case cert.FieldEmail:
		return &e.Email
	case cert.FieldIssueDate:
		return &e.IssueDate
	case cert.FieldDetails:
		return &e.Details
	case cert.FieldExpiresOn:
		return &e.ExpiresOn
	}
	return nil
}

// RowProblem is a problem of an entry, or of all entries if Entry is batch.NoEntry. Field is a field of
// cert.Fields, the result of ValueField for a column, cert.FieldNotify, or "" for other problems. The codes
// are those of packages cert, batch and design, and of this package. For design.CodeNoRoom, Detail is the
// label or the id of the field of the template.
type RowProblem = batch.Problem

// ValueField returns the field of a problem of the value of a column.
func ValueField(column string) cert.Field { return cert.Field(valuePrefix + column) }

const valuePrefix = "values."

// Issue is the input of Service.Issue.
type Issue struct {
	Institution *account.Institution
	Creator     cert.Actor
	// Context is the trigger context of the certificates. The default is cert.FromTemplate.
	Context cert.TriggerContext
	// Name is the name of the batch. If it is empty, the batch gets a name with the time.
	Name    string
	Entries []Entry
	// Indexes are the indexes of the entries in the batch. If it is nil, the index of an entry is its
	// position in Entries.
	Indexes []int
	// VersionID is the id of the published or retired version from which the certificates are made, or 0
	// for the published version.
	VersionID int64
	// AllowDuplicates accepts entries whose certificate exists already or would be the same as that of an
	// earlier entry. The batch rejects these entries later, and issues certificates for all others.
	AllowDuplicates bool
	// Notify is the time of the mail to the recipients.
	Notify cert.Notify
	// Then runs in the transaction that accepts the batch. It may be nil.
	Then func(ctx context.Context, tx *db.Tx, b *batch.Batch) error
}
