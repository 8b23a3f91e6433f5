package batch

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// PurgedTx records that an entry's certificate failed, before that certificate is removed, so that
// the batch keeps its numbers. cert.Config.Ended calls it.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	if c.BatchID == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE batch_entries SET status = $1, certificate_id = NULL, error_code = 'ended', error = $2, done_at = $3
		WHERE batch_id = (SELECT id FROM batches WHERE uuid = $4) AND certificate_id = $5`,
		string(cert.Failed), "The certificate failed, and its record was removed since the institution keeps those for a time only.",
		db.Micros(c.UpdatedAt), c.BatchID, c.ID); err != nil {
		return fmt.Errorf("recording the failure of a purged certificate: %w", err)
	}
	return nil
}
