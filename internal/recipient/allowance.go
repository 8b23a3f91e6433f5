package recipient

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// limitedAction is an action with a daily limit.
type limitedAction string

const (
	sharing    limitedAction = "share"
	correcting limitedAction = "correct"
	exporting  limitedAction = "export"
	resending  limitedAction = "resend"
	trying     limitedAction = "try"
	arranging  limitedAction = "arrange"
)

// dailyLimits has the maximum number of actions in a day in UTC: of each certificate for resending,
// and of each holder for the other actions.
var dailyLimits = map[limitedAction]int{sharing: 50, correcting: 5, exporting: 5, resending: 10, trying: 30, arranging: 300}

// allowTx counts an action of a holder. If the action is resending, holder identifies the
// certificate. The error is fault.TooMany if the daily limit is exceeded.
func (s *Service) allowTx(ctx context.Context, tx *db.Tx, holder string, action limitedAction) error {
	now := s.now().UTC()
	var n int
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO allowances (holder, action, day, n) VALUES ($1, $2, $3, 1)
		ON CONFLICT (holder, action, day) DO UPDATE SET n = allowances.n + 1 RETURNING n`, holder, string(action), now.Format(time.DateOnly)).Scan(&n); err != nil {
		return fmt.Errorf("counting actions: %w", err)
	}
	if n > dailyLimits[action] {
		tomorrow := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		return &fault.Error{
			Kind: fault.TooMany, Message: fmt.Sprintf("This can be done %d times a day. Try again tomorrow.", dailyLimits[action]), RetryAfter: tomorrow.Sub(now),
		}
	}
	return nil
}

// deleteAllowances deletes the counts of the days before yesterday.
func (s *Service) deleteAllowances(ctx context.Context) error {
	yesterday := s.now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	var found bool
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM allowances WHERE day < $1)`, yesterday).Scan(&found); err != nil || !found {
		return err
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM allowances WHERE day < $1`, yesterday); err != nil {
			return fmt.Errorf("deleting old counts: %w", err)
		}
		return nil
	})
}
