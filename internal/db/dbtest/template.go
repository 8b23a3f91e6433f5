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

// A test gets a copy of a migrated database, because running the migrations would take longer than
// most tests. The tests of all packages share one template for each dialect. The name of a template
// contains a digest of the migrations.

// CopyTemplate copies a migrated SQLite database to a data folder, unless the folder has a database.
func CopyTemplate(tb testing.TB, dataDir string) {
	tb.Helper()
	if _, err := os.Stat(filepath.Join(dataDir, db.FileName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := WriteTemplate(dataDir); err != nil {
		tb.Fatal(err)
	}
}

// WriteTemplate copies a migrated SQLite database to a data folder. It returns an error if the folder has
// a database.
func WriteTemplate(dataDir string) error {
	files, err := sqliteTemplate()
	if err != nil {
		return err
	}
	return os.CopyFS(dataDir, files)
}

var sqliteTemplate = sync.OnceValues(func() (fs.FS, error) {
	data, err := cachedSQLite()
	if err != nil {
		return nil, fmt.Errorf("creating the template database: %w", err)
	}
	return fstest.MapFS{db.FileName: {Data: data, Mode: 0o600}}, nil
})

// cachedSQLite returns the content of a migrated database, which it creates once for all packages.
func cachedSQLite() (_ []byte, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	digest, err := db.MigrationsDigest(db.SQLite)
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "certvault-test")
	name := filepath.Join(cache, "template-"+digest+".db")
	data, err := os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := migrate(folder, ""); err != nil {
		return nil, err
	}
	// The tests of another package may create the same template at the same time.
	if err := os.Rename(filepath.Join(folder, db.FileName), name); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// migrate opens and migrates a database, and closes it.
func migrate(dataDir, databaseURL string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, dataDir, databaseURL)
	if err != nil {
		return fmt.Errorf("creating the template database: %w", err)
	}
	return errors.Join(d.Migrate(ctx), d.Close())
}

// MigratedURL creates a migrated database on the test server and returns its URL. The database is
// dropped when the test ends.
func MigratedURL(tb testing.TB) string {
	tb.Helper()
	server := server(tb)
	template, err := postgresTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	return create(tb, server, `TEMPLATE `+template)
}

// postgresTemplate creates the template database if no other package has created it. The template
// is not dropped, because the test server is temporary.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	name, err := createPostgresTemplate(context.Background(), os.Getenv(Variable))
	if err != nil {
		return "", fmt.Errorf("creating the template database: %w", err)
	}
	return name, nil
})

func createPostgresTemplate(ctx context.Context, server string) (name string, err error) {
	digest, err := db.MigrationsDigest(db.PostgreSQL)
	if err != nil {
		return "", err
	}
	name = "cv_template_" + digest
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	// The lock ends with the connection.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return "", err
	}
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil || exists {
		return name, err
	}
	unfinished := "cv_new_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+unfinished+` `+emptyDatabase); err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("%s: %w", Variable, err)
	}
	u.Path = "/" + unfinished
	if err := migrate("", u.String()); err != nil {
		return "", err
	}
	// A database with connections cannot be copied, and autovacuum opens connections too.
	for _, statement := range []string{`ALTER DATABASE ` + unfinished + ` ALLOW_CONNECTIONS false`, `ALTER DATABASE ` + unfinished + ` RENAME TO ` + name} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	return name, nil
}

// templateLock is the key of the advisory lock that createPostgresTemplate holds.
const templateLock = 7250131
