package db

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// migrations contains one folder per dialect, with files NNNN_name.sql that are applied in the order of
// their numbers. SQLite lacks migrations that only concern the locks of PostgreSQL. There are no down
// migrations. The binary of the previous release must work with the new schema, or the migration must
// raise the version in the table schema_floor (see CheckSchema). On PostgreSQL, an index on a large
// table is created by a migration that begins with outsideTransaction. A migration in a transaction must
// not read a large table, because other transactions wait for the locks of the migration. It leaves such
// work to a periodic task, as 0079 does. largeTables, in the tests, contains the names of the large tables.
//
//go:embed migrations
var migrations embed.FS

// MigrationsDigest returns a hexadecimal digest of all migrations for a dialect. It is for tests,
// which share migrated databases.
func MigrationsDigest(dialect Dialect) (string, error) {
	d := &DB{Dialect: dialect}
	list, err := d.migrations()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, list)))[:16], nil
}

const (
	// migrateLock is the key of the advisory lock that allows only one of several starting nodes to
	// migrate: "cvlt" in ASCII.
	migrateLock = 0x63766c74
	// migrateLockPoll is the interval at which a node tries to get the advisory lock.
	migrateLockPoll = 200 * time.Millisecond
	// migrateLockTime limits the wait of a migration for a lock on a table. During the wait, later
	// statements on the table may have to wait too.
	migrateLockTime = 2 * time.Second
	// migrateAttempts is the number of attempts to get the locks of a migration, and migratePause
	// is the mean pause between two attempts, in which other statements continue. All attempts and
	// pauses together take about a minute and a half.
	migrateAttempts = 30
	migratePause    = time.Second
)

type migration struct {
	version int
	name    string
	sql     string
}

// Migrate applies the migrations that the database lacks, and the migrations of the queue. Each
// migration runs in its own transaction, or outside a transaction (see outsideTransaction). Other
// processes may use the database meanwhile. If the schema is too new for this binary, the error is
// ErrNewSchema.
func (d *DB) Migrate(ctx context.Context) (err error) {
	if err := d.CheckSchema(ctx); !errors.Is(err, ErrOldSchema) {
		return err
	}
	// The creation of an index on a large table may take minutes.
	ctx = Unlimited(ctx)
	if d.Dialect == PostgreSQL {
		unlock, failed := d.lockMigrations(ctx)
		if failed != nil {
			return fmt.Errorf("migrating: %w", failed)
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	all, err := d.migrations()
	if err != nil {
		return err
	}
	if err := d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx,
			`CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
		return err
	}); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	for _, m := range all {
		if err := patiently(ctx, func() error { return d.apply(ctx, m) }); err != nil {
			return fmt.Errorf("migrating: %s: %w", m.name, err)
		}
	}
	if err := patiently(ctx, func() error { return d.migrateQueue(ctx) }); err != nil {
		return fmt.Errorf("migrating the queue: %w", err)
	}
	return nil
}

// lockMigrations waits until no other node is migrating, creates missing extensions, and returns a
// function that releases the lock.
func (d *DB) lockMigrations(ctx context.Context) (unlock func() error, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Release()
		}
	}()
	// pg_advisory_lock would be subject to lock_timeout, and another node may migrate for minutes.
	for locked := false; !locked; {
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrateLock).Scan(&locked); err != nil {
			return nil, fmt.Errorf("acquiring the lock: %w", err)
		}
		if !locked && !pause(ctx, migrateLockPoll) {
			return nil, fmt.Errorf("waiting for another node that migrates: %w", ctx.Err())
		}
	}
	unlock = func() error {
		defer conn.Release()
		_, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrateLock)
		return err
	}
	if err := createExtensions(ctx, conn); err != nil {
		_, e := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrateLock)
		return nil, errors.Join(err, e)
	}
	return unlock, nil
}

// Extensions are the PostgreSQL extensions that the schema requires: the schema has an index on
// trigrams that also includes the institution.
var Extensions = []string{"pg_trgm", "btree_gin"}

// createExtensions creates missing extensions. The owner of the database may create these
// extensions.
func createExtensions(ctx context.Context, conn *pgxpool.Conn) error {
	for _, name := range Extensions {
		if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS "+name); err != nil {
			return fmt.Errorf("the database requires the PostgreSQL extension %[1]s, which could not be created; "+
				"install it on the server (package postgresql-contrib), then run, as the database's owner or a superuser, "+
				"CREATE EXTENSION %[1]s; in this database, and restart: %[2]w", name, err)
		}
	}
	return nil
}

// patiently calls f up to migrateAttempts times, until f does not fail because of the locks of other
// transactions. It does the same after a deadlock, which DB.Tx handles only for its own transactions.
func patiently(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		switch {
		case !hasState(err, "55P03") && !isRepeatable(err): // lock_not_available
			return err
		case attempt == migrateAttempts:
			return fmt.Errorf("other transactions held locks for too long; stop other servers or long queries, and try again: %w", err)
		case !pause(ctx, migratePause):
			return err
		}
	}
}

// apply applies a migration, unless the database already has it.
func (d *DB) apply(ctx context.Context, m migration) error {
	if strings.HasPrefix(m.sql, outsideTransaction) {
		return d.statements(ctx, m)
	}
	return d.Tx(ctx, func(tx *Tx) error {
		var applied bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schema_migrations WHERE version = $1)`, m.version).Scan(&applied)
		if err != nil || applied {
			return err
		}
		if err := tx.script(ctx, limitsOf(tx.dialect)+m.sql); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)`, m.version, m.name, Micros(time.Now()))
		return err
	})
}

// limitsOf returns the statements that set the time limits of a migration.
func limitsOf(dialect Dialect) string {
	if dialect != PostgreSQL {
		return ""
	}
	return fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0;\n", migrateLockTime.Milliseconds())
}

// script runs a text of several statements. PostgreSQL accepts such a text only in the simple protocol,
// which pgx does not use by default.
func (tx *Tx) script(ctx context.Context, text string) error {
	if tx.dialect == PostgreSQL {
		_, err := tx.ExecContext(ctx, text, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	_, err := tx.ExecContext(ctx, text)
	return err
}

// migrations returns all migrations of this binary, ordered by their numbers.
func (d *DB) migrations() ([]migration, error) {
	dir := "migrations/" + string(d.Dialect)
	entries, err := fs.ReadDir(migrations, dir)
	if err != nil {
		return nil, fmt.Errorf("reading migrations: %w", err)
	}
	all := make([]migration, 0, len(entries))
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("the name of the migration %s has no number: %w", e.Name(), err)
		}
		text, err := fs.ReadFile(migrations, dir+"/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", e.Name(), err)
		}
		all = append(all, migration{version: version, name: e.Name(), sql: string(text)})
	}
	return all, nil
}

// migrateQueue applies the migrations of the queue that the database lacks, each in its own
// transaction.
func (d *DB) migrateQueue(ctx context.Context) error {
	missing, err := d.missingQueueVersions(ctx)
	if err != nil {
		return err
	}
	if d.Dialect == SQLite {
		m, err := rivermigrate.New(riversqlite.New(d.write), nil)
		if err == nil && len(missing) > 0 {
			_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
		}
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(d.pool), nil)
	if err != nil {
		return err
	}
	for range missing {
		if err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, limitsOf(d.Dialect)); err != nil {
				return err
			}
			//nolint:staticcheck // deprecated, because some migrations need separate transactions; MaxSteps applies only one
			_, err := m.MigrateTx(ctx, tx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{MaxSteps: 1})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
