package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// PullBack corrects times that were set while a clock was ahead, and returns the number of changed
// rows. A delivery that waits longer than the longest wait becomes due. A backoff that is longer than
// the longest backoff ends. A lease that is longer than leaseTime is shortened to leaseTime. It does
// not end at once, because its node may still use the lease. PullBack ignores differences of up to
// db.ClockTolerance, because the clocks of two nodes may differ.
func (d *Deliverer) PullBack(ctx context.Context) (n int64, err error) {
	now := d.hooks.now()
	longest := max(time.Duration(float64(slices.Max(d.waits))*(1+spread)), maxRetryAfter)
	pause := schedule(d.waits).longest
	update := func(statement string, args ...any) (changed int64, err error) {
		err = d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
			res, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			changed, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("pulling back the times of deliveries: %w", err)
		}
		return changed, nil
	}
	for changed := int64(sweepBatch); changed == sweepBatch; n += changed {
		if changed, err = update(`
			UPDATE webhook_deliveries SET due_at = $1 WHERE id IN (
				SELECT d.id FROM webhook_endpoints e JOIN webhook_deliveries d ON d.endpoint_id = e.id
				WHERE d.status = 'pending' AND d.replay IN (false, true) AND d.due_at > $2 LIMIT $3
			) AND status = 'pending'`, db.Micros(now), db.Micros(now.Add(longest+db.ClockTolerance)), sweepBatch); err != nil {
			return n, err
		}
	}
	changed, err := update(`
		UPDATE webhook_endpoints SET
			leased_until = CASE WHEN leased_until > $2 THEN CAST($4 AS BIGINT) ELSE leased_until END,
			held_until = CASE WHEN held_until > $3 THEN CAST($1 AS BIGINT) ELSE held_until END,
			served_at = CASE WHEN served_at > $2 THEN CAST($1 AS BIGINT) ELSE served_at END
		WHERE leased_until > $2 OR held_until > $3 OR served_at > $2`,
		db.Micros(now), db.Micros(now.Add(leaseTime+db.ClockTolerance)), db.Micros(now.Add(pause+db.ClockTolerance)), db.Micros(now.Add(leaseTime)))
	return n + changed, err
}
