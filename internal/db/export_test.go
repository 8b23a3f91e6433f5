package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// MigrateBelow applies the migrations before a version, as an earlier release did.
func (d *DB) MigrateBelow(ctx context.Context, version int) error {
	all, err := d.migrations()
	if err != nil {
		return err
	}
	if d.Dialect == PostgreSQL {
		if err := d.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return createExtensions(ctx, conn) }); err != nil {
			return err
		}
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

// OpenWithin opens a PostgreSQL database whose statements must get a response within a time.
func OpenWithin(ctx context.Context, databaseURL string, limit time.Duration) (*DB, error) {
	return openPostgres(ctx, databaseURL, deadlines{response: limit, acquire: limit}, nil)
}
