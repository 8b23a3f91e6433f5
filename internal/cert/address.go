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

// emailField is the name of the address in the interface.
var emailField = &Fields[2]

// ReadEmail parses the address of a certificate's recipient. Its faults name the field
// of the interface.
func ReadEmail(text string) (account.Email, error) {
	var bad fault.Fields
	kept := emailField.read(&bad, text)
	if err := bad.Err(); err != nil {
		return account.Email{}, err
	}
	return account.ParseEmail(kept)
}

// SetEmailTx changes the address of a certificate in the caller's transaction. The
// caller handles what belonged to the old address. It returns a fault for a revoked
// certificate, and for an address with which the certificate would be a duplicate; the
// caller must then roll the transaction back.
func (s *Service) SetEmailTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string, email account.Email) (*Certificate, error) {
	c, err := one(tx.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates WHERE uuid = $1 AND institution_id = $2`, uuid, institutionID))
	if err != nil {
		return nil, err
	}
	c.Email = email.Text
	c, err = Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET email = $1, email_folded = $2, search_text = $3, customer_id = NULL, updated_at = $4
		WHERE uuid = $5 AND status <> 'revoked' RETURNING `+Columns,
		email.Text, email.Folded, SearchText(c, email), db.Micros(s.now()), uuid))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fault.New(fault.BadRequest, "The certificate is revoked: its address stays as it is.")
	case db.IsUnique(err):
		return nil, fault.OfField(emailField.Name, "A vault certificate with this email, title, and issue date already exists")
	case err != nil:
		return nil, fmt.Errorf("changing the address of a certificate: %w", err)
	}
	return c, nil
}
