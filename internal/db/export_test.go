package db

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// MigrateBelow applies the migrations below a version to an empty database.
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

// TransactionalMigrations maps the names of the PostgreSQL migrations that run in a transaction to their SQL.
// The parameter from is the version of the first one.
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

// OpenWithin opens a PostgreSQL database with limit as the time limit of responses and of waits for a
// connection.
func OpenWithin(ctx context.Context, databaseURL string, limit time.Duration) (*DB, error) {
	return openPostgres(ctx, databaseURL, deadlines{response: limit, acquire: limit}, usePrimary)
}

// PoolSize returns the maximum number of connections for a URL.
func PoolSize(databaseURL string) (int32, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return 0, err
	}
	err = setPoolSize(cfg, databaseURL)
	return cfg.MaxConns, err
}
