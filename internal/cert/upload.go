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
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

const (
	maxText    = 255
	maxDetails = 1000
	dateLayout = time.DateOnly
)

// Upload is what a certificate is made from.
type Upload struct {
	Institution *account.Institution
	Creator     Actor
	Context     TriggerContext

	Title, FullName, Email, IssueDate, Details string

	// File is the received file, nil when none came; FileError is why one that
	// came was refused.
	File      *File
	FileError string

	// Then may be nil.
	Then Then
}

// Then is what a caller does in the transaction of a deed, so that it stands if
// and only if the deed does. It must be quick: on SQLite nobody else writes
// meanwhile.
type Then func(ctx context.Context, tx *db.Tx, c *Certificate) error

func (f Then) runTx(ctx context.Context, tx *db.Tx, c *Certificate) error {
	if f == nil {
		return nil
	}
	return f(ctx, tx, c)
}

// Upload makes a certificate in status processing, its event and its job. An
// input that breaks a rule is Invalid with every field that does; so is a
// duplicate, which the database alone decides, so that of many at once one
// wins.
func (s *Service) Upload(ctx context.Context, u Upload) (*Certificate, error) {
	c, email, err := s.validate(&u)
	if err != nil {
		return nil, err
	}
	notices, err := json.Marshal(append([]seal.Notice{}, c.Notices...))
	if err != nil {
		return nil, fmt.Errorf("writing notices: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.insertTx(ctx, tx, c, email, string(notices)); err != nil {
			return err
		}
		return u.Then.runTx(ctx, tx, c)
	})
	if db.UniqueOn(err, "certificates", "email_folded") {
		return nil, s.duplicate(ctx, c, email, err)
	}
	if err != nil {
		return nil, fmt.Errorf("storing a certificate: %w", err)
	}
	return c, nil
}

func (s *Service) validate(u *Upload) (*Certificate, account.Email, error) {
	var bad fault.Fields
	now := s.now().UTC().Truncate(time.Microsecond)
	c := &Certificate{
		UUID: uuid.Must(uuid.NewV7()).String(), InstitutionID: u.Institution.ID, Source: Vault,
		TriggerContext: u.Context, EventContext: u.Context, Creator: u.Creator, CreatedAt: now, UpdatedAt: now,
	}
	c.Title = text(&bad, "certificate_title", u.Title, maxText, true)
	c.FullName = text(&bad, "full_name", u.FullName, maxText, true)
	c.Email = text(&bad, "applicant_email", u.Email, maxText, true)
	var email account.Email
	if c.Email != "" {
		var err error
		if email, err = account.ParseEmail(c.Email); err != nil {
			bad.Add("applicant_email", "The applicant email field must be a valid email address.")
		}
	}
	c.IssueDate = text(&bad, "issue_date", u.IssueDate, maxText, false)
	if c.IssueDate == "" {
		c.IssueDate = now.Format(dateLayout)
	} else if _, err := time.Parse(dateLayout, c.IssueDate); err != nil {
		bad.Add("issue_date", "The issue date field must be a date that exists, as YYYY-MM-DD.")
	}
	c.Details = text(&bad, "details", u.Details, maxDetails, false)
	switch {
	case u.FileError != "":
		bad.Add("certificate_file", u.FileError)
	case u.File == nil:
		bad.Add("certificate_file", "The certificate file field is required.")
	default:
		c.File, c.Notices = *u.File, u.File.Notices
	}
	if err := bad.Err(); err != nil {
		return nil, account.Email{}, err
	}
	var err error
	c.ReferenceID, err = newReference(u.Institution.Prefix)
	return c, email, err
}

// text takes white space off both ends and checks that what is left can be
// kept; lengths count code points.
func text(bad *fault.Fields, field, value string, limit int, required bool) string {
	value = strings.TrimSpace(value)
	label := strings.ReplaceAll(field, "_", " ")
	switch {
	case !account.CleanText(value):
		bad.Add(field, "The "+label+" field must be text in UTF-8 without NUL characters.")
		return ""
	case value == "" && required:
		bad.Add(field, "The "+label+" field is required.")
	case utf8.RuneCountInString(value) > limit:
		bad.Add(field, fmt.Sprintf("The %s field must not be greater than %d characters.", label, limit))
		return ""
	}
	return value
}

// fileName takes the path off a file's name, as some browsers send it, and
// what cannot be stored out of it.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, strings.ToValidUTF8(path.Base(strings.ReplaceAll(name, `\`, "/")), ""))
	if runes := []rune(name); len(runes) > maxFileName {
		// The extension decides the type, so it is the beginning that is cut.
		name = string(runes[len(runes)-maxFileName:])
	}
	return name
}

func (s *Service) insertTx(ctx context.Context, tx *db.Tx, c *Certificate, email account.Email, notices string) error {
	row := transition(TriggerUpload)
	c.Status = row.To
	var err error
	if c.jobID, err = s.queue.InsertTx(ctx, tx, sealArgs{UUID: c.UUID}, s.sealOptions()); err != nil {
		return err
	}
	now := db.Micros(c.CreatedAt)
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date, details,
			search_text, source, trigger_context, event_context, status, batch_id, creator_type, creator_id, creator_name,
			file_name, mime_type, size, sha256, sha256_state, original_key, notices, job_id, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $28)
		RETURNING id`,
		c.UUID, c.InstitutionID, c.ReferenceID, FoldReference(c.ReferenceID), c.Title, c.FullName, c.Email, email.Folded, c.IssueDate, optional(c.Details),
		searchText(c, email), string(c.Source), string(c.TriggerContext), string(c.EventContext), string(c.Status), optional(c.BatchID),
		c.Creator.Type, c.Creator.ID, c.Creator.Name,
		c.File.Name, string(c.File.Type), c.File.Size, c.File.SHA256[:], c.File.State, c.File.Key, notices, c.jobID, now).Scan(&c.ID); err != nil {
		return err
	}
	return s.movedTx(ctx, tx, row, c)
}

// duplicate makes the refusal of a second upload of the same certificate,
// which names the first.
func (s *Service) duplicate(ctx context.Context, c *Certificate, email account.Email, cause error) error {
	var existing string
	err := s.db.QueryRowContext(ctx, `
		SELECT uuid FROM certificates WHERE institution_id = $1 AND email_folded = $2 AND title = $3 AND issue_date = $4 AND source = 'vault'`,
		c.InstitutionID, email.Folded, c.Title, c.IssueDate).Scan(&existing)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("looking for the duplicate: %w", err)
	}
	const message = "A vault certificate with this email, title, and issue date already exists"
	return &fault.Error{
		Kind: fault.Invalid, Message: message, Err: cause,
		Fields: []fault.Field{{Name: "applicant_email", Messages: []string{message}}, {Name: "existing_uuid", Messages: []string{existing}}},
	}
}
