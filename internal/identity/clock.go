package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// PullBack ends the waits that were set while a clock was ahead: those that are longer than the maximum wait of
// all rules plus db.ClockTolerance. It returns the number of ended waits.
func (s *Service) PullBack(ctx context.Context) (n int64, err error) {
	var longest time.Duration
	for _, r := range throttles {
		longest = max(longest, r.here.max, r.network.max, r.account.max)
	}
	now := s.Now()
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE throttles SET until = $1, tried_at = $1 WHERE until > $2`, db.Micros(now), db.Micros(now.Add(longest+db.ClockTolerance)))
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ending the waits that were set while a clock was ahead: %w", err)
	}
	return n, nil
}
