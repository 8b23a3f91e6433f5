package batch

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// PurgedTx records that an entry's certificate failed, before the certificate is deleted, so that
// the numbers of the batch do not change. Package vault calls it in the callback cert.Config.Purged.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	if c.BatchID == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE batch_entries SET status = $1, certificate_id = NULL, error_code = 'ended', error = $2, done_at = $3
		WHERE batch_id = (SELECT id FROM batches WHERE uuid = $4) AND certificate_id = $5`,
		string(cert.Failed), "The certificate failed. Its record was deleted later, at the end of the institution's retention period or on request.",
		db.Micros(c.UpdatedAt), c.BatchID, c.ID); err != nil {
		return fmt.Errorf("recording the failure of a purged certificate: %w", err)
	}
	return nil
}
