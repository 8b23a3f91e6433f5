package account

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MinRetention and MaxRetention are the limits of a retention period in days. The minimum leaves
// time to discover a mistake. The maximum is ten years.
const (
	MinRetention = 30
	MaxRetention = 3653
)

// Retention has the retention periods of an institution in days. 0 means no limit.
type Retention struct {
	// Failed applies to failed certificates, counted from their last attempt.
	Failed int `json:"keep_failed"`
	// Revoked applies to the files of revoked certificates, counted from the revocation. The records
	// remain.
	Revoked int `json:"keep_revoked"`
	// Mail applies to the addresses in the records of mail about certificates, and to names and
	// addresses in webhook events.
	Mail int `json:"keep_mail"`
}

// Retention returns the retention periods of an institution.
func (s *Service) Retention(ctx context.Context, id int64) (k Retention, err error) {
	v, err := ReadSettings(ctx, s.db, id)
	if err != nil {
		return k, err
	}
	return v.Retention, nil
}

// Check returns fault.Invalid if a period is out of bounds.
func (k Retention) Check() error {
	var bad fault.Fields
	for _, f := range []struct {
		name string
		days int
	}{{"keep_failed", k.Failed}, {"keep_revoked", k.Revoked}, {"keep_mail", k.Mail}} {
		if f.days != 0 && (f.days < MinRetention || f.days > MaxRetention) {
			bad.Add(f.name, fmt.Sprintf("The number of days must be from %d to %d, or 0 to keep the data indefinitely.", MinRetention, MaxRetention))
		}
	}
	return bad.Err()
}

// RetentionLimit has the id and the retention periods of an institution.
type RetentionLimit struct {
	ID int64
	Retention
}

// RetentionLimits returns the institutions with at least one limited retention period.
func RetentionLimits(ctx context.Context, q db.Queryer) (list []RetentionLimit, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT id, keep_failed, keep_revoked, keep_mail FROM institutions WHERE keep_failed + keep_revoked + keep_mail > 0 ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("reading retention periods: %w", err)
	}
	if list, err = db.Collect(rows, func(rows *sql.Rows) (k RetentionLimit, err error) {
		err = rows.Scan(&k.ID, &k.Failed, &k.Revoked, &k.Mail)
		return k, err
	}); err != nil {
		return nil, fmt.Errorf("reading retention periods: %w", err)
	}
	return list, nil
}

// SetRetention changes the retention periods of an institution. The next sweep purges the expired
// data.
func (s *Service) SetRetention(ctx context.Context, id int64, k Retention) error {
	return s.set(ctx, id, func(c *Changes) { c.Retention = k })
}
