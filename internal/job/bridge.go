package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// errOwned is returned if River tries to end a transaction that package database/sql manages.
var errOwned = errors.New("the transaction is managed by database/sql")

// errLargeObjects is the value with which LargeObjects panics.
var errLargeObjects = errors.New("large objects are not available in the queue's transaction")

// bridge passes the connection of a database/sql transaction to River's driver as a pgx.Tx, so that
// a job is enqueued in the transaction of the state change. A bridge does not end the transaction.
type bridge struct{ conn *pgx.Conn }

var _ pgx.Tx = bridge{}

func newBridge(driverConn any) (bridge, error) {
	c, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return bridge{}, fmt.Errorf("the database connection is a %T, not a pgx connection", driverConn)
	}
	return bridge{conn: c.Conn()}, nil
}

func (b bridge) Begin(ctx context.Context) (pgx.Tx, error) {
	if _, err := b.conn.Exec(ctx, "SAVEPOINT certvault_job"); err != nil {
		return nil, err
	}
	return savepoint{b}, nil
}

func (b bridge) Commit(context.Context) error   { return errOwned }
func (b bridge) Rollback(context.Context) error { return errOwned }
func (b bridge) Conn() *pgx.Conn                { return b.conn }

func (b bridge) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return b.conn.CopyFrom(ctx, table, columns, rows)
}

func (b bridge) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return b.conn.SendBatch(ctx, batch)
}

// LargeObjects panics. River does not call it, and an implementation would require a real pgx.Tx.
func (b bridge) LargeObjects() pgx.LargeObjects {
	panic(errLargeObjects) //nolint:forbidigo // the method cannot return an error
}

func (b bridge) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	return b.conn.Prepare(ctx, name, query)
}

func (b bridge) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	return b.conn.Exec(ctx, query, args...)
}

func (b bridge) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	return b.conn.Query(ctx, query, args...)
}

func (b bridge) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return b.conn.QueryRow(ctx, query, args...)
}

// savepoint is a nested transaction.
type savepoint struct{ bridge }

func (s savepoint) Commit(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "RELEASE SAVEPOINT certvault_job")
	return err
}

func (s savepoint) Rollback(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT certvault_job")
	return err
}
