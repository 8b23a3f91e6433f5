package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/stdlib"
)

// CopyTo writes a copy of a SQLite database to a new file. The copy contains a single state of the database
// and has no write-ahead log. Other connections can read and write meanwhile. The copy is not durable
// until the caller syncs the file.
func (d *DB) CopyTo(ctx context.Context, file string) (err error) {
	// The pool of readers rejects VACUUM INTO, and the only writing connection must stay free.
	conn, err := sql.Open("sqlite", sqliteDSN(d.file))
	if err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// VACUUM INTO reads in one transaction. The write-ahead log grows until the transaction ends,
	// because a checkpoint cannot replace pages that the transaction may still read.
	if _, err := conn.ExecContext(ctx, `VACUUM INTO $1`, file); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// OpenReadOnly opens a SQLite database that no process writes, such as a copy. It creates no file
// and acquires no lock. SQLite ignores the CHECK constraints of such a database, and IntegrityCheck
// therefore ignores them too.
func OpenReadOnly(ctx context.Context, file string) (*DB, error) {
	if err := registerFunctions(); err != nil {
		return nil, err
	}
	options := url.Values{"_pragma": {"query_only(1)", "cache_size(-16000)", "temp_store(MEMORY)"}}
	read, err := sql.Open("sqlite", sqliteURL(file, options, "mode=ro", "immutable=1"))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	if err := read.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), read.Close())
	}
	return &DB{Dialect: SQLite, file: file, write: read, read: read}, nil
}

// maxProblems is the maximum number of problems that IntegrityCheck returns.
const maxProblems = 100

// IntegrityCheck is like QuickCheck, but it also compares the indexes with the tables, and returns
// more problems. It takes several times as long.
func (d *DB) IntegrityCheck(ctx context.Context) (problems []string, err error) {
	if d.Dialect == PostgreSQL {
		return nil, nil
	}
	problems, err = Column[string](d.read.QueryContext(ctx, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxProblems)))
	if err != nil {
		return nil, fmt.Errorf("checking the integrity of the database: %w", err)
	}
	if len(problems) == 1 && problems[0] == "ok" {
		return nil, nil
	}
	return problems, nil
}

// Snapshot is one state of a PostgreSQL database, in a read-only transaction on its own connection.
// Other programs can read the same state until the snapshot is closed.
type Snapshot struct {
	*sql.Tx

	// ID identifies the snapshot for other connections, for example for pg_dump --snapshot.
	ID string
	// Server is the major version of the server.
	Server int

	pool *sql.DB
}

// Snapshot opens a snapshot of a PostgreSQL database. Its statements and its idle time have no limit,
// because a program that reads the snapshot may take hours.
func (d *DB) Snapshot(ctx context.Context) (_ *Snapshot, err error) {
	if d.Dialect != PostgreSQL {
		return nil, errors.New("only PostgreSQL has snapshots")
	}
	cfg := d.pool.Config().ConnConfig
	cfg.RuntimeParams["statement_timeout"] = "0"
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	cfg.Tracer = nil
	s := &Snapshot{pool: stdlib.OpenDB(*cfg)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening a snapshot of the database: %w", err), s.pool.Close())
		}
	}()
	if s.Tx, err = s.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}); err != nil {
		return nil, err
	}
	var version int
	err = s.QueryRowContext(ctx, `SELECT pg_export_snapshot(), current_setting('server_version_num')::int`).Scan(&s.ID, &version)
	if err != nil {
		return nil, errors.Join(err, s.Rollback())
	}
	s.Server = version / 10000
	return s, nil
}

// Close ends the snapshot.
func (s *Snapshot) Close() error {
	err := s.Rollback()
	if errors.Is(err, sql.ErrTxDone) {
		err = nil // the context that was passed to Snapshot has ended
	}
	return errors.Join(err, s.pool.Close())
}

// URL returns the URL of a PostgreSQL database with its password, or "" on SQLite.
func (d *DB) URL() string {
	if d.pool == nil {
		return ""
	}
	return d.pool.Config().ConnString()
}
