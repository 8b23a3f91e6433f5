package limit

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// PullBack corrects the expiry of claims and responses that were stored while a clock was ahead: those
// that expire more than db.ClockTolerance later than if they were stored now. It returns the number of
// changed keys.
func (k *Keys) PullBack(ctx context.Context) (n int64, err error) {
	now := k.now()
	err = k.db.Tx(ctx, func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `
			UPDATE idempotency_keys SET expires_at = CASE WHEN status IS NULL THEN CAST($1 AS BIGINT) ELSE CAST($2 AS BIGINT) END
			WHERE expires_at > CASE WHEN status IS NULL THEN CAST($1 AS BIGINT) ELSE CAST($2 AS BIGINT) END + CAST($3 AS BIGINT)`,
			db.Micros(now.Add(claimLife)), db.Micros(now.Add(KeyLifetime)), db.ClockTolerance.Microseconds())
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("pulling back the expiry of idempotency keys: %w", err)
	}
	return n, nil
}
