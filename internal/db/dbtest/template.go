package dbtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/certvault/certvault/internal/db"
)

// A test gets a copy of a database that is migrated once per package, because running the
// migrations would take longer than most tests.

// CopyTemplate copies a migrated SQLite database to a data folder that has no database.
func CopyTemplate(tb testing.TB, dataDir string) {
	tb.Helper()
	if _, err := os.Stat(filepath.Join(dataDir, db.FileName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	files, err := sqliteTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.CopyFS(dataDir, files); err != nil {
		tb.Fatal(err)
	}
}

var sqliteTemplate = sync.OnceValues(func() (_ fs.FS, err error) {
	folder, err := os.MkdirTemp("", "certvault-template-")
	if err != nil {
		return nil, fmt.Errorf("creating the template database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := migrate(folder, ""); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(folder, db.FileName))
	if err != nil {
		return nil, fmt.Errorf("creating the template database: %w", err)
	}
	return fstest.MapFS{db.FileName: {Data: data, Mode: 0o600}}, nil
})

// migrate opens and migrates a database, and closes it.
func migrate(dataDir, databaseURL string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, dataDir, databaseURL)
	if err != nil {
		return fmt.Errorf("creating the template database: %w", err)
	}
	return errors.Join(d.Migrate(ctx), d.Close())
}

// migratedURL creates a migrated database on the test server and returns its URL. The database is
// dropped when the test ends.
func migratedURL(tb testing.TB) string {
	tb.Helper()
	server := server(tb)
	template, err := postgresTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	return create(tb, server, `TEMPLATE `+template)
}

// postgresTemplate creates the template database once. The template is not dropped, because the
// test server is temporary.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	return createPostgresTemplate(context.Background(), os.Getenv(Variable))
})

func createPostgresTemplate(ctx context.Context, server string) (name string, err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", fmt.Errorf("connecting to the test server: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	name = "cv_template_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+name+` `+emptyDatabase); err != nil {
		return "", fmt.Errorf("creating the template database: %w", err)
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("%s: %w", Variable, err)
	}
	u.Path = "/" + name
	if err := migrate("", u.String()); err != nil {
		return "", err
	}
	// A database that has connections cannot be copied. Autovacuum also opens connections.
	if _, err := conn.Exec(ctx, `ALTER DATABASE `+name+` ALLOW_CONNECTIONS false`); err != nil {
		return "", fmt.Errorf("creating the template database: %w", err)
	}
	return name, nil
}
