package account

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MinKeep and MaxKeep bound for how many days something is kept that does not stay
// for ever: long enough to find a mistake out, and what ten years are at most.
const (
	MinKeep = 30
	MaxKeep = 3653
)

// Keep is for how many days an institution keeps what need not stay; 0 is for ever.
type Keep struct {
	// Failed is about certificates that failed and were never made, from their last
	// try.
	Failed int `json:"keep_failed"`
	// Revoked is about the files of revoked certificates, from the revocation. That
	// they were revoked stays.
	Revoked int `json:"keep_revoked"`
	// Mail is about who was written to, and names and addresses in what servers were
	// told.
	Mail int `json:"keep_mail"`
}

// Keep returns for how long an institution keeps what.
func (s *Service) Keep(ctx context.Context, id int64) (k Keep, err error) {
	v, err := ReadSettings(ctx, s.db, id)
	if err != nil {
		return k, err
	}
	return v.Keep, nil
}

// Check says what is wrong with it.
func (k Keep) Check() error {
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

// Kept is an institution that does not keep everything for ever.
type Kept struct {
	ID int64
	Keep
}

// Keeping gives the institutions that do not keep everything for ever.
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

// SetKeep changes for how long an institution keeps what. What has expired by then
// ends with the next sweep.
func (s *Service) SetKeep(ctx context.Context, id int64, k Keep) error {
	return s.set(ctx, id, func(c *Changes) { c.Keep = k })
}
