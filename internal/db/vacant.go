package db

import (
	"context"
	"errors"
	"fmt"
)

// restoring is the name of a table that exists in a PostgreSQL database while a restore is not complete.
// The table is not part of the schema.
const restoring = "certvault_restoring"

// ErrRestoring means that a restore of the database was interrupted.
var ErrRestoring = errors.New("an earlier restore into this database was interrupted; " +
	"drop the database, create it again, and run certvault restore again")

// KnownSchema returns the number of the last migration of this binary for a dialect.
func KnownSchema(dialect Dialect) (int, error) {
	all, err := (&DB{Dialect: dialect}).migrations()
	if err != nil {
		return 0, err
	}
	return all[len(all)-1].version, nil
}

// FirstTable returns the name of a relation of a PostgreSQL database, such as a table, with its schema. It
// returns "" if there is none. It ignores the relations of PostgreSQL itself and of extensions.
func (d *DB) FirstTable(ctx context.Context) (name string, err error) {
	err = d.QueryRowContext(ctx, `
		SELECT coalesce(min(n.nspname || '.' || c.relname), '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%' AND n.nspname NOT LIKE 'pg_temp%'
			AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`).Scan(&name)
	if err != nil {
		return "", fmt.Errorf("listing the tables of the database: %w", err)
	}
	return name, nil
}

// CheckRestoring returns ErrRestoring if a restore of the database began and is not complete.
func (d *DB) CheckRestoring(ctx context.Context) error {
	if d.Dialect != PostgreSQL {
		return nil
	}
	exists, err := tableExists(ctx, d, d.Dialect, restoring)
	if err == nil && exists {
		err = ErrRestoring
	}
	return err
}

// BeginRestore marks a PostgreSQL database, so that no process uses it before the restore is
// complete. The error is ErrRestoring if the database is marked already.
func (d *DB) BeginRestore(ctx context.Context) error {
	if err := d.CheckRestoring(ctx); err != nil {
		return err
	}
	return d.Tx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE `+restoring+` (began_at timestamptz NOT NULL DEFAULT now())`); err != nil {
			return fmt.Errorf("marking the database: %w", err)
		}
		return nil
	})
}

// EndRestoreTx removes the mark of BeginRestore. It does nothing on SQLite.
func EndRestoreTx(ctx context.Context, tx *Tx) error {
	if tx.dialect != PostgreSQL {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS `+restoring); err != nil {
		return fmt.Errorf("removing the mark of the database: %w", err)
	}
	return nil
}

// Analyze updates the planner statistics of PostgreSQL. It does nothing on SQLite.
func (d *DB) Analyze(ctx context.Context) error {
	if d.Dialect != PostgreSQL {
		return nil
	}
	ctx = Unlimited(ctx)
	if err := d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `ANALYZE`)
		return err
	}); err != nil {
		return fmt.Errorf("updating the statistics of the database: %w", err)
	}
	return nil
}
