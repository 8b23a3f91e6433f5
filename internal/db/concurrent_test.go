package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// An index is created while transactions write to its table, and again after an interruption.
func TestIndexIsCreatedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	ctx := t.Context()
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM schema_migrations WHERE name = '0063_damaged.sql'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		for _, statement := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `LOCK TABLE certificate_checks IN ROW EXCLUSIVE MODE`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		go func() { migrated <- d.Migrate(ctx) }()
		// The creation waits for this transaction, and another one can still write.
		for waiting := 0; waiting == 0; {
			if err := d.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
				AND query LIKE '%INDEX CONCURRENTLY%'`).Scan(&waiting); err != nil {
				return err
			}
			select {
			case err := <-migrated:
				return fmt.Errorf("the migration did not wait: %w", err)
			case <-time.After(time.Millisecond):
			}
		}
		return d.Tx(ctx, func(other *db.Tx) error {
			if _, err := other.ExecContext(ctx, `SET LOCAL lock_timeout = 1000`); err != nil {
				return err
			}
			_, err := other.ExecContext(ctx, `DELETE FROM certificate_checks`)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	var valid bool
	if err := d.QueryRowContext(ctx, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'certificate_checks_failed_idx'::regclass`).Scan(&valid); err != nil || !valid {
		t.Errorf("the index is valid: %v, %v, want true", valid, err)
	}
}
