package identity

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// EndAllTx ends all sessions, and deletes all mailed links to sign up, to sign in, to reset a
// password, and to change or add an address. It is for a database that was restored from a backup: the
// database does not show which sessions and links were ended or used after the backup.
func EndAllTx(ctx context.Context, tx *db.Tx) error {
	for _, statement := range []string{`DELETE FROM sessions`, `DELETE FROM proofs`} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("ending sessions and mailed links: %w", err)
		}
	}
	return nil
}
