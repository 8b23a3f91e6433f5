package db

import (
	"context"
	"fmt"
)

// KeyCheck returns the stored value that identifies the master key of this database. If no value is
// stored, it stores value and returns it.
func (d *DB) KeyCheck(ctx context.Context, value []byte) (stored []byte, err error) {
	err = d.Tx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO key_checks (id, value) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, value); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT value FROM key_checks WHERE id = 1`).Scan(&stored)
	})
	if err != nil {
		return nil, fmt.Errorf("checking the master key: %w", err)
	}
	return stored, nil
}
