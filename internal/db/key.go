package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// KeyCheck returns the stored value that identifies the master key of this database. If no value is
// stored, KeyCheck stores value, and calls first(tx) in the same transaction.
func (d *DB) KeyCheck(ctx context.Context, value []byte, first func(tx *Tx) error) (stored []byte, err error) {
	err = d.Tx(ctx, func(tx *Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO key_checks (id, value) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, value)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if n > 0 {
			if err := first(tx); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `SELECT value FROM key_checks WHERE id = 1`).Scan(&stored)
	})
	if err != nil {
		return nil, fmt.Errorf("checking the master key: %w", err)
	}
	return stored, nil
}

// HasKey reports whether KeyCheck has stored a value.
func (d *DB) HasKey(ctx context.Context) (known bool, err error) {
	if err := d.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM key_checks)`).Scan(&known); err != nil {
		return false, fmt.Errorf("checking the master key: %w", err)
	}
	return known, nil
}

// Installation returns the id of the installation to which the database belongs, or "" if the database has
// no id, for example because its schema does not have the table yet.
func (d *DB) Installation(ctx context.Context) (id string, err error) {
	return installation(ctx, d, d.Dialect)
}

func installation(ctx context.Context, q Queryer, dialect Dialect) (id string, err error) {
	if exists, err := tableExists(ctx, q, dialect, "installations"); err != nil || !exists {
		return "", err
	}
	err = q.QueryRowContext(ctx, `SELECT uuid FROM installations WHERE id = 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the installation of the database: %w", err)
	}
	return id, nil
}

// SetBaseURL stores the base URL with which a server was started. The database must have an
// installation id.
func (d *DB) SetBaseURL(ctx context.Context, base string) error {
	if err := d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE installations SET base_url = $1 WHERE id = 1 AND base_url <> $1`, base)
		return err
	}); err != nil {
		return fmt.Errorf("storing the base URL: %w", err)
	}
	return nil
}

// BaseURL returns the base URL with which a server was last started, or "" if no server has stored
// a base URL.
func (d *DB) BaseURL(ctx context.Context) (base string, err error) {
	err = d.QueryRowContext(ctx, `SELECT base_url FROM installations WHERE id = 1`).Scan(&base)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the base URL: %w", err)
	}
	return base, nil
}

// SetInstallation stores the id of the installation, unless the database already has an id.
func (d *DB) SetInstallation(ctx context.Context, id string) error {
	err := d.Tx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO installations (id, uuid) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the installation of the database: %w", err)
	}
	return nil
}
