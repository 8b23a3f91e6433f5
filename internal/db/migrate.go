package db

import (
	"context"
	"database/sql"
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

// migrations contains one folder per dialect, with files NNNN_name.sql that are applied in the
// order of their numbers. There are no down migrations, and the binary of the previous release must
// work with the new schema.
//
//go:embed migrations
var migrations embed.FS

// migrateLock is the key of the advisory lock that allows only one of several starting nodes to
// migrate: "cvlt" in ASCII.
const migrateLock = 0x63766c74

type migration struct {
	version int
	name    string
	sql     string
}

// Migrate updates the schema, and the schema of the queue, to this binary's version.
func (d *DB) Migrate(ctx context.Context) (err error) {
	if d.Dialect == PostgreSQL {
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
		defer conn.Release()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrateLock); err != nil {
			return fmt.Errorf("migrating: acquiring the lock: %w", err)
		}
		defer func() {
			_, e := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrateLock)
			err = errors.Join(err, e)
		}()
		if err := createExtensions(ctx, conn); err != nil {
			return err
		}
	}
	if err := d.migrateSchema(ctx); err != nil {
		return err
	}
	return d.migrateQueue(ctx)
}

// extensions are the PostgreSQL extensions that the schema requires. It has an index on trigrams
// that also includes the institution.
var extensions = []string{"pg_trgm", "btree_gin"}

// createExtensions creates missing extensions. The owner of the database has the right to do that.
func createExtensions(ctx context.Context, conn *pgxpool.Conn) error {
	for _, name := range extensions {
		if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS "+name); err != nil {
			return fmt.Errorf("migrating: the database requires the PostgreSQL extension %[1]s, which could not be created; "+
				"install it on the server (package postgresql-contrib), then run, as the database's owner or a superuser, "+
				"CREATE EXTENSION %[1]s; in this database, and restart: %[2]w", name, err)
		}
	}
	return nil
}

func (d *DB) migrateSchema(ctx context.Context) error {
	all, err := d.migrations()
	if err != nil {
		return err
	}
	return d.Tx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx,
			`CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
		var at sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT max(version) FROM schema_migrations`).Scan(&at); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
		for _, m := range all {
			if int64(m.version) <= at.Int64 {
				continue
			}
			if err := tx.script(ctx, m.sql); err != nil {
				return fmt.Errorf("migrating: %s: %w", m.name, err)
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)`,
				m.version, m.name, Micros(time.Now())); err != nil {
				return fmt.Errorf("migrating: %s: %w", m.name, err)
			}
		}
		return nil
	})
}

// script runs several statements. By default, pgx prepares a statement and can then prepare only
// one statement at a time; the simple protocol accepts several statements.
func (tx *Tx) script(ctx context.Context, text string) error {
	if tx.dialect == PostgreSQL {
		_, err := tx.ExecContext(ctx, text, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	_, err := tx.ExecContext(ctx, text)
	return err
}

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

func (d *DB) migrateQueue(ctx context.Context) error {
	migrate := func(up func() (*rivermigrate.MigrateResult, error)) error {
		if _, err := up(); err != nil {
			return fmt.Errorf("migrating the queue: %w", err)
		}
		return nil
	}
	if d.Dialect == PostgreSQL {
		m, err := rivermigrate.New(riverpgxv5.New(d.pool), nil)
		if err != nil {
			return fmt.Errorf("migrating the queue: %w", err)
		}
		return migrate(func() (*rivermigrate.MigrateResult, error) { return m.Migrate(ctx, rivermigrate.DirectionUp, nil) })
	}
	m, err := rivermigrate.New(riversqlite.New(d.write), nil)
	if err != nil {
		return fmt.Errorf("migrating the queue: %w", err)
	}
	return migrate(func() (*rivermigrate.MigrateResult, error) { return m.Migrate(ctx, rivermigrate.DirectionUp, nil) })
}

// SchemaVersion returns the number of the last applied migration, and the number of the last
// migration of this binary.
func (d *DB) SchemaVersion(ctx context.Context) (applied, known int, err error) {
	all, err := d.migrations()
	if err != nil {
		return 0, 0, err
	}
	known = all[len(all)-1].version
	if err := d.QueryRowContext(ctx, `SELECT max(version) FROM schema_migrations`).Scan(&applied); err != nil {
		return 0, known, fmt.Errorf("reading the schema's version: %w", err)
	}
	return applied, known, nil
}
