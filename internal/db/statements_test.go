package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

func openWithStatements(t *testing.T, limit int) *DB {
	t.Helper()
	d, err := Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.statements = newStatements(d.read, limit)
	return d
}

// number returns the result of a query for one integer.
func number(ctx context.Context, d *DB, query string, args ...any) (n int, err error) {
	err = d.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// numbers returns the result of a query for a column of integers.
func numbers(ctx context.Context, d *DB, query string, args ...any) (list []int, err error) {
	rows, err := d.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

func TestStatementsConcurrently(t *testing.T) {
	t.Parallel()
	d := openWithStatements(t, 5)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 400 {
				// Ten texts compete for five entries of the cache.
				text, want := fmt.Sprintf(`SELECT $1 + %d`, i%10), worker*1000+i%10
				if i%2 == 0 {
					if n, err := number(t.Context(), d, text, worker*1000); err != nil || n != want {
						t.Errorf("%s = %d, %v, want %d", text, n, err, want)
					}
					continue
				}
				if got, err := numbers(t.Context(), d, text+` UNION ALL SELECT 0`, worker*1000); err != nil || !slices.Equal(got, []int{want, 0}) {
					t.Errorf("%s = %v, %v, want %d and 0", text, got, err, want)
				}
			}
		})
	}
	all.Wait()
	if n := len(d.statements.prepared); n != 5 {
		t.Errorf("%d statements are prepared, want 5", n)
	}
}

func TestStatementsAreBounded(t *testing.T) {
	t.Parallel()
	d := openWithStatements(t, 3)
	for i := range maxCounted * 3 {
		if n, err := number(t.Context(), d, fmt.Sprintf(`SELECT %d`, i)); err != nil || n != i {
			t.Fatalf("result = %d, %v, want %d", n, err, i)
		}
	}
	if len(d.statements.prepared) != 0 || len(d.statements.uses) > maxCounted {
		t.Errorf("%d texts that were used once are prepared and %d are counted, want none and at most maxCounted", len(d.statements.prepared), len(d.statements.uses))
	}
	for range 3 * usesToPrepare {
		for i := range 6 {
			if n, err := number(t.Context(), d, `SELECT $1 -- `+fmt.Sprint(i), i); err != nil || n != i {
				t.Fatalf("result = %d, %v, want %d", n, err, i)
			}
		}
	}
	if n := len(d.statements.prepared); n != 3 {
		t.Errorf("%d statements are prepared, want 3", n)
	}
}

func TestStatementsThatFail(t *testing.T) {
	t.Parallel()
	d := openWithStatements(t, 3)
	for range 2 * usesToPrepare {
		if _, err := number(t.Context(), d, `SELECT missing FROM unknown`); err == nil {
			t.Error("an invalid statement returned no error")
		}
	}
	if n := len(d.statements.prepared); n != 0 {
		t.Errorf("%d statements are prepared, want 0", n)
	}
	// A cancelled caller must release its reserved entry.
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * usesToPrepare {
		if _, err := number(canceled, d, `SELECT 7`); err == nil {
			t.Error("a cancelled query returned no error")
		}
	}
	for range 2 * usesToPrepare {
		if n, err := number(t.Context(), d, `SELECT 7`); err != nil || n != 7 {
			t.Errorf("result = %d, %v, want 7", n, err)
		}
	}
	if n := len(d.statements.prepared); n != 1 {
		t.Errorf("%d statements are prepared, want 1", n)
	}
}

// TestStatementAfterTheSchemaChanged checks that a cached statement works after the schema has
// changed.
func TestStatementAfterTheSchemaChanged(t *testing.T) {
	t.Parallel()
	d := openWithStatements(t, 3)
	change := func(text string) {
		t.Helper()
		if err := d.Tx(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	change(`CREATE TABLE note (n INTEGER NOT NULL)`)
	change(`INSERT INTO note (n) VALUES (1), (2)`)
	for _, statement := range []string{
		`INSERT INTO note (n) VALUES (3)`, `CREATE INDEX note_n_idx ON note (n)`, `ALTER TABLE note ADD COLUMN m INTEGER NOT NULL DEFAULT 0`, `DROP TABLE note`,
		`CREATE TABLE note (m TEXT, n INTEGER NOT NULL)`, `INSERT INTO note (n) VALUES (9)`,
	} {
		change(statement)
		want := 0
		if statement != `DROP TABLE note` {
			if err := d.read.QueryRowContext(t.Context(), `SELECT coalesce(max(n), 0) FROM note`).Scan(&want); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * usesToPrepare {
			n, err := number(t.Context(), d, `SELECT coalesce(max(n), 0) FROM note`)
			if (err != nil) != (statement == `DROP TABLE note`) || n != want {
				t.Errorf("after %s: result = %d, %v, want %d", statement, n, err, want)
			}
		}
	}
}
