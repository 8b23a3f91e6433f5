package cert

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/seal"
)

// Upload is the input of a new certificate.
type Upload struct {
	Institution *account.Institution
	Creator     Actor
	Context     TriggerContext
	// BatchID is the UUID of the batch of the certificate, or "" for a single upload.
	BatchID string

	Title, FullName, Email, IssueDate, Details, ExpiresOn string

	// File is the received file, or nil. FileProblem is the problem of a file that was refused.
	File        *File
	FileProblem *Problem
	// Wanted is the requested placement of the stamp, or nil for the institution's policy.
	Wanted *RequestedPlacement

	// Template and BaseKey, the key of the template's base, replace the file if the certificate is
	// made from a template. The caller must check that the certificate can be drawn.
	Template *TemplateUse
	BaseKey  string
	// Signatories must approve the certificate before it is processed.
	Signatories Signatories
	// Notify is the time of the mail to the recipient. CreateTx does not store it, because the time
	// is stored for the whole batch.
	Notify Notify

	// replaced is the certificate that Replace replaces.
	replaced *Certificate

	// Then runs in the transaction of Upload, Replace or ReplaceTx. It may be nil. CreateTx does not use Then.
	Then TxFunc
}

// TxFunc is a function that a caller adds to the transaction of an operation. Its changes are
// committed if and only if the operation is committed. It must be quick, because SQLite has one
// writer at a time.
type TxFunc func(ctx context.Context, tx *db.Tx, c *Certificate) error

func (f TxFunc) runTx(ctx context.Context, tx *db.Tx, c *Certificate) error {
	if f == nil {
		return nil
	}
	return f(ctx, tx, c)
}

