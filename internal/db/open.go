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

// pageCost is the setting random_page_cost of PostgreSQL: most index pages are cached, so a random page costs
// little more than a sequential page.
const pageCost = "1.1"

// FileName is the name of the SQLite database in the data folder.
const FileName = "certvault.db"

// Open opens the database: PostgreSQL if databaseURL is not empty, and otherwise SQLite in the data
// folder. It applies no migrations.
func Open(ctx context.Context, dataDir, databaseURL string) (*DB, error) {
	if databaseURL == "" {
		return openSQLite(ctx, filepath.Join(dataDir, FileName))
	}
	if err := checkURL(databaseURL); err != nil {
		return nil, err
	}
	return openPostgres(ctx, databaseURL, defaultDeadlines, usePrimary)
}

// checkURL checks the scheme of a URL of PostgreSQL.
func checkURL(databaseURL string) error {
	if !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return errors.New("the database URL must begin with postgres://")
	}
	return nil
}

// openSQLite sets the options of each connection in the DSN, because the pool may open a new
// connection at any time. It sets synchronous=FULL, because with NORMAL an acknowledged commit can
// be lost in a power failure (sqlite.org/wal.html, 2.3).
func openSQLite(ctx context.Context, file string) (*DB, error) {
	if err := registerFunctions(); err != nil {
		return nil, err
	}
	// BEGIN IMMEDIATE acquires the write lock at once. A deferred transaction that reads and then
	// writes fails if another transaction wrote in between.
	write, err := openPool(sqliteDSN(file, "_txlock=immediate"), maxPrepared)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	read, err := openPool(sqliteDSN(file, "_pragma=query_only(1)"), maxPrepared)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), write.Close())
	}
	readers := max(4, runtime.NumCPU())
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	// The writer must be pinged first: it creates the file and sets its journal mode.
	if err := write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), write.Close(), read.Close())
	}
	return &DB{Dialect: SQLite, file: file, write: write, read: read}, nil
}

// openPool returns a pool of connections that cache at most limit prepared statements each.
func openPool(dsn string, limit int) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(preparing{c, limit}), nil
}

// sqliteDSN returns the DSN of a SQLite database with the options of all connections and params.
func sqliteDSN(file string, params ...string) string {
	q := url.Values{}
	for _, p := range []string{"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "busy_timeout(10000)", "cache_size(-16000)", "temp_store(MEMORY)"} {
		q.Add("_pragma", p)
	}
	return sqliteURL(file, q, params...)
}

// sqliteURL returns the DSN of a SQLite database with the options in q and params.
func sqliteURL(file string, q url.Values, params ...string) string {
	for _, p := range params {
		k, v, _ := strings.Cut(p, "=")
		q.Add(k, v)
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// usePrimary makes commits wait for the disk. It also makes each new connection fail if its server is a standby,
// which the URL of a primary with several hosts may reach while the primary restarts. Reads from a standby could
// be old, so that a revoked certificate would be valid. The parameter target_session_attrs of the URL has
// precedence, except "any".
func usePrimary(cfg *pgxpool.Config) {
	waitForDisk(cfg)
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
}

// openPostgres opens a PostgreSQL database. use changes the configuration for a primary or for a replica.
func openPostgres(ctx context.Context, databaseURL string, limits deadlines, use func(*pgxpool.Config)) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		// The parser's message may contain the password of the URL.
		return nil, errors.New("the database URL is invalid; see the PostgreSQL connection URI syntax")
	}
	// PostgreSQL plans a prepared statement for its values five times. Then it keeps one plan for all
	// values, unless it estimates that this plan is worse. Lists are planned for their values each time:
	// see listMode.
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "auto"
	// Lists read too few rows to benefit from JIT compilation.
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	cfg.ConnConfig.RuntimeParams["random_page_cost"] = pageCost
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.ConnConfig.RuntimeParams["application_name"] = "certvault"
	cfg.ConnConfig.AfterNetConnect = markBroken
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if err := setPoolSize(cfg, databaseURL); err != nil {
		return nil, err
	}
	cfg.MaxConnIdleTime = 5 * time.Minute
	limitConnections(ctx, cfg, limits)
	use(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	if err := checkSession(ctx, pool); err != nil {
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

// waitForDisk makes commits wait for the disk even if synchronous_commit is off for the server, the
// database or the user. Otherwise a crash of the server could lose an acknowledged certificate. A value in the
// URL and the other values, such as remote_apply, remain.
func waitForDisk(cfg *pgxpool.Config) {
	if _, ok := cfg.ConnConfig.RuntimeParams["synchronous_commit"]; ok {
		return
	}
	previous := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if previous != nil {
			if err := previous(ctx, conn); err != nil {
				return err
			}
		}
		// A value that the session sets does not change if the configuration is loaded again.
		_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), FALSE)`,
			pgx.QueryExecModeSimpleProtocol)
		return err
	}
}

// checkLocale rejects a database whose locale does not classify non-ASCII letters as letters. The
// trigrams of such a database ignore these letters, so a search would not find names with them.
func (d *DB) checkLocale(ctx context.Context) error {
	var encoding, ctype string
	err := d.read.QueryRowContext(ctx,
		`SELECT pg_encoding_to_char(encoding), datctype FROM pg_database WHERE datname = current_database()`).
		Scan(&encoding, &ctype)
	if err != nil {
		return fmt.Errorf("reading the database's locale: %w", err)
	}
	if encoding != "UTF8" || ctype == "C" || ctype == "POSIX" {
		return fmt.Errorf("the database has encoding %s and LC_CTYPE %s, so that non-ASCII names cannot be searched; "+
			"create it with CREATE DATABASE certvault TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'", encoding, ctype)
	}
	return nil
}

// IsUnique reports whether err is a violation of a unique constraint: PostgreSQL's 23505 or
// SQLite's 2067 and 1555. Domain packages handle such an error as a regular result.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// UniqueOn reports whether err is a unique violation on a column of a table. SQLite reports the
// columns; PostgreSQL reports the constraint, whose name must contain the column.
func UniqueOn(err error, table, column string) bool {
	if !IsUnique(err) {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.TableName == table && strings.Contains(e.ConstraintName, column)
	}
	return strings.Contains(err.Error(), table+"."+column)
}
