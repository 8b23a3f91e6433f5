package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	// ExpiryInterval is the interval of SweepExpiries.
	ExpiryInterval = time.Minute
	// expiryBatch bounds the events, and changeBatch the changed rows, of one transaction of
	// SweepExpiries, because SQLite has one writer at a time.
	expiryBatch = 25
	changeBatch = 150
)

// trackExpiryTx stores that the expiry of a certificate must be reported, from its approval to its
// revocation.
func trackExpiryTx(ctx context.Context, tx *db.Tx, c *Certificate, now time.Time) error {
	if c.ExpiresOn == "" {
		return nil
	}
	switch c.Status {
	case Approved:
		expires, err := dayOf(c.ExpiresOn)
		if err != nil {
			return fmt.Errorf("reading a stored date: %w", err)
		}
		settings, err := account.ReadExpiry(ctx, tx, c.InstitutionID)
		if err != nil {
			return err
		}
		due, days := expires-int64(settings.ExpiryDays), sql.NullInt64{Int64: int64(settings.ExpiryDays), Valid: true}
		if c.Expired(now) {
			due, days = expires+1, sql.NullInt64{}
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO certificate_expiries (certificate_id, institution_id, expires_day, due_day, days) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (certificate_id) DO NOTHING`, c.ID, c.InstitutionID, expires, due, days); err != nil {
			return fmt.Errorf("storing an expiry: %w", err)
		}
	case Revoked:
		if _, err := tx.ExecContext(ctx, `DELETE FROM certificate_expiries WHERE certificate_id = $1`, c.ID); err != nil {
			return fmt.Errorf("deleting an expiry: %w", err)
		}
	default:
	}
	return nil
}

// SweepExpiries creates the events of certificates that expire soon and of those that have expired. Each
// certificate has each of the events at most once, since the event and the change of its row are committed
// together. A certificate that has expired gets no event for expiring soon.
func (s *Service) SweepExpiries(ctx context.Context) error {
	if err := s.applyExpiryDays(ctx); err != nil {
		return fmt.Errorf("changing when expiries are reported: %w", err)
	}
	// Nearly all sweeps find nothing to do, and need no lock for it.
	var more bool
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM certificate_expiries WHERE due_day <= $1)`, dayNumber(s.now())).Scan(&more); err != nil {
		return fmt.Errorf("finding expiries that are due: %w", err)
	}
	for more {
		if err := s.db.Tx(ctx, func(tx *db.Tx) error {
			n, err := s.reportExpiriesTx(ctx, tx)
			more = n == expiryBatch
			return err
		}); err != nil {
			return fmt.Errorf("reporting expiries: %w", err)
		}
	}
	return nil
}

// dueExpiry is a row whose event is due.
type dueExpiry struct {
	id, expires int64
	soon        bool
}

// reportExpiriesTx creates up to expiryBatch events that are due, and returns their number.
func (s *Service) reportExpiriesTx(ctx context.Context, tx *db.Tx) (int, error) {
	today := dayNumber(s.now())
	query := `SELECT certificate_id, expires_day, days IS NOT NULL FROM certificate_expiries WHERE due_day <= $1 ORDER BY due_day, certificate_id LIMIT $2`
	if tx.Dialect() == db.PostgreSQL {
		// Another server reports the rows that it has locked.
		query += ` FOR UPDATE SKIP LOCKED`
	}
	rows, err := tx.QueryContext(ctx, query, today, expiryBatch)
	if err != nil {
		return 0, err
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (d dueExpiry, err error) {
		err = rows.Scan(&d.id, &d.expires, &d.soon)
		return d, err
	})
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		if err := s.reportExpiryTx(ctx, tx, d, today); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

func (s *Service) reportExpiryTx(ctx context.Context, tx *db.Tx, d dueExpiry, today int64) error {
	c, err := scanRow(tx.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates WHERE id = $1`, d.id))
	if err != nil {
		return err
	}
	event := webhook.Expiring
	switch {
	case d.expires < today:
		event = webhook.Expired
		_, err = tx.ExecContext(ctx, `DELETE FROM certificate_expiries WHERE certificate_id = $1`, d.id)
	case d.soon:
		_, err = tx.ExecContext(ctx, `UPDATE certificate_expiries SET due_day = expires_day + 1, days = NULL WHERE certificate_id = $1`, d.id)
	default:
		return errors.New("the expiry of a certificate is due before the certificate has expired")
	}
	if err != nil {
		return err
	}
	e := eventOf(c, event)
	e.OccurredAt = s.now()
	if err := s.hooks.EmitTx(ctx, tx, e); err != nil || event != webhook.Expiring {
		return err
	}
	return s.expiring.runTx(ctx, tx, c)
}

// applyExpiryDays changes when the rows of institutions are due whose number of days changed.
func (s *Service) applyExpiryDays(ctx context.Context) error {
	changes, err := account.ExpiryChanges(ctx, s.db)
	if err != nil {
		return err
	}
	for _, c := range changes {
		for _, operator := range []string{"<", ">"} {
			if err := s.applyDays(ctx, c, operator); err != nil {
				return err
			}
		}
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return account.SetExpiryAppliedTx(ctx, tx, c) }); err != nil {
			return err
		}
	}
	return nil
}

// applyDays changes the rows of an institution whose number of days is less or more than the new one.
func (s *Service) applyDays(ctx context.Context, c account.ExpiryChange, operator string) error {
	for more := true; more; {
		if err := s.db.Tx(ctx, func(tx *db.Tx) error {
			changed, err := tx.ExecContext(ctx, `
				UPDATE certificate_expiries SET due_day = expires_day - $1, days = $1 WHERE certificate_id IN (
					SELECT certificate_id FROM certificate_expiries WHERE institution_id = $2 AND days `+operator+` $1 LIMIT $3)`,
				c.Days, c.InstitutionID, changeBatch)
			if err != nil {
				return err
			}
			n, err := changed.RowsAffected()
			more = n == changeBatch
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