// Upload creates a certificate in status processing, its event, its job and its entry in the audit log.
// A certificate with signatories has the status pending, and no job. The error is fault.Invalid with
// Problems for bad input or a duplicate, and fault.Forbidden if a limit of the institution is reached. The
// database detects duplicates, so that only one of several concurrent uploads of a certificate succeeds.
func (s *Service) Upload(ctx context.Context, u Upload) (*Certificate, error) {
	c, email, err := s.validate(&u)
	if err != nil {
		return nil, err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := quota.CheckTx(ctx, tx, u.Institution, s.now(), 1, c.File.Size); err != nil {
			return err
		}
		if err := s.insertUploadTx(ctx, tx, c, email, u.Signatories); err != nil {
			return err
		}
		if err := storePlacementTx(ctx, tx, c.ID, u.Wanted); err != nil {
			return err
		}
		if err := s.planTx(ctx, tx, c, u.Notify); err != nil {
			return err
		}
		if err := recordTx(ctx, tx, audit.CertificateUploaded, c, nil); err != nil {
			return err
		}
		return u.Then.runTx(ctx, tx, c)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// CreateTx creates a certificate of a batch as Upload does, in the caller's transaction. The
// transaction can continue after an error of kind Invalid. CreateTx checks no limit, and creates no job and
// no entry in the audit log. FeedTx creates the job later.
func (s *Service) CreateTx(ctx context.Context, tx *db.Tx, u Upload) (*Certificate, error) {
	c, email, err := s.validate(&u)
	if err != nil {
		return nil, err
	}
	if err := s.insertUploadTx(ctx, tx, c, email, u.Signatories); err != nil {
		return nil, err
	}
	return c, storePlacementTx(ctx, tx, c.ID, u.Wanted)
}

// insertUploadTx stores a certificate as insertTx does, and the requests to its signatories.
func (s *Service) insertUploadTx(ctx context.Context, tx *db.Tx, c *Certificate, email account.Email, who Signatories) error {
	if len(who.Members) == 0 {
		return s.insertTx(ctx, tx, c, email, triggerUpload)
	}
	if err := s.insertTx(ctx, tx, c, email, triggerSubmit); err != nil {
		return err
	}
	return s.insertSignaturesTx(ctx, tx, c, who)
}

func (s *Service) validate(u *Upload) (*Certificate, account.Email, error) {
	var bad Problems
	now := s.now().UTC().Truncate(time.Microsecond)
	c := &Certificate{
		UUID: uuid.Must(uuid.NewV7()).String(), InstitutionID: u.Institution.ID, Source: Vault,
		TriggerContext: u.Context, EventContext: u.Context, BatchID: u.BatchID, Creator: u.Creator, CreatedAt: now, UpdatedAt: now,
	}
	kept := (&Text{Title: u.Title, FullName: u.FullName, Email: u.Email, IssueDate: u.IssueDate, Details: u.Details, ExpiresOn: u.ExpiresOn}).check(&bad, now)
	c.Title, c.FullName, c.Email, c.IssueDate, c.Details = kept.Title, kept.FullName, kept.Email, kept.IssueDate, kept.Details
	c.ExpiresOn = kept.ExpiresOn
	switch {
	case u.Template != nil:
		c.Source, c.Template = Template, &TemplateUse{VersionID: u.Template.VersionID, Values: u.Template.Values}
		c.File = File{Name: fileName(strings.ReplaceAll(c.Title, "/", "-") + ".pdf"), Type: seal.PDF, Key: u.BaseKey}
	case u.FileProblem != nil:
		bad = append(bad, *u.FileProblem)
	case u.File == nil:
		bad = append(bad, Problem{Field: FieldFile, Code: CodeRequired})
	default:
		c.File, c.Notices = *u.File, u.File.Notices
	}
	if p := u.Notify.Check(now); p != nil {
		bad = append(bad, *p)
	}
	if old := u.replaced; old != nil {
		c.Replaces, c.lineage = &Link{UUID: old.UUID, ReferenceID: old.ReferenceID}, old.root()
		if same := c.sameAs(old); same != nil {
			bad = append(bad, *same)
		}
	}
	if err := bad.Err(); err != nil {
		return nil, account.Email{}, err
	}
	if u.Wanted != nil {
		if err := u.Wanted.Check(); err != nil {
			return nil, account.Email{}, err
		}
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return nil, email, fmt.Errorf("parsing a checked address: %w", err)
	}
	c.ReferenceID, err = newReference(u.Institution.Prefix)
	return c, email, err
}

// fileName returns a file's name without the path, which some browsers send, and without control characters
// and invalid UTF-8. It shortens a name of more than maxFileName code points.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, strings.ToValidUTF8(path.Base(strings.ReplaceAll(name, `\`, "/")), ""))
	if runes := []rune(name); len(runes) > maxFileName {
		// The beginning of the name is removed, because the type of the file must match its extension.
		name = string(runes[len(runes)-maxFileName:])
	}
	return name
}

// insertTx stores a certificate with its event. If the certificate is in processing and in no batch, insertTx
// also creates its job. It returns an error of kind Invalid for a duplicate. If the caller commits the
// transaction after this error, the job remains without a certificate, and sealWorker.Work ignores it.
func (s *Service) insertTx(ctx context.Context, tx *db.Tx, c *Certificate, email account.Email, by trigger) (err error) {
	row := transitionOf(by)
	c.Status = row.To
	notices, err := json.Marshal(append([]seal.Notice{}, c.Notices...))
	if err != nil {
		return fmt.Errorf("encoding notices: %w", err)
	}
	if s.recipient != nil {
		if c.CustomerID, err = s.recipient(ctx, tx, c.InstitutionID, email.Folded); err != nil {
			return err
		}
	}
	var jobID any
	if row.Seals && c.BatchID == "" {
		if c.jobID, err = s.queue.InsertTx(ctx, tx, sealArgs{UUID: c.UUID}, s.sealOptions(SealQueue)); err != nil {
			return err
		}
		jobID = c.jobID
	}
	digest, state := c.File.SHA256[:], c.File.State
	var version sql.NullInt64
	var values sql.NullString
	if !c.HasDigest() {
		digest, state = []byte{}, []byte{}
	}
	if t := c.Template; t != nil {
		version, values = sql.NullInt64{Int64: t.VersionID, Valid: true}, sql.NullString{String: string(t.Values), Valid: t.Values != nil}
	}
	link := Link{}
	if c.Replaces != nil {
		link = *c.Replaces
	}
	// A conflict returns no row. An error of the statement would abort the transaction on
	// PostgreSQL.
	column, id := db.NewID(tx, "certificates")
	err = tx.QueryRowContext(ctx, `
		INSERT INTO certificates (`+column+`uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date, details,
			search_text, source, trigger_context, event_context, status, batch_id, creator_type, creator_id, creator_name,
			file_name, mime_type, size, sha256, sha256_state, original_key, notices, job_id, created_at, updated_at, customer_id,
			template_version_id, template_values, replaces, replaces_reference, lineage, expires_on)
		VALUES (`+id+`$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $28,
			$29, $30, $31, $32, $33, $34, $35)
		ON CONFLICT (institution_id, email_folded, title, issue_date) WHERE source IN ('vault', 'template') AND NOT yields DO NOTHING
		RETURNING id`,
		c.UUID, c.InstitutionID, c.ReferenceID, FoldReference(c.ReferenceID), c.Title, c.FullName, c.Email, email.Folded, c.IssueDate, optional(c.Details),
		SearchText(c, email), string(c.Source), string(c.TriggerContext), string(c.EventContext), string(c.Status), optional(c.BatchID),
		c.Creator.Type, c.Creator.ID, c.Creator.Name,
		c.File.Name, string(c.File.Type), c.File.Size, digest, state, c.File.Key, string(notices), jobID, db.Micros(c.CreatedAt),
		sql.NullInt64{Int64: c.CustomerID, Valid: c.CustomerID != 0}, version, values,
		optional(link.UUID), optional(link.ReferenceID), optional(c.lineage), optional(c.ExpiresOn)).Scan(&c.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return duplicateTx(ctx, tx, c, email)
	}
	if err != nil {
		return fmt.Errorf("storing a certificate: %w", err)
	}
	return s.movedTx(ctx, tx, row, c)
}

// duplicateTx returns the error for a certificate with the address, title and date of an existing
// certificate. Its Problem has the UUID of the existing certificate.
func duplicateTx(ctx context.Context, tx *db.Tx, c *Certificate, email account.Email) error {
	var existing string
	if err := tx.QueryRowContext(ctx, `
		SELECT uuid FROM certificates WHERE institution_id = $1 AND email_folded = $2 AND title = $3 AND issue_date = $4 AND source IN ('vault', 'template') AND NOT yields`,
		c.InstitutionID, email.Folded, c.Title, c.IssueDate).Scan(&existing); err != nil {
		return fmt.Errorf("reading the existing certificate: %w", err)
	}
	return Problems{{Field: FieldEmail, Code: CodeDuplicate, Detail: existing}}.Err()
}
