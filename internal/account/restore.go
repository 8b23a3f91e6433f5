package account

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// EndLinksTx deletes all set-up links and revokes all open invitations. It is for a database that was
// restored from a backup, because links and invitations may have been used or revoked after the backup.
func EndLinksTx(ctx context.Context, tx *db.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM setup_links`); err != nil {
		return fmt.Errorf("deleting set-up links: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE invitations SET revoked_at = $1 WHERE accepted_at IS NULL AND revoked_at IS NULL`, db.Micros(now)); err != nil {
		return fmt.Errorf("revoking invitations: %w", err)
	}
	return nil
}

// InstitutionIDs returns the ids of all institutions.
func InstitutionIDs(ctx context.Context, q db.Queryer) ([]int64, error) {
	ids, err := db.Column[int64](q.QueryContext(ctx, `SELECT id FROM institutions ORDER BY id`))
	if err != nil {
		return nil, fmt.Errorf("listing institutions: %w", err)
	}
	return ids, nil
}
