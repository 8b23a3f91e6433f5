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

// outsideTransaction is the first line of a migration whose statements are executed one by one, outside a
// transaction block, so that the locks of a statement end with the statement. PostgreSQL can create and drop
// an index without blocking writes only outside a transaction block. An interrupted migration is executed
// again, so each statement must be repeatable. Every semicolon ends a statement, except in a comment line.
const outsideTransaction = "-- outside a transaction\n"

var (
	commentLine     = regexp.MustCompile(`(?m)^--.*$`)
	concurrently    = regexp.MustCompile(`^(?:CREATE (?:UNIQUE )?|DROP )INDEX CONCURRENTLY `)
	concurrentIndex = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+)\s`)
)

// statements applies a migration outside a transaction, unless the database already has it.
func (d *DB) statements(ctx context.Context, m migration) (err error) {
	var applied bool
	if err := d.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schema_migrations WHERE version = $1)`, m.version).Scan(&applied); err != nil || applied {
		return err
	}
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx, conn)) }()
	for statement := range strings.SplitSeq(commentLine.ReplaceAllString(m.sql, ""), ";") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		if err := executeAlone(ctx, conn, statement); err != nil {
			return fmt.Errorf("the statement %s: %w", statement, err)
		}
	}
	return d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)`, m.version, m.name, Micros(time.Now()))
		return err
	})
}

// executeAlone executes a statement outside a transaction. If the statement creates an index concurrently and
// the database has a valid index of this name, executeAlone does nothing. It drops an invalid index, which
// an interrupted attempt left, and creates the index again.
func executeAlone(ctx context.Context, conn *pgxpool.Conn, statement string) error {
	lockTime := migrateLockTime
	if concurrently.MatchString(statement) {
		// The statement waits for earlier transactions, but does not block writes meanwhile.
		lockTime = 0
	}
	list := []string{fmt.Sprintf(`SET lock_timeout = %d; SET statement_timeout = 0`, lockTime.Milliseconds())}
	if index := concurrentIndex.FindStringSubmatch(statement); index != nil {
		var valid bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid)`, index[1]).
			Scan(&valid); err != nil || valid {
			return err
		}
		list = append(list, `DROP INDEX CONCURRENTLY IF EXISTS `+index[1])
	}
	for _, s := range append(list, statement) {
		if _, err := conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return nil
}

// release restores the limits of a connection and returns the connection to the pool. If it cannot restore
// the limits, it closes the connection.
func release(ctx context.Context, conn *pgxpool.Conn) error {
	_, err := conn.Exec(context.WithoutCancel(ctx), `RESET lock_timeout; RESET statement_timeout`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		err = errors.Join(err, conn.Hijack().Close(context.WithoutCancel(ctx)))
		return err
	}
	conn.Release()
	return nil
}
