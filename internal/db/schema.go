package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

var (
	// ErrOldSchema means that the database lacks migrations of this binary.
	ErrOldSchema = errors.New("the schema of the database is older than this certvault: " +
		"run certvault migrate, or start the server of this version, which migrates the database")
	// ErrNewSchema means that the schema requires a newer binary.
	ErrNewSchema = errors.New("the schema of the database is too new for this certvault")
)

// floorSince is the number of the migration that created the table schema_floor.
const floorSince = 30

// CheckSchema checks that this binary can use the database. It changes nothing. The error is
// ErrOldSchema if the database lacks a migration of this binary, and ErrNewSchema if this binary is
// older than the oldest binary that the schema allows. The table schema_floor names the oldest allowed
// binary by the number of its last migration, and by its release, which messages show. A migration that
// the previous release cannot work with raises the floor in the same transaction.
func (d *DB) CheckSchema(ctx context.Context) error {
	all, err := d.migrations()
	if err != nil {
		return err
	}
	empty, err := d.IsEmpty(ctx)
	if err != nil {
		return err
	}
	if empty {
		return ErrOldSchema
	}
	applied, err := Column[int](d.QueryContext(ctx, `SELECT version FROM schema_migrations`))
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	if slices.Contains(applied, floorSince) {
		if err := d.checkFloor(ctx, all[len(all)-1].version); err != nil {
			return err
		}
	}
	for _, m := range all {
		if !slices.Contains(applied, m.version) {
			return ErrOldSchema
		}
	}
	missing, err := d.missingQueueVersions(ctx)
	if err == nil && len(missing) > 0 {
		err = ErrOldSchema
	}
	return err
}

// checkFloor returns ErrNewSchema if the floor is above known, the number of this binary's last
// migration.
func (d *DB) checkFloor(ctx context.Context, known int) error {
	var version int
	var release string
	if err := d.QueryRowContext(ctx, `SELECT version, release FROM schema_floor WHERE id = 1`).Scan(&version, &release); err != nil {
		return fmt.Errorf("reading the schema's floor: %w", err)
	}
	if known < version {
		return fmt.Errorf("%w: install certvault %s or newer (the schema requires version %d, and this binary has version %d)", ErrNewSchema, release, version, known)
	}
	return nil
}

// IsEmpty reports whether the database has no schema yet.
func (d *DB) IsEmpty(ctx context.Context) (bool, error) {
	exists, err := tableExists(ctx, d, d.Dialect, "schema_migrations")
	return !exists, err
}

func tableExists(ctx context.Context, q Queryer, dialect Dialect, name string) (exists bool, err error) {
	query := `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)`
	if dialect == PostgreSQL {
		query = `SELECT to_regclass($1) IS NOT NULL`
	}
	if err := q.QueryRowContext(ctx, query, name).Scan(&exists); err != nil {
		return false, fmt.Errorf("looking up the table %s: %w", name, err)
	}
	return exists, nil
}

// missingQueueVersions returns the versions of the queue's schema that the database lacks. It does
// not use River's check, because that check rejects a database with versions that River does not
// know.
func (d *DB) missingQueueVersions(ctx context.Context) ([]int, error) {
	versions, err := queueVersions(d.Dialect)
	if err != nil {
		return nil, err
	}
	exists, err := tableExists(ctx, d, d.Dialect, "river_migration")
	if err != nil || !exists {
		return versions, err
	}
	applied, err := Column[int](d.QueryContext(ctx, `SELECT version FROM river_migration WHERE line = 'main'`))
	if err != nil {
		return nil, fmt.Errorf("reading the version of the queue's schema: %w", err)
	}
	return slices.DeleteFunc(versions, func(v int) bool { return slices.Contains(applied, v) }), nil
}

// queueVersions returns all versions of the queue's schema that this binary knows.
func queueVersions(dialect Dialect) (list []int, err error) {
	add := func(all []rivermigrate.Migration) {
		for _, m := range all {
			list = append(list, m.Version)
		}
	}
	if dialect == PostgreSQL {
		m, err := rivermigrate.New(riverpgxv5.New(nil), nil)
		if err != nil {
			return nil, fmt.Errorf("reading the migrations of the queue: %w", err)
		}
		add(m.AllVersions())
		return list, nil
	}
	m, err := rivermigrate.New(riversqlite.New(nil), nil)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations of the queue: %w", err)
	}
	add(m.AllVersions())
	return list, nil
}

// SchemaVersion returns the highest number of an applied migration, and the number of the last
// migration of this binary.
func (d *DB) SchemaVersion(ctx context.Context) (applied, known int, err error) {
	all, err := d.migrations()
	if err != nil {
		return 0, 0, err
	}
	known = all[len(all)-1].version
	applied, err = AppliedVersion(ctx, d)
	return applied, known, err
}

// AppliedVersion returns the highest number of a migration that was applied to the database that q
// reads.
func AppliedVersion(ctx context.Context, q Queryer) (version int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT max(version) FROM schema_migrations`).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the schema's version: %w", err)
	}
	return version, nil
}
