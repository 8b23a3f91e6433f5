package dbtest

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
)

// Plan returns the plan of a query. On PostgreSQL, sequential and bitmap scans are disabled, because the
// planner would prefer them to an index for the small tables of a test.
func Plan(tb testing.TB, d *db.DB, query string, args ...any) string {
	tb.Helper()
	var lines []string
	if err := d.Tx(tb.Context(), func(tx *db.Tx) error {
		explain, columns := `EXPLAIN QUERY PLAN `, 4
		if tx.Dialect() == db.PostgreSQL {
			if _, err := tx.ExecContext(tb.Context(), `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`); err != nil {
				return err
			}
			explain, columns = `EXPLAIN `, 1
		}
		rows, err := tx.QueryContext(tb.Context(), explain+query, args...)
		if err != nil {
			return err
		}
		lines, err = db.Collect(rows, func(rows *sql.Rows) (line string, err error) {
			dest := make([]any, columns)
			for i := range dest {
				dest[i] = new(any)
			}
			dest[columns-1] = &line // the other columns of SQLite are numbers
			return line, rows.Scan(dest...)
		})
		return err
	}); err != nil {
		tb.Fatalf("explaining %s: %v", query, err)
	}
	return strings.Join(lines, "\n")
}

// CopyPostgres copies a database to which no client is connected, and returns the URL of the copy. The copy
// is dropped when the test ends.
func CopyPostgres(tb testing.TB, databaseURL string) string {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	return create(tb, server(tb), `TEMPLATE `+strings.TrimPrefix(u.Path, "/"))
}
