package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// SweepInterval is the interval at which Sweep should run.
	SweepInterval = 10 * time.Minute
	// proofRetention is the time for which one-time secrets are kept after they have expired.
	proofRetention = 24 * time.Hour
	// throttleRetention is the time for which a count is kept after the last try: the maximum of
	// rule.resetAfter.
	throttleRetention = 24 * time.Hour
)

// Sweep removes expired rows.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.Now()
	for _, old := range []struct {
		statement string
		before    time.Time
	}{
		{`DELETE FROM proofs WHERE expires_at < $1`, now.Add(-proofRetention)},
		{`DELETE FROM sessions WHERE expires_at < $1`, now},
		{`DELETE FROM sessions WHERE seen_at < $1`, now.Add(-idleLife)},
		{`DELETE FROM sessions WHERE pending AND created_at < $1`, now.Add(-pendingLife)},
		{`DELETE FROM devices WHERE seen_at < $1`, now.Add(-DeviceLife)},
		{`DELETE FROM throttles WHERE tried_at < $1`, now.Add(-throttleRetention)},
	} {
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, old.statement, db.Micros(old.before))
			return err
		}); err != nil {
			return fmt.Errorf("removing expired rows: %w", err)
		}
	}
	return nil
}

// Delete deletes a person with all credentials. The error is fault.BadRequest if the person is a
// member. Members must leave their institutions first, so that each institution keeps an owner.
func (s *Service) Delete(ctx context.Context, personID int64) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error { return s.DeleteTx(ctx, tx, personID) })
}

// DeleteTx is Delete in the caller's transaction.
func (s *Service) DeleteTx(ctx context.Context, tx *db.Tx, personID int64) error {
	p, err := s.Person(ctx, tx, personID)
	if err != nil {
		return err
	}
	if p.Member {
		return fault.New(fault.BadRequest, "You belong to an institution. Leave it first, then delete your account.")
	}
	if s.OnDeleted != nil {
		if err := s.OnDeleted(ctx, tx, p); err != nil {
			return err
		}
	}
	return account.DeleteUserTx(ctx, tx, p.ID)
}
