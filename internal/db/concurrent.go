package db

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// outsideTransaction is the first line of a migration that only creates indexes, and does so without
// blocking writes. PostgreSQL cannot do that in a transaction.
const outsideTransaction = "-- outside a transaction\n"

var concurrentIndex = regexp.MustCompile(`(?m)^CREATE INDEX CONCURRENTLY (\w+) [^;]+;`)

// indexes creates the indexes of a migration outside a transaction, unless the database already has
// the migration. If an earlier attempt was interrupted, the index exists, but is invalid or not
// recorded, and is created again.
func (d *DB) indexes(ctx context.Context, m migration) (err error) {
	var applied bool
	if err := d.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schema_migrations WHERE version = $1)`, m.version).Scan(&applied); err != nil || applied {
		return err
	}
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx, conn)) }()
	// The creation waits for all transactions that began earlier, and blocks none meanwhile.
	if _, err := conn.Exec(ctx, `SET lock_timeout = 0; SET statement_timeout = 0`, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	for _, found := range concurrentIndex.FindAllStringSubmatch(m.sql, -1) {
		for _, statement := range []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + found[1], strings.TrimSuffix(found[0], ";")} {
			if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("creating the index %s: %w", found[1], err)
			}
		}
	}
	return d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)`, m.version, m.name, Micros(time.Now()))
		return err
	})
}

// release restores the limits of a connection and returns it to the pool. If that fails, it closes
// the connection.
func release(ctx context.Context, conn *pgxpool.Conn) error {
	_, err := conn.Exec(context.WithoutCancel(ctx), `RESET lock_timeout; RESET statement_timeout`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		err = errors.Join(err, conn.Hijack().Close(context.WithoutCancel(ctx)))
		return err
	}
	conn.Release()
	return nil
}
