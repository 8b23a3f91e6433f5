package cert

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/quota"
)

// A replacement is a certificate that is made in place of another one. The transaction that approves the
// replacement revokes the other certificate; see endReplacedTx. A replacement that fails, or that is
// revoked before its approval, does not change the other certificate, which can be replaced again. See
// ADR 0043.

// Link is a reference to another certificate.
type Link struct{ UUID, ReferenceID string }

// linkOf returns the link in two columns, or nil.
func linkOf(uuid, reference sql.NullString) *Link {
	if !uuid.Valid {
		return nil
	}
	return &Link{UUID: uuid.String, ReferenceID: reference.String}
}

// Replaced reports whether the certificate was replaced by another one.
func (c *Certificate) Replaced() bool { return c.Status == Revoked && c.ReplacedBy != nil }

// root returns the UUID of the first certificate in the chain of replacements of c.
func (c *Certificate) root() string {
	if c.lineage != "" {
		return c.lineage
	}
	return c.UUID
}

// Text returns the fields of the certificate other than its file.
func (c *Certificate) Text() Text {
	return Text{Title: c.Title, FullName: c.FullName, Email: c.Email, IssueDate: c.IssueDate, Details: c.Details, ExpiresOn: c.ExpiresOn}
}

// RenewedUntil returns the last day of validity of a renewal of the certificate that is issued on day, in
// the form YYYY-MM-DD. The renewal has the same period of validity as the certificate. RenewedUntil returns
// "" for a certificate that does not expire.
func (c *Certificate) RenewedUntil(day string) (string, error) {
	if c.ExpiresOn == "" {
		return "", nil
	}
	var dates [3]time.Time
	for i, text := range []string{c.IssueDate, c.ExpiresOn, day} {
		var err error
		if dates[i], err = time.Parse(dateLayout, text); err != nil {
			return "", fmt.Errorf("renewing the period of validity: %w", err)
		}
	}
	issued, expires, renewed := dates[0], dates[1], dates[2]
	// Most periods are whole months or years, which end on the same day of a month or on the day before.
	months := 12*(expires.Year()-issued.Year()) + int(expires.Month()-issued.Month())
	for _, m := range []int{months, months + 1} {
		for _, days := range []int{0, -1} {
			if issued.AddDate(0, m, days).Equal(expires) {
				return renewed.AddDate(0, m, days).Format(dateLayout), nil
			}
		}
	}
	return renewed.Add(expires.Sub(issued)).Format(dateLayout), nil
}

// Replaceable reports whether the state of the certificate allows a replacement. It does not check whether
// a replacement is already being made. A replacement cannot be replaced before it is approved.
func (c *Certificate) Replaceable() bool {
	switch c.Status {
	case Approved:
		return true
	case Processing, Failed:
		return c.Replaces == nil
	case Pending:
		return c.Replaces == nil && c.Source == Template
	default:
		return false
	}
}

var errInvalidOperation = fault.New(fault.BadRequest, "Invalid operation")

// Replace is like Upload, but creates a replacement of a certificate of u.Institution. The caller must
// also set the fields of u that do not change. Replace returns NotFound for an unknown certificate, and
// BadRequest if the certificate cannot be replaced or is being replaced. It returns Invalid with Problems
// for invalid input, for the file of the replaced certificate, and for a duplicate of a certificate outside
// the chain of replacements. It returns Forbidden if a limit of the institution is reached.
func (s *Service) Replace(ctx context.Context, uuid string, u Upload) (c *Certificate, err error) {
	// Invalid input is refused before the transaction begins, so that it locks nothing.
	if c, err = s.ByUUID(ctx, u.Institution.ID, uuid); err != nil {
		return nil, err
	}
	if !c.Replaceable() {
		return nil, errInvalidOperation
	}
	u.replaced = c
	if _, _, err := s.validate(&u); err != nil {
		return nil, err
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		c, err = s.ReplaceTx(ctx, tx, uuid, u)
		return err
	}); err != nil {
		return nil, err
	}
	return c, nil
}

