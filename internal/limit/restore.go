package limit

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// ReleaseAllTx releases the keys of all requests without a response. It is for a database that was
// restored from a backup: the requests ended with the process that handled them. Stored responses
// remain.
func ReleaseAllTx(ctx context.Context, tx *db.Tx) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM idempotency_keys WHERE status IS NULL`); err != nil {
		return fmt.Errorf("releasing idempotency keys: %w", err)
	}
	return nil
}
