package cert

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

// Application is the input of SubmitTx. Package application stores the other data of an application. An
// Acceptance may have another title.
type Application struct {
	Institution            *account.Institution
	Creator                Actor
	Title, FullName, Email string
}

// SubmitTx creates the record of an application, in status pending, with its event. The record has no
// file, and its reference id is not public. If the input is not valid, the error is fault.Invalid with
// all Problems. SubmitTx accepts duplicates of other applications and certificates.
func (s *Service) SubmitTx(ctx context.Context, tx *db.Tx, a Application) (*Certificate, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	c := &Certificate{
		UUID: uuid.Must(uuid.NewV7()).String(), InstitutionID: a.Institution.ID, Source: Customer,
		TriggerContext: CustomerSubmission, EventContext: CustomerSubmission, Creator: a.Creator, CreatedAt: now, UpdatedAt: now,
	}
	var bad Problems
	kept := (&Text{Title: a.Title, FullName: a.FullName, Email: a.Email}).check(&bad, now)
	c.Title, c.FullName, c.Email, c.IssueDate = kept.Title, kept.FullName, kept.Email, kept.IssueDate
	if err := bad.Err(); err != nil {
		return nil, err
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return nil, fmt.Errorf("parsing a checked address: %w", err)
	}
	if c.ReferenceID, err = newReference(a.Institution.Prefix); err != nil {
		return nil, err
	}
	return c, s.insertTx(ctx, tx, c, email, triggerSubmit)
}

// ClaimTx changes the status of a pending application to in_review. It returns ErrInvalidState if the
// application is not pending.
func (s *Service) ClaimTx(ctx context.Context, tx *db.Tx, uuid string) (*Certificate, error) {
	return s.moveTx(ctx, tx, triggerClaim, uuid)
}

