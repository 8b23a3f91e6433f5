package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Refolded is an account whose address earlier versions folded differently. The earlier folded form may
// be the address of another mailbox, so the memberships of the account may be meant for another person.
type Refolded struct {
	// Folded is the folded form of the address, and Before is its earlier form.
	Folded, Before string
	// Memberships is the number of institutions that the account belongs to.
	Memberships int
	Operator    bool
}

// RefoldedAccounts returns the refolded accounts that no operator has accepted yet, oldest first.
func RefoldedAccounts(ctx context.Context, q db.Queryer) ([]Refolded, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT u.email_folded, u.email_folded_before, u.operator, (SELECT count(*) FROM members m WHERE m.user_id = u.id)
		FROM users u WHERE u.email_folded_before IS NOT NULL ORDER BY u.id`)
	if err != nil {
		return nil, fmt.Errorf("reading accounts whose address has changed its form: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (r Refolded, err error) {
		err = rows.Scan(&r.Folded, &r.Before, &r.Operator, &r.Memberships)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading accounts whose address has changed its form: %w", err)
	}
	return list, nil
}

// AcceptAddress records that an operator has checked an account that RefoldedAccounts returned. It
// returns fault.Invalid if there is no such account.
func (s *Service) AcceptAddress(ctx context.Context, address string) error {
	email, err := ParseEmail(address)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		var id int64
		err := tx.QueryRowContext(ctx, `
			UPDATE users SET email_folded_before = NULL WHERE email_folded = $1 AND email_folded_before IS NOT NULL RETURNING id`, email.Folded).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.OfField("email", "There is no account with this address to accept.")
		}
		if err != nil {
			return err
		}
		subject, err := personTx(ctx, tx, "person", id)
		if err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{At: s.now(), Action: audit.SecurityChanged, Subject: subject, Detail: audit.Detail{"by": "address_accepted"}})
	})
	if err != nil {
		return fmt.Errorf("accepting an address: %w", err)
	}
	return nil
}
