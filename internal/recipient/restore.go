package recipient

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// AdvanceNumbersTx raises the next customer number of each institution by db.IDGap. It is for a database
// that was restored from a backup: the lost database may have assigned numbers that are not in the
// backup.
func AdvanceNumbersTx(ctx context.Context, tx *db.Tx, institutions []int64) error {
	for _, id := range institutions {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO customer_numbers (institution_id, last) VALUES ($1, $2)
			ON CONFLICT (institution_id) DO UPDATE SET last = customer_numbers.last + excluded.last`, id, int64(db.IDGap)); err != nil {
			return fmt.Errorf("advancing customer numbers: %w", err)
		}
	}
	return nil
}
