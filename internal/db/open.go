package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the name of the SQLite database within the data folder.
const FileName = "certvault.db"

// Open opens the database: PostgreSQL where url is given, else SQLite in the
// data folder. It applies no migration.
func Open(ctx context.Context, dataDir, databaseURL string) (*DB, error) {
	if databaseURL == "" {
		return openSQLite(ctx, filepath.Join(dataDir, FileName))
	}
	if !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return nil, errors.New("the database URL must begin with postgres://")
	}
	return openPostgres(ctx, databaseURL)
}

// openSQLite sets what has to be set per connection in the DSN, since the pool
// may open a new one at any time. synchronous=FULL: with NORMAL a commit that
// was acknowledged can be lost when the power goes (sqlite.org/wal.html, 2.3).
func openSQLite(ctx context.Context, file string) (*DB, error) {
	dsn := func(params ...string) string {
		q := url.Values{}
		for _, p := range []string{"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "busy_timeout(10000)", "cache_size(-16000)", "temp_store(MEMORY)"} {
			q.Add("_pragma", p)
		}
		for _, p := range params {
			k, v, _ := strings.Cut(p, "=")
			q.Add(k, v)
		}
		return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: q.Encode()}).String()
	}
	// BEGIN IMMEDIATE takes the write lock at once: a deferred transaction that
	// reads and then writes fails when another wrote between.
	write, err := sql.Open("sqlite", dsn("_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	read, err := sql.Open("sqlite", dsn("_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), write.Close())
	}
	readers := max(4, runtime.NumCPU())
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	// The writer comes first: it makes the file and sets its journal mode.
	if err := write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), write.Close(), read.Close())
	}
	return &DB{Dialect: SQLite, write: write, read: read, statements: newStatements(read, keptStatements)}, nil
}

func openPostgres(ctx context.Context, databaseURL string) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		// The parser's message repeats the URL with its password.
		return nil, errors.New("the database URL cannot be read: see the PostgreSQL connection URI syntax")
	}
	// A generic plan of the search took 320 ms where a custom one took 1 ms.
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	// Fewer rows than it compiles for are what lists read.
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	// A page of an index costs little more than the next page of a table.
	cfg.ConnConfig.RuntimeParams["random_page_cost"] = "1.1"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.ConnConfig.RuntimeParams["application_name"] = "certvault"
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if cfg.MaxConns < 16 {
		cfg.MaxConns = 16
	}
	cfg.MaxConnIdleTime = 5 * time.Minute
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	std := stdlib.OpenDBFromPool(pool)
	d := &DB{Dialect: PostgreSQL, write: std, read: std, pool: pool}
	if err := d.checkLocale(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// checkLocale refuses a database in which letters outside ASCII are no
// letters: trigrams of such names are empty there, and nothing would be found.
func (d *DB) checkLocale(ctx context.Context) error {
	var encoding, ctype string
	err := d.read.QueryRowContext(ctx,
		`SELECT pg_encoding_to_char(encoding), datctype FROM pg_database WHERE datname = current_database()`).
		Scan(&encoding, &ctype)
	if err != nil {
		return fmt.Errorf("reading the database's locale: %w", err)
	}
	if encoding != "UTF8" || ctype == "C" || ctype == "POSIX" {
		return fmt.Errorf("the database has encoding %s and LC_CTYPE %s, in which names outside ASCII cannot be searched: "+
			"make it with CREATE DATABASE certvault TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'", encoding, ctype)
	}
	return nil
}

// IsUnique tells whether err is the violation of a unique constraint, which a
// domain reads as an answer: PostgreSQL's 23505 or SQLite's 2067 and 1555.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// UniqueOn tells whether err is a unique violation on a table's column: SQLite
// names the columns, PostgreSQL the constraint, which the schema names
// table_columns_key.
func UniqueOn(err error, table, column string) bool {
	if !IsUnique(err) {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.TableName == table && strings.Contains(e.ConstraintName, column)
	}
	return strings.Contains(err.Error(), table+"."+column)
}
