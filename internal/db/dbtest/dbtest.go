// Package dbtest provides tests with new, migrated databases of each dialect, and with a proxy that
// breaks connections to PostgreSQL. It is for tests only.
package dbtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/certvault/certvault/internal/db"
)

// Variable is the name of the environment variable with the URL of a PostgreSQL server on which
// tests may create databases.
const Variable = "CERTVAULT_TEST_POSTGRES"

// emptyDatabase contains the options of CREATE DATABASE for an empty database. They replace the defaults
// of the server.
const emptyDatabase = `TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'`

// Each runs a test on SQLite and on PostgreSQL, each time with a separate migrated database, which
// is closed when the test ends.
func Each(t *testing.T, f func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, SQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, Open(t, "", MigratedURL(t)))
	})
}

// SQLite returns a migrated SQLite database.
func SQLite(tb testing.TB) *db.DB {
	tb.Helper()
	return Open(tb, tb.TempDir(), "")
}

// Open opens and migrates a database, and closes the database when the test ends. A new SQLite
// database is a copy of a migrated template.
func Open(tb testing.TB, dataDir, databaseURL string) *db.DB {
	tb.Helper()
	if databaseURL == "" {
		CopyTemplate(tb, dataDir)
	}
	d, err := db.Open(tb.Context(), dataDir, databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := d.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return d
}

// PostgresURL creates an empty database on the test server and returns its URL. The database is
// dropped when the test ends. If there is no server, the test is skipped, or fails if CI=true,
// because CI must test both databases.
func PostgresURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, server(tb), emptyDatabase)
}

// server returns the URL of the test server. If there is no server, the test is skipped, or fails
// if CI=true.
func server(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("%s is not set; run the tests with make test", Variable)
		}
		tb.Skipf("%s is not set, so PostgreSQL is not tested (make test starts a PostgreSQL server)", Variable)
	}
	return server
}

// create creates a database that is dropped when the test ends, and returns its URL.
func create(tb testing.TB, server, options string) string {
	tb.Helper()
	name := "cv_" + strings.ToLower(rand.Text())
	admin(tb, tb.Context(), server, `CREATE DATABASE `+name+` `+options)
	tb.Cleanup(func() {
		admin(tb, context.WithoutCancel(tb.Context()), server, `DROP DATABASE `+name+` WITH (FORCE)`)
	})
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("%s is not a URL: %v", Variable, err)
	}
	u.Path = "/" + name
	return u.String()
}

func admin(tb testing.TB, ctx context.Context, server, statement string) {
	tb.Helper()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		tb.Fatalf("connecting to the test server: %v", err)
	}
	_, err = conn.Exec(ctx, statement)
	if e := conn.Close(ctx); err == nil {
		err = e
	}
	if err != nil {
		tb.Fatalf("the statement %s failed: %v", statement, err)
	}
}