// ReplaceTx is Replace in the caller's transaction. The transaction can continue after an error of kind
// NotFound, BadRequest, Forbidden or Invalid, unless u.Then returned the error.
func (s *Service) ReplaceTx(ctx context.Context, tx *db.Tx, uuid string, u Upload) (*Certificate, error) {
	// The lock makes a concurrent revocation, approval or replacement of the certificate wait.
	old, err := lockTx(ctx, tx, u.Institution.ID, uuid)
	if err != nil {
		return nil, err
	}
	if !old.Replaceable() {
		return nil, errInvalidOperation
	}
	// The unique index on replaces enforces the same rule, but on PostgreSQL its error would end the
	// transaction.
	var going bool
	if err := tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM certificates WHERE lineage = $1 AND replaces = $2 AND status IN ('pending', 'in_review', 'processing', 'approved'))`,
		old.root(), old.UUID).Scan(&going); err != nil {
		return nil, fmt.Errorf("reading the replacements of a certificate: %w", err)
	}
	if going {
		return nil, errInvalidOperation
	}
	u.replaced = old
	c, email, err := s.validate(&u)
	if err != nil {
		return nil, err
	}
	if err := quota.CheckTx(ctx, tx, u.Institution, s.now(), 1, c.File.Size); err != nil {
		return nil, err
	}
	if err := yieldTx(ctx, tx, c, email, old); err != nil {
		return nil, err
	}
	if err := s.insertUploadTx(ctx, tx, c, email, u.Signatories); err != nil {
		return nil, err
	}
	if err := storePlacementTx(ctx, tx, c.ID, u.Wanted); err != nil {
		return nil, err
	}
	if err := s.planTx(ctx, tx, c, u.Notify); err != nil {
		return nil, err
	}
	if err := recordTx(ctx, tx, audit.CertificateUploaded, c, audit.Detail{"replaces": old.ReferenceID}); err != nil {
		return nil, err
	}
	old.UpdatedAt = c.CreatedAt
	if err := recordTx(ctx, tx, audit.CertificateReplaced, old, audit.Detail{"replaced_by": c.ReferenceID}); err != nil {
		return nil, err
	}
	return c, u.Then.runTx(ctx, tx, c)
}

// lockTx locks a certificate of an institution until the end of the transaction, and returns its current
// record.
func lockTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string) (*Certificate, error) {
	// An update locks the row on both databases. No database trigger depends on this column.
	return scanRow(tx.QueryRowContext(ctx, `UPDATE certificates SET customer_id = customer_id
		WHERE uuid = $1 AND institution_id = $2 AND source <> 'closed' RETURNING `+Columns, uuid, institutionID))
}

// sameAs returns a problem if the replacement c has the file of the certificate old, and nil otherwise. An
// uploaded file must differ from the original and from the verified PDF of old. A certificate from a
// template must differ in the version of the template, in the values or in the texts.
func (c *Certificate) sameAs(old *Certificate) *Problem {
	same := false
	switch {
	case c.Template == nil:
		same = old.HasDigest() && c.File.SHA256 == old.File.SHA256 || old.Verified != nil && c.File.SHA256 == old.Verified.SHA256
	case old.Template != nil:
		same = c.Template.VersionID == old.Template.VersionID && bytes.Equal(c.Template.Values, old.Template.Values) && c.Text() == old.Text()
	}
	if !same {
		return nil
	}
	return &Problem{Field: FieldFile, Code: CodeSameFile}
}

// yieldTx sets yields for the certificate in the chain of old that has the address, title and issue date of
// the new replacement c. The insertion of c then does not find that certificate as a duplicate. A certificate
// outside the chain with the same values remains a duplicate.
func yieldTx(ctx context.Context, tx *db.Tx, c *Certificate, email account.Email, old *Certificate) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE certificates SET yields = TRUE
		WHERE institution_id = $1 AND email_folded = $2 AND title = $3 AND issue_date = $4 AND source IN ('vault', 'template') AND NOT yields
			AND coalesce(lineage, uuid) = $5`, c.InstitutionID, email.Folded, c.Title, c.IssueDate, old.root())
	if err != nil {
		return fmt.Errorf("preparing a replacement: %w", err)
	}
	return nil
}

