// Package db opens the database and runs transactions on it. The same SQL text, with placeholders
// such as $1 and explicit lists of columns, runs on SQLite and on PostgreSQL; the package handles
// the differences, for example how a transaction begins and how a unique violation is reported. The
// package contains the schema and its migrations. The queries are in the packages that use db.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/certvault/certvault/internal/trace"
)

// Dialect identifies the kind of a database.
type Dialect string

const (
	// SQLite is the embedded default: one server process per data folder.
	SQLite Dialect = "sqlite"
	// PostgreSQL is for installations with more than one server process.
	PostgreSQL Dialect = "postgres"
)

// Queryer is the interface for reads. A DB reads with its pool of readers; a Tx reads in its
// transaction.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB is an open database.
type DB struct {
	Dialect Dialect
	// write is the pool of connections for transactions. On SQLite it has one connection, so that
	// writers wait in Go and do not fail with SQLITE_BUSY.
	write *sql.DB
	// read is the pool for reads outside transactions.
	read *sql.DB
	// file is the file of the database; it is empty on PostgreSQL.
	file string
	// group lets the transactions of SQLite share commits.
	group group
	// pool is the PostgreSQL pool, which the queue's driver uses directly; it is nil on SQLite.
	pool *pgxpool.Pool
	// replica runs reads that may go to a replica; it is nil if there is no replica.
	replica func(ctx context.Context, f func(ctx context.Context) error) error
	// clock is the reading of the database server's clock that Now uses; it is nil on SQLite.
	clock atomic.Pointer[reading]
	// counters counts events for metrics.
	counters counters
}

// QueryContext runs a query outside a transaction.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := d.reader(ctx).QueryContext(ctx, query, d.planned(query, args)...)
	d.counters.count(ctx, err)
	return rows, err
}

// QueryRowContext runs a query for one row outside a transaction.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	row := d.reader(ctx).QueryRowContext(ctx, query, d.planned(query, args)...)
	d.counters.count(ctx, row.Err())
	return row
}

// Writer returns the pool of connections for transactions. The queue's SQLite driver uses it.
func (d *DB) Writer() *sql.DB { return d.write }

// Pool returns PostgreSQL's connection pool, or nil on SQLite. The queue's PostgreSQL driver uses
// it.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Ping returns an error if the database does not respond.
func (d *DB) Ping(ctx context.Context) error {
	var one int
	if err := d.read.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("pinging the database: %w", err)
	}
	return nil
}

// Close closes all pools. If connections to PostgreSQL are still in use after closeTime, because
// PostgreSQL does not respond, Close returns an error and does not wait for these connections.
func (d *DB) Close() error {
	err := d.read.Close()
	if d.write != d.read {
		err = errors.Join(err, d.write.Close())
	}
	if d.pool != nil {
		err = errors.Join(err, d.closePool())
	}
	return err
}

func (d *DB) closePool() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.pool.Close()
	}()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-closed:
		return nil
	case <-timer.C:
		return fmt.Errorf("closing the database: %d connections are still in use", d.pool.Stat().AcquiredConns())
	}
}

// Tx is a transaction and its connection. The queue's PostgreSQL driver enqueues jobs on the same
// connection.
type Tx struct {
	*sql.Tx

	conn    *sql.Conn
	dialect Dialect
	shared  *shared // nil on PostgreSQL
	after   []func()
}

// Dialect returns the dialect of the transaction's database.
func (tx *Tx) Dialect() Dialect { return tx.dialect }

// FirstLocked returns the end of a subquery that selects the first $1 rows of alias, in the order of
// columns, to delete them. On PostgreSQL, the subquery locks the rows in the order of columns and id.
// Otherwise two processes could deadlock, because the order in which a DELETE finds its rows depends on the
// plan. On SQLite, the order does not include the id, so that SQLite can use an index.
func (tx *Tx) FirstLocked(alias, columns string) string {
	if tx.dialect == PostgreSQL {
		return ` ORDER BY ` + columns + `, ` + alias + `.id LIMIT $1 FOR UPDATE OF ` + alias
	}
	return ` ORDER BY ` + columns + ` LIMIT $1`
}

