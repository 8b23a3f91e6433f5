package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MaxExpiryDays is the maximum of Expiry.ExpiryDays.
const MaxExpiryDays = 365

// Expiry has the settings of an institution for certificates that expire soon.
type Expiry struct {
	// ExpiryDays is how many days before the last day of validity the vault reports the expiry.
	ExpiryDays int `json:"expiry_days"`
	// ExpiryMail reports whether the vault then sends a mail to the recipient.
	ExpiryMail bool `json:"expiry_mail"`
}

// Check returns fault.Invalid if the number of days is out of bounds.
func (e Expiry) Check() error {
	if e.ExpiryDays < 1 || e.ExpiryDays > MaxExpiryDays {
		return fault.OfField("expiry_days", fmt.Sprintf("The number of days must be from 1 to %d.", MaxExpiryDays))
	}
	return nil
}

// ReadExpiry returns the Expiry of an institution, or fault.NotFound.
func ReadExpiry(ctx context.Context, q db.Queryer, id int64) (e Expiry, err error) {
	err = q.QueryRowContext(ctx, `SELECT expiry_days, expiry_mail FROM institutions WHERE id = $1`, id).Scan(&e.ExpiryDays, &e.ExpiryMail)
	if errors.Is(err, sql.ErrNoRows) {
		return e, errNoInstitution
	}
	if err != nil {
		return e, fmt.Errorf("reading the settings of an institution: %w", err)
	}
	return e, nil
}

// ExpiryChange is a change of the ExpiryDays of an institution. Days is the new value.
type ExpiryChange struct {
	InstitutionID int64
	Days          int
}

// ExpiryChanges returns the changes that package cert has not applied to the certificates yet.
func ExpiryChanges(ctx context.Context, q db.Queryer) ([]ExpiryChange, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, expiry_days FROM institutions WHERE expiry_days <> expiry_applied ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("reading the institutions with another number of days: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (c ExpiryChange, err error) {
		err = rows.Scan(&c.InstitutionID, &c.Days)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the institutions with another number of days: %w", err)
	}
	return list, nil
}

// SetExpiryAppliedTx records that a change was applied to the certificates of the institution. It does
// nothing if ExpiryDays has changed again.
func SetExpiryAppliedTx(ctx context.Context, tx *db.Tx, c ExpiryChange) error {
	if _, err := tx.ExecContext(ctx, `UPDATE institutions SET expiry_applied = $1 WHERE id = $2 AND expiry_days = $1`, c.Days, c.InstitutionID); err != nil {
		return fmt.Errorf("recording a number of days: %w", err)
	}
	return nil
}

// Expiry returns the Expiry of an institution, or fault.NotFound.
func (s *Service) Expiry(ctx context.Context, id int64) (Expiry, error) {
	return ReadExpiry(ctx, s.db, id)
}

// SetExpiry changes the Expiry of an institution.
func (s *Service) SetExpiry(ctx context.Context, id int64, e Expiry) error {
	return s.set(ctx, id, func(c *Changes) { c.Expiry = e })
}
