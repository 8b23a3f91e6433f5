package db

import (
	"context"
	"strings"
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
	if err := d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx,
			`CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
		return err
	}); err != nil {
		return err
	}
	for _, m := range all {
		if m.version >= version {
			break
		}
		if err := d.apply(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// TransactionalMigrations returns the texts of the migrations for PostgreSQL that run in a transaction, by
// their names, from a version on.
func TransactionalMigrations(from int) (map[string]string, error) {
	d := &DB{Dialect: PostgreSQL}
	all, err := d.migrations()
	found := map[string]string{}
	for _, m := range all {
		if m.version >= from && !strings.HasPrefix(m.sql, outsideTransaction) {
			found[m.name] = m.sql
		}
	}
	return found, err
}

// OpenWithin opens a PostgreSQL database whose statements must get a response within a time.
func OpenWithin(ctx context.Context, databaseURL string, limit time.Duration) (*DB, error) {
	return openPostgres(ctx, databaseURL, deadlines{response: limit, acquire: limit}, nil)
}
