package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// openPreparing opens a new database with one connection, which caches at most limit statements.
func openPreparing(t *testing.T, limit int) *sql.DB {
	t.Helper()
	d, err := openPool(sqliteDSN(filepath.Join(t.TempDir(), FileName)), limit)
	if err != nil {
		t.Fatal(err)
	}
	d.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.ExecContext(t.Context(), `CREATE TABLE note (n INTEGER NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return d
}

// cached returns the number of statements that the connection caches.
func cached(t *testing.T, d *sql.DB) (n int) {
	t.Helper()
	conn, err := d.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Raw(func(c any) error {
		p, ok := c.(*preparingConn)
		if !ok {
			return fmt.Errorf("the connection is a %T", c)
		}
		n = len(p.statements)
		return nil
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

// number returns the result of a query for one integer.
func number(ctx context.Context, d *sql.DB, query string, args ...any) (n int, err error) {
	err = d.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

func TestPreparedStatementsConcurrently(t *testing.T) {
	t.Parallel()
	d := openPreparing(t, 5)
	d.SetMaxOpenConns(3)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 400 {
				// Ten texts compete for the five entries of each connection.
				text, want := fmt.Sprintf(`SELECT $1 + %d`, i%10), worker*1000+i%10
				if n, err := number(t.Context(), d, text, worker*1000); err != nil || n != want {
					t.Errorf("%s = %d, %v, want %d", text, n, err, want)
				}
			}
		})
	}
	all.Wait()
	if n := cached(t, d); n != 5 {
		t.Errorf("%d statements are cached, want 5", n)
	}
}

// TestStatementThatIsInUse checks that a statement can run again while its rows are read, and that a
// statement in use is not closed.
func TestStatementThatIsInUse(t *testing.T) {
	t.Parallel()
	d := openPreparing(t, 2)
	tx, err := d.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for n := range 3 {
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO note (n) VALUES ($1)`, n); err != nil {
			t.Fatal(err)
		}
	}
	const query = `SELECT n FROM note WHERE n >= $1 ORDER BY n`
	rows, err := tx.QueryContext(t.Context(), query, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var outer, inner, other int
		if err := rows.Scan(&outer); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRowContext(t.Context(), query, outer).Scan(&inner); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %d`, outer+10)).Scan(&other); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(outer, inner, other))
	}
	if err := errors.Join(rows.Err(), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if want := "0 0 10, 1 1 11, 2 2 12"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if n := cached(t, d); n != 2 {
		t.Errorf("%d statements are cached, want 2", n)
	}
}

// TestStatementsThatAreNotCached checks that pragmas, invalid statements, texts of several statements
// and cancelled queries are not cached.
func TestStatementsThatAreNotCached(t *testing.T) {
	t.Parallel()
	d := openPreparing(t, 10)
	for range 2 {
		for _, level := range []int{1, 2} {
			if _, err := d.ExecContext(t.Context(), fmt.Sprintf(`PRAGMA synchronous = %d`, level)); err != nil {
				t.Fatal(err)
			}
			if n, err := number(t.Context(), d, `PRAGMA synchronous`); err != nil || n != level {
				t.Errorf("synchronous = %d, %v, want %d", n, err, level)
			}
		}
		if _, err := number(t.Context(), d, `SELECT missing FROM unknown`); err == nil {
			t.Error("an invalid statement returned no error")
		}
		if _, err := d.ExecContext(t.Context(), `INSERT INTO note (n) VALUES (1); INSERT INTO note (n) VALUES (2)`); err != nil {
			t.Error(err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := number(canceled, d, `SELECT 7`); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled query: error = %v, want context.Canceled", err)
		}
	}
	if n := cached(t, d); n != 0 {
		t.Errorf("%d statements are cached, want 0", n)
	}
	if n, err := number(t.Context(), d, `SELECT count(*) FROM note`); err != nil || n != 4 {
		t.Errorf("%d rows, %v, want 4", n, err)
	}
	for text, want := range map[string]bool{
		"-- name: JobGet :one\nSELECT 1;\n": true, "\tWITH x AS (SELECT 1) SELECT * FROM x": true, "DELETE FROM note": true,
		"VACUUM": false, "-- only a comment": false, "": false, "EXPLAIN SELECT 1": false, "SELECT 1; SELECT 2": false, "SELECT '" + strings.Repeat("x", maxPreparedText) + "'": false,
	} {
		if isCacheable(text) != want {
			t.Errorf("isCacheable(%.40q) = %v, want %v", text, !want, want)
		}
	}
}

// TestFailedStatementCanBeRepeated checks that a cached statement works after its execution failed.
func TestFailedStatementCanBeRepeated(t *testing.T) {
	t.Parallel()
	d := openPreparing(t, 10)
	if _, err := d.ExecContext(t.Context(), `CREATE UNIQUE INDEX note_n_key ON note (n)`); err != nil {
		t.Fatal(err)
	}
	for i, wantErr := range []bool{false, true, true, false} {
		n := 1
		if i == 3 {
			n = 2
		}
		_, err := d.ExecContext(t.Context(), `INSERT INTO note (n) VALUES ($1)`, n)
		if IsUnique(err) != wantErr || !wantErr && err != nil {
			t.Errorf("execution %d: error = %v, want a unique violation: %v", i, err, wantErr)
		}
		err = d.QueryRowContext(t.Context(), `INSERT INTO note (n) VALUES ($1) RETURNING n`, n).Scan(&n)
		if !IsUnique(err) {
			t.Errorf("query %d: error = %v, want a unique violation", i, err)
		}
	}
}

// TestStatementAfterTheSchemaChanged checks that a cached statement works after the schema has
// changed.
func TestStatementAfterTheSchemaChanged(t *testing.T) {
	t.Parallel()
	d := openPreparing(t, 10)
	want := 2
	for _, change := range []string{
		`INSERT INTO note (n) VALUES (1), (2)`, `CREATE INDEX note_n_idx ON note (n)`, `ALTER TABLE note ADD COLUMN m INTEGER NOT NULL DEFAULT 0`,
		`DROP TABLE note`, `CREATE TABLE note (m TEXT, n INTEGER NOT NULL)`, `INSERT INTO note (n) VALUES (9)`,
	} {
		if _, err := d.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(change, "CREATE TABLE"):
			want = 0
		case strings.HasSuffix(change, "(9)"):
			want = 9
		}
		for range 2 {
			n, err := number(t.Context(), d, `SELECT coalesce(max(n), 0) FROM note`)
			if dropped := change == `DROP TABLE note`; (err != nil) != dropped || !dropped && n != want {
				t.Errorf("after %s: result = %d, %v, want %d", change, n, err, want)
			}
		}
	}
}

// TestLimitOfTheQueue checks that steady changes the limit of a statement of the queue, and no other
// statement.
func TestLimitOfTheQueue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-- name: JobGetAvailable :many\nSELECT id\n    LIMIT ?3\n)": "-- name: JobGetAvailable :many\nSELECT id\n    LIMIT ?3 + 0\n)",
		"SELECT id\n    LIMIT ?3":                                    "SELECT id\n    LIMIT ?3",
	} {
		if got := steady(text); got != want {
			t.Errorf("steady(%q) = %q, want %q", text, got, want)
		}
	}
}
