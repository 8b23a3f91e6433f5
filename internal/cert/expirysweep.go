package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	// ExpiryInterval is the interval of SweepExpiries.
	ExpiryInterval = time.Minute
	// expiryBatch is the maximum number of events, and changeBatch the maximum number of changed rows, of
	// one transaction of SweepExpiries. SQLite has one writer at a time, so the transactions must be short.
	expiryBatch = 50
	changeBatch = 150
	// changesFound is the maximum number of rows that one statement of applyDays selects.
	changesFound = 100 * changeBatch
)

// trackExpiryTx adds a row to certificate_expiries when a certificate with an expiry is approved, and deletes
// the row when the certificate is revoked.
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

// SweepExpiries creates the events of certificates that expire soon and of certificates that have expired.
// Each event and the change of its row in certificate_expiries are committed together, so each event is
// created at most once. If a sweep is so late that a certificate has already expired, it creates only the
// event for the expiry.
func (s *Service) SweepExpiries(ctx context.Context) error {
	// Most sweeps find nothing to do, and execute only this statement. It has no day as a parameter,
	// because PostgreSQL might then scan the table instead of the index on due_day.
	var changed bool
	var first sql.Null[int64]
	if err := s.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM institutions WHERE expiry_days <> expiry_applied), (SELECT min(due_day) FROM certificate_expiries)`,
	).Scan(&changed, &first); err != nil {
		return fmt.Errorf("finding expiries that are due: %w", err)
	}
	due := first.Valid && first.V <= dayNumber(s.leaseNow())
	if changed {
		if err := s.applyExpiryDays(ctx); err != nil {
			return fmt.Errorf("changing when expiries are reported: %w", err)
		}
	}
	for more := changed || due; more; {
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

// dueExpiry is a row of certificate_expiries whose event is due.
type dueExpiry struct {
	id, expires int64
	soon        bool
}

// reportExpiriesTx creates up to expiryBatch events that are due, and returns their number.
func (s *Service) reportExpiriesTx(ctx context.Context, tx *db.Tx) (int, error) {
	today := dayNumber(s.leaseNow())
	due, err := dueExpiriesTx(ctx, tx, today)
	if err != nil {
		return 0, err
	}
	var all, expired, soon []int64
	for _, d := range due {
		switch all = append(all, d.id); {
		case d.expires < today:
			expired = append(expired, d.id)
		case d.soon:
			soon = append(soon, d.id)
		default:
			return 0, errors.New("the event of the expiry of a certificate is due, but the certificate has not expired")
		}
	}
	certificates, err := byIDs(ctx, tx, all)
	if err != nil {
		return 0, err
	}
	if err := reportedTx(ctx, tx, `DELETE FROM certificate_expiries`, expired); err != nil {
		return 0, err
	}
	if err := reportedTx(ctx, tx, `UPDATE certificate_expiries SET due_day = expires_day + 1, days = NULL`, soon); err != nil {
		return 0, err
	}
	var events []webhook.Event
	var reminders []*Certificate
	for _, c := range certificates {
		name := webhook.Expired
		if slices.Contains(soon, c.ID) {
			name, reminders = webhook.Expiring, append(reminders, c)
		}
		e := eventOf(c, name)
		e.OccurredAt = s.now()
		events = append(events, e)
	}
	if err := s.hooks.EmitTx(ctx, tx, events...); err != nil {
		return 0, err
	}
	if s.expiring != nil && len(reminders) > 0 {
		if err := s.expiring(ctx, tx, reminders); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// dueExpiriesTx returns up to expiryBatch rows whose events are due, and locks them.
func dueExpiriesTx(ctx context.Context, tx *db.Tx, today int64) ([]dueExpiry, error) {
	query := `SELECT certificate_id, expires_day, days IS NOT NULL FROM certificate_expiries WHERE due_day <= $1 ORDER BY due_day, certificate_id LIMIT $2`
	if tx.Dialect() == db.PostgreSQL {
		// Rows that another server has locked are reported by that server.
		query += ` FOR UPDATE SKIP LOCKED`
	}
	rows, err := tx.QueryContext(ctx, query, today, expiryBatch)
	if err != nil {
		return nil, err
	}
	return db.Collect(rows, func(rows *sql.Rows) (d dueExpiry, err error) {
		err = rows.Scan(&d.id, &d.expires, &d.soon)
		return d, err
	})
}

// reportedTx executes a statement, which has no WHERE clause yet, for the rows of certificates.
func reportedTx(ctx context.Context, tx *db.Tx, statement string, certificates []int64) error {
	if len(certificates) == 0 {
		return nil
	}
	args := make([]any, len(certificates))
	for i, id := range certificates {
		args[i] = id
	}
	_, err := tx.ExecContext(ctx, statement+` WHERE certificate_id IN (`+db.Placeholders(1, len(args))+`)`, args...)
	return err
}

// applyExpiryDays updates the due days of the institutions whose number of days changed.
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

// applyDays updates the rows of an institution whose number of days is below the new one if operator is
// "<", or above it if operator is ">". It selects many rows at once, without a lock, because on PostgreSQL
// each SELECT also reads the dead index entries of the rows that were changed before.
func (s *Service) applyDays(ctx context.Context, c account.ExpiryChange, operator string) error {
	for {
		list, err := db.Column[any](s.db.QueryContext(ctx,
			`SELECT certificate_id FROM certificate_expiries WHERE institution_id = $1 AND days `+operator+` $2 LIMIT $3`, c.InstitutionID, c.Days, changesFound))
		if err != nil || len(list) == 0 {
			return err
		}
		for some := range slices.Chunk(list, changeBatch) {
			if err := s.db.Tx(ctx, func(tx *db.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE certificate_expiries SET due_day = expires_day - $1, days = $1
					WHERE days `+operator+` $1 AND certificate_id IN (`+db.Placeholders(2, len(some))+`)`, append([]any{c.Days}, some...)...)
				return err
			}); err != nil {
				return err
			}
		}
	}
}
