package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestOutageIsDistinguishedFromOtherErrors checks that IsOutage reports the errors of a database
// that cannot work, and no errors of a working database.
func TestOutageIsDistinguishedFromOtherErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		exec := func(statements ...string) error {
			return d.Tx(ctx, func(tx *db.Tx) error {
				for _, s := range statements {
					if _, err := tx.ExecContext(ctx, s); err != nil {
						return err
					}
				}
				return nil
			})
		}
		const insert = `INSERT INTO setup_links (hash, created_at, expires_at) VALUES ('x', 0, 0)`
		var n int
		for name, err := range map[string]error{
			"no error": nil, "another error": errors.New("another error"), "unique violation": exec(insert, insert), "syntax error": exec(`SELEKT 1`),
			"no row": d.QueryRowContext(ctx, `SELECT 1 WHERE false`).Scan(&n), "cancelled": context.Canceled,
		} {
			if db.IsOutage(err) {
				t.Errorf("%s: IsOutage(%v) = true, want false", name, err)
			}
		}
		late, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		readOnly := `SET TRANSACTION READ ONLY`
		if d.Dialect == db.SQLite {
			readOnly = `PRAGMA query_only = 1`
		}
		outages := map[string]error{
			"read-only": exec(readOnly, insert), "late": d.Ping(late),
		}
		if d.Dialect == db.PostgreSQL {
			outages["ended by the server"] = exec(`SELECT pg_terminate_backend(pg_backend_pid())`, insert)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		outages["closed"] = exec(insert)
		for name, err := range outages {
			if !db.IsOutage(fmt.Errorf("working: %w", err)) {
				t.Errorf("%s: IsOutage(%v) = false, want true", name, err)
			}
		}
	})
}

// TestBrokenConnectionIsAnOutage checks that a connection that ends without a message from the server,
// and a connection that is refused, are outages.
func TestBrokenConnectionIsAnOutage(t *testing.T) {
	t.Parallel()
	database := dbtest.PostgresURL(t)
	proxy, proxied := dbtest.NewProxy(t, database)
	d := dbtest.Open(t, "", proxied)
	proxy.LoseResponse("marker")
	err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `SELECT 'marker'`)
		return err
	})
	if !db.IsOutage(err) {
		t.Errorf("broken connection: IsOutage(%v) = false, want true", err)
	}
	_, err = db.Open(t.Context(), "", "postgres://certvault@127.0.0.1:1/certvault")
	if !db.IsOutage(err) {
		t.Errorf("refused connection: IsOutage(%v) = false, want true", err)
	}
}