// unyieldTx resets yields for the newest certificate in the chain of c that has the address, title and issue
// date of c. It does nothing if another certificate with these values does not yield. c is the record before
// its address changed or before it was deleted.
func unyieldTx(ctx context.Context, tx *db.Tx, c *Certificate) error {
	if c.lineage == "" {
		return nil // no certificate yields to the first one of a chain
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return fmt.Errorf("parsing a stored address: %w", err)
	}
	const values = `institution_id = $1 AND email_folded = $2 AND title = $3 AND issue_date = $4 AND source IN ('vault', 'template')`
	_, err = tx.ExecContext(ctx, `
		UPDATE certificates SET yields = FALSE
		WHERE id = (SELECT max(id) FROM certificates WHERE `+values+` AND yields AND (uuid = $5 OR lineage = $5))
			AND NOT EXISTS (SELECT 1 FROM certificates WHERE `+values+` AND NOT yields)`,
		c.InstitutionID, email.Folded, c.Title, c.IssueDate, c.lineage)
	if err != nil {
		return fmt.Errorf("ending a replacement: %w", err)
	}
	return nil
}

// endReplacedTx revokes the certificate that the approved certificate c replaces. It runs in the
// transaction of the approval, so that the two certificates are never valid at the same time. If the
// institution has already revoked the replaced certificate, endReplacedTx only adds the reference to the
// replacement to its record.
func (s *Service) endReplacedTx(ctx context.Context, tx *db.Tx, c *Certificate) error {
	by := []column{{"replaced_by", c.UUID}, {"replaced_by_reference", c.ReferenceID}}
	set := append([]column{{"revoked_at", db.Micros(s.now())}, {"failure_code", nil}, {"failure_message", nil}}, by...)
	_, err := s.moveTx(ctx, tx, triggerReplaced, c.Replaces.UUID, set...)
	if !errors.Is(err, ErrInvalidState) {
		return err
	}
	// The statement changes nothing if the replaced certificate had failed and was deleted.
	if _, err := tx.ExecContext(ctx, `
		UPDATE certificates SET replaced_by = $1, replaced_by_reference = $2, updated_at = $3 WHERE uuid = $4 AND status = 'revoked' AND replaced_by IS NULL`,
		c.UUID, c.ReferenceID, db.Micros(s.now()), c.Replaces.UUID); err != nil {
		return fmt.Errorf("recording a replacement: %w", err)
	}
	return nil
}

// forgetReplacedTx removes the references to a deleted certificate from the records of its replacements.
func forgetReplacedTx(ctx context.Context, tx *db.Tx, c *Certificate) error {
	if _, err := tx.ExecContext(ctx, `UPDATE certificates SET replaces = NULL, replaces_reference = NULL WHERE lineage = $1 AND replaces = $2`,
		c.root(), c.UUID); err != nil {
		return fmt.Errorf("removing a certificate from its replacements: %w", err)
	}
	return unyieldTx(ctx, tx, c)
}

// outdated is an SQL condition. It is true if certificate c is a replacement, and another replacement of the
// same certificate is being made or was approved.
const outdated = `c.replaces IS NOT NULL AND EXISTS (SELECT 1 FROM certificates other
	WHERE other.lineage = c.lineage AND other.replaces = c.replaces AND other.uuid <> c.uuid
		AND (other.status IN ('pending', 'in_review', 'processing', 'approved') OR other.approved_at IS NOT NULL))`

// Replacing returns the newest replacement of c that is being made or has failed, or nil if there is
// none.
func (s *Service) Replacing(ctx context.Context, c *Certificate) (*Certificate, error) {
	found, err := scanRow(s.db.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates
		WHERE lineage = $1 AND replaces = $2 AND status IN ('pending', 'in_review', 'processing', 'failed') ORDER BY id DESC LIMIT 1`, c.root(), c.UUID))
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // most certificates have no replacement
	}
	return found, err
}