// Context returns the context for a statement in the transaction. On SQLite, the result is not cancelled
// with ctx, because an interrupted INSERT would roll back the transactions of other callers that
// share the commit (sqlite.org/c3ref/interrupt.html). A context that is already cancelled is
// returned unchanged.
func (tx *Tx) Context(ctx context.Context) context.Context {
	if tx.shared == nil || ctx.Err() != nil {
		return ctx
	}
	return tx.shared.ctx
}

// ExecContext runs a statement.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.Tx.ExecContext(tx.Context(ctx), query, args...)
}

// QueryContext runs a query.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.Tx.QueryContext(tx.Context(ctx), query, args...)
}

// QueryRowContext runs a query for one row.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.Tx.QueryRowContext(tx.Context(ctx), query, args...)
}

// Raw calls f with the driver's connection of the transaction.
func (tx *Tx) Raw(f func(driverConn any) error) error { return tx.conn.Raw(f) }

// AfterCommit registers f to be called after the transaction is committed, for example to wake a
// worker that then reads the change. f is not called after a rollback.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Tx runs f in a transaction. If f returns nil, Tx commits the transaction; otherwise Tx rolls it
// back. f must use only its Tx: on SQLite the transaction uses the only connection of the pool, so
// a second transaction inside f would deadlock. On SQLite, transactions that wait for the
// connection share one commit; see group. If PostgreSQL rolls the transaction back because of a
// deadlock or a serialization failure, Tx calls f again. Everything that f changes outside the
// database must therefore be the same after a second call. For example, f must not add to variables of
// the caller, and must use AfterCommit to wake a worker.
func (d *DB) Tx(ctx context.Context, f func(tx *Tx) error) error { return d.run(ctx, durable, f) }

// TxRelaxed is like Tx, but the commit does not wait for the disk. It is for state that is useless
// after the process has ended, so the loss of the state in a power failure is harmless. A later
// durable commit makes the state durable too.
func (d *DB) TxRelaxed(ctx context.Context, f func(tx *Tx) error) error {
	return d.run(ctx, relaxed, f)
}

func (d *DB) run(ctx context.Context, level durability, f func(tx *Tx) error) (err error) {
	ctx, span := trace.Start(ctx, trace.Client, "transaction")
	defer func() { span.End(err != nil) }()
	span.Text("db.system.name", string(d.Dialect))
	run := d.tx
	if d.Dialect == SQLite {
		run = d.sharedTx
	}
	for attempt, wait := 1, firstPause; ; attempt, wait = attempt+1, 2*wait {
		after, err := run(ctx, level, f)
		if err == nil {
			for _, f := range after {
				f()
			}
			return nil
		}
		if !isRepeatable(err) || attempt == maxAttempts || !pause(ctx, wait) {
			d.counters.count(ctx, err)
			return err
		}
		d.counters.retries.Add(1)
		span.Int("certvault.retries", attempt)
	}
}

// durability is true if a commit waits for the disk.
type durability bool

const (
	durable durability = true
	relaxed durability = false
)

// tx runs a transaction on PostgreSQL and returns the functions to call after its commit.
func (d *DB) tx(ctx context.Context, level durability, f func(tx *Tx) error) (after []func(), err error) {
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquiring a connection: %w", err)
	}
	defer func() {
		if e := conn.Close(); e != nil && err == nil {
			err = fmt.Errorf("releasing a connection: %w", e)
		}
	}()
	sqlTx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // f panicked; without the rollback, conn.Close would wait forever
			_ = sqlTx.Rollback()
		}
	}()
	tx := &Tx{Tx: sqlTx, conn: conn, dialect: d.Dialect}
	if level == relaxed {
		_, err = tx.ExecContext(ctx, `SET LOCAL synchronous_commit = off`)
	}
	if err == nil {
		err = f(tx)
	}
	ended = true
	if err != nil {
		if e := sqlTx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			return nil, errors.Join(err, fmt.Errorf("rolling back: %w", e))
		}
		return nil, err
	}
	if err := sqlTx.Commit(); err != nil {
		return nil, fmt.Errorf("committing: %w", err)
	}
	return tx.after, nil
}

// Micros returns a time in its stored form: integer microseconds since 1970, UTC. SQLite would
// compare a time.Time as text, and therefore would order times of different time zones incorrectly.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time returns the time of a stored value, in UTC.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// OptionalTime returns the time of a stored value, or nil for null.
func OptionalTime(micros sql.NullInt64) *time.Time {
	if !micros.Valid {
		return nil
	}
	t := Time(micros.Int64)
	return &t
}
