package db_test

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Compact returns the space of deleted rows to the disk, and keeps all other rows.
func TestCompact(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	ctx := t.Context()
	exec := func(query string, args ...any) {
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE ballast (id INTEGER PRIMARY KEY, text TEXT)`)
	exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO ballast (id, text) SELECT i, $1 FROM n`, strings.Repeat("x", 4000))
	exec(`DELETE FROM ballast WHERE id <> 7`)
	space, err := d.Space(ctx)
	if err != nil || space.Free < 3_000_000 || space.Size <= space.Free {
		t.Fatalf("space = %+v, %v; want at least 3 MB of free space", space, err)
	}
	before, after, err := d.Compact(ctx)
	if err != nil || before-after < 3_000_000 {
		t.Errorf("sizes = %d and %d, %v; want a file that is 3 MB smaller", before, after, err)
	}
	if space, err = d.Space(ctx); err != nil || space.Free != 0 || space.Size != after {
		t.Errorf("space afterwards = %+v, %v; want no free space and the size %d", space, err, after)
	}
	if ids, err := db.Column[int](d.QueryContext(ctx, `SELECT id FROM ballast`)); err != nil || len(ids) != 1 || ids[0] != 7 {
		t.Errorf("rows afterwards = %v, %v; want the row 7", ids, err)
	}
	if problems, err := d.IntegrityCheck(ctx); err != nil || len(problems) > 0 {
		t.Errorf("the database is damaged: %v, %v", problems, err)
	}
}
