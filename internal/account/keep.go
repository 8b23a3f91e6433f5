package account

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MinKeep and MaxKeep bound a retention period in days: long enough to discover a mistake, and at
// most ten years.
const (
	MinKeep = 30
	MaxKeep = 3653
)

// Retention has the retention periods of an institution in days; 0 is unlimited.
type Retention struct {
	// Failed is for failed certificates, from their last attempt.
	Failed int `json:"keep_failed"`
	// Revoked is for the files of revoked certificates, from the revocation. The record stays.
	Revoked int `json:"keep_revoked"`
	// Mail is for the addresses of mail, and for names and addresses in webhook events.
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
		if f.days != 0 && (f.days < MinKeep || f.days > MaxKeep) {
			bad.Add(f.name, fmt.Sprintf("The number of days must be from %d to %d, or 0 for ever.", MinKeep, MaxKeep))
		}
	}
	return bad.Err()
}

// Kept is an institution with a limited retention period.
type Kept struct {
	ID int64
	Retention
}

// Keeping returns the institutions with a limited retention period.
func Keeping(ctx context.Context, q db.Queryer) (list []Kept, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT id, keep_failed, keep_revoked, keep_mail FROM institutions WHERE keep_failed + keep_revoked + keep_mail > 0 ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("reading for how long is kept: %w", err)
	}
	if list, err = db.Collect(rows, func(rows *sql.Rows) (k Kept, err error) {
		err = rows.Scan(&k.ID, &k.Failed, &k.Revoked, &k.Mail)
		return k, err
	}); err != nil {
		return nil, fmt.Errorf("reading for how long is kept: %w", err)
	}
	return list, nil
}

// SetRetention changes the retention periods of an institution. The next sweep purges what has expired.
func (s *Service) SetRetention(ctx context.Context, id int64, k Retention) error {
	return s.set(ctx, id, func(c *Changes) { c.Retention = k })
}
