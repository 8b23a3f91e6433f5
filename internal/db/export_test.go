package db

import (
	"context"
	"time"
)

// MigrateBelow applies the migrations before a version, as an earlier release did.
func (d *DB) MigrateBelow(ctx context.Context, version int) error {
	all, err := d.migrations()
	if err != nil {
		return err
	}
	return d.Tx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx,
			`CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`); err != nil {
			return err
		}
		for _, m := range all {
			if m.version >= version {
				break
			}
			if err := tx.script(ctx, m.sql); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)`,
				m.version, m.name, Micros(time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
}
