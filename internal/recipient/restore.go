package recipient

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// AdvanceNumbersTx makes the next customer number of each institution greater by db.IDGap. It is
// for a database that was restored from a backup: the lost database may have assigned the numbers
// after those of the backup.
func AdvanceNumbersTx(ctx context.Context, tx *db.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE customer_numbers SET last = last + $1`, int64(db.IDGap)); err != nil {
		return fmt.Errorf("advancing customer numbers: %w", err)
	}
	return nil
}