// UpdateTx sets UpdatedAt of an application and creates the event of a change, without a change of the
// status. It returns ErrInvalidState if the application is decided.
func (s *Service) UpdateTx(ctx context.Context, tx *db.Tx, uuid string) (*Certificate, error) {
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET updated_at = $1 WHERE uuid = $2 AND source = 'customer' AND status IN ('pending', 'in_review') RETURNING `+Columns,
		db.Micros(s.now()), uuid))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrInvalidState
	}
	if err != nil {
		return nil, fmt.Errorf("changing an application: %w", err)
	}
	return c, s.EmitTx(ctx, tx, c, webhook.Updated)
}

// Acceptance is the certificate that an approved application becomes. It has a File, or a Template with
// the key of its base.
type Acceptance struct {
	Title, FullName, IssueDate, Details, ExpiresOn string
	File                                           *File
	Template                                       *TemplateUse
	BaseKey                                        string
	// Signatories must approve the certificate before it is processed. Without a Template, they are
	// ignored.
	Signatories Signatories
}

// Check replaces the texts with their stored form. It adds the problems of the texts to bad, and a problem
// if there is no File and no Template. email is the applicant's address, and the day of now is the default
// issue date.
func (a *Acceptance) Check(bad *Problems, email string, now time.Time) {
	kept := (&Text{Title: a.Title, FullName: a.FullName, Email: email, IssueDate: a.IssueDate, Details: a.Details, ExpiresOn: a.ExpiresOn}).check(bad, now)
	a.Title, a.FullName, a.IssueDate, a.Details = kept.Title, kept.FullName, kept.IssueDate, kept.Details
	a.ExpiresOn = kept.ExpiresOn
	if a.File == nil && a.Template == nil {
		*bad = append(*bad, Problem{Field: FieldFile, Code: CodeRequired})
	}
}

// AcceptTx approves an application: the certificate is processed, or waits for its signatories. The error
// is fault.Invalid with Problems if Check finds problems, and ErrInvalidState if the application is decided
// or already waits for its signatories.
func (s *Service) AcceptTx(ctx context.Context, tx *db.Tx, uuid string, a Acceptance) (*Certificate, error) {
	c, err := byUUID(ctx, tx, uuid)
	if err != nil {
		return nil, err
	}
	asked, err := Signatures(ctx, tx, c.InstitutionID, c.ID)
	if err != nil {
		return nil, err
	}
	if len(asked) > 0 {
		return nil, ErrInvalidState // the application already waits for its signatories
	}
	var bad Problems
	if a.Check(&bad, c.Email, s.now()); bad.Err() != nil {
		return nil, bad.Err()
	}
	c.Title, c.FullName, c.IssueDate, c.Details, c.ExpiresOn = a.Title, a.FullName, a.IssueDate, a.Details, a.ExpiresOn
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return nil, fmt.Errorf("parsing a stored address: %w", err)
	}
	set := []column{
		{"title", c.Title}, {"full_name", c.FullName}, {"issue_date", c.IssueDate}, {"details", optional(c.Details)}, {"search_text", SearchText(c, email)},
		{"expires_on", optional(c.ExpiresOn)},
	}
	if t := a.Template; t != nil {
		name := fileName(strings.ReplaceAll(c.Title, "/", "-") + ".pdf")
		set = append(set, column{"file_name", name}, column{"mime_type", string(seal.PDF)}, column{"original_key", a.BaseKey},
			column{"template_version_id", t.VersionID}, column{"template_values", string(t.Values)})
	} else {
		notices, err := json.Marshal(append([]seal.Notice{}, a.File.Notices...))
		if err != nil {
			return nil, fmt.Errorf("encoding notices: %w", err)
		}
		set = append(set, column{"file_name", a.File.Name}, column{"mime_type", string(a.File.Type)}, column{"size", a.File.Size},
			column{"sha256", a.File.SHA256[:]}, column{"sha256_state", a.File.State}, column{"original_key", a.File.Key}, column{"notices", string(notices)})
	}
	if len(a.Signatories.Members) == 0 || a.Template == nil {
		return s.moveTx(ctx, tx, triggerAccept, uuid, set...)
	}
	if c, err = s.moveTx(ctx, tx, triggerAsk, uuid, set...); err != nil {
		return nil, err
	}
	return c, s.insertSignaturesTx(ctx, tx, c, a.Signatories)
}

// closings are the triggers that end an application without a certificate.
var closings = map[Status]trigger{Rejected: triggerReject, Withdrawn: triggerWithdraw, Lapsed: triggerExpire}

// CloseTx ends an application without a certificate. to is Rejected, Withdrawn or Lapsed, and reason is the
// reason of a rejection. After that, ByUUID, lists and public pages do not find the record. CloseTx returns
// ErrInvalidState if the application is decided.
func (s *Service) CloseTx(ctx context.Context, tx *db.Tx, uuid string, to Status, reason string) (*Certificate, error) {
	return s.moveTx(ctx, tx, closings[to], uuid, column{"source", string(closed)}, column{"revocation_reason", optional(reason)})
}

// ForgetTx deletes the record of a closed application and its events. If an event is not delivered yet,
// ForgetTx removes only its personal data. ForgetTx returns ErrInvalidState if the application is not closed.
func (s *Service) ForgetTx(ctx context.Context, tx *db.Tx, uuid string) error {
	c, err := byUUID(ctx, tx, uuid)
	if err != nil {
		return err
	}
	if c.Source != closed {
		return ErrInvalidState
	}
	if err := s.purged.runTx(ctx, tx, c); err != nil {
		return err
	}
	if err := s.hooks.EraseTx(ctx, tx, c.ID); err != nil {
		return err
	}
	if err := deleteSignaturesTx(ctx, tx, c.ID); err != nil {
		return err
	}
	// Other systems may have stored the id, so SQLite must not assign it again.
	if err := db.KeepIDTx(ctx, tx, "certificates", c.ID); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, `DELETE FROM certificates WHERE id = $1`, c.ID); err != nil {
		return fmt.Errorf("deleting a closed application: %w", err)
	}
	return nil
}
