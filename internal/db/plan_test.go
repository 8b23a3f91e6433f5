package db_test

import (
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestPlansOfPostgreSQL checks that a list is planned for each use, and that a statement of a
// transaction is not.
func TestPlansOfPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := dbtest.Open(t, "", dbtest.PostgresURL(t))
	const byKey, list = `SELECT $1::int`, `SELECT $1::int ORDER BY 1`
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		var n, plans int
		for range 8 {
			if err := tx.QueryRowContext(ctx, byKey, 1).Scan(&n); err != nil {
				return err
			}
		}
		if err := tx.QueryRowContext(ctx, `SELECT generic_plans FROM pg_prepared_statements WHERE statement = $1`, byKey).Scan(&plans); err != nil {
			return err
		}
		if plans == 0 {
			t.Error("generic_plans = 0 after 8 uses of a statement in transactions, want more")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var n, named int
	for range 8 {
		if err := d.QueryRowContext(ctx, list, 1).Scan(&n); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	if err := d.QueryRowContext(ctx, `SELECT count(*) FROM pg_prepared_statements WHERE statement = $1`, list).Scan(&named); err != nil {
		t.Fatal(err)
	}
	if named != 0 {
		t.Error("the list is a prepared statement, want an unnamed one that is planned for each use")
	}
}
