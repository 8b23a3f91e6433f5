package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// ReadEmail parses the address of a certificate's recipient. If the text is not an address, the error is
// fault.Invalid with Problems of FieldEmail.
func ReadEmail(text string) (account.Email, error) {
	var bad Problems
	valid := FieldEmail.read(&bad, text)
	if err := bad.Err(); err != nil {
		return account.Email{}, err
	}
	return account.ParseEmail(valid)
}

// AddressCorrectable reports whether the address of the certificate can be corrected. The address of an
// application that is pending or in review cannot be corrected.
func (c *Certificate) AddressCorrectable() bool {
	switch c.Status {
	case Processing, Approved, Failed:
		return true
	case Pending:
		return c.Source == Template
	default:
		return false
	}
}

var (
	errRevokedAddress     = fault.New(fault.BadRequest, "The certificate is revoked, so its e-mail address cannot be changed.")
	errApplicationAddress = fault.New(fault.BadRequest, "The e-mail address of an application cannot be changed before the certificate is created.")
)

// SetEmailTx changes the address of a certificate of an institution, in the caller's transaction.
// SetEmailTx also makes the certificate unassigned. The caller must update the other data that depends on
// the old address.
//
// The error is fault.NotFound for an unknown certificate, fault.BadRequest for a revoked certificate and
// for an application without a certificate, and fault.Invalid with CodeDuplicate if another certificate
// has the new address, title and date. After fault.Invalid, the caller must roll back the transaction.
func (s *Service) SetEmailTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string, email account.Email) (*Certificate, error) {
	c, err := scanRow(tx.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates WHERE uuid = $1 AND institution_id = $2`, uuid, institutionID))
	if err != nil {
		return nil, err
	}
	if c.Status != Revoked && !c.AddressCorrectable() {
		return nil, errApplicationAddress
	}
	before := *c
	c.Email = email.Text
	c, err = Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET email = $1, email_folded = $2, search_text = $3, customer_id = NULL, updated_at = $4, yields = FALSE
		WHERE uuid = $5 AND status <> 'revoked' RETURNING `+Columns,
		email.Text, email.Folded, SearchText(c, email), db.Micros(s.now()), uuid))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, errRevokedAddress
	case db.IsUnique(err):
		return nil, Problems{{Field: FieldEmail, Code: CodeDuplicate}}.Err()
	case err != nil:
		return nil, fmt.Errorf("changing the address of a certificate: %w", err)
	}
	return c, unyieldTx(ctx, tx, &before)
}
