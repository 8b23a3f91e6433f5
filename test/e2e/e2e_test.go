//go:build e2e

// Package e2e tests the built binary from outside. It checks HTTP responses, exit codes, output, and
// the rows and files that the vault stores. Independent programs check the files that the vault
// creates.
//
// Tests use package client for the operations that programs usually perform (operation_test.go).
// They use fixture.client instead in three cases:
//
//   - Package client cannot send the request, for example a body with a wrong length, a repeated
//     field, a wrong method or an invalid token.
//   - The test checks the HTTP response, for example its status, its headers or its compression.
//   - The request is public and has no token.
package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // for the driver "pgx"
	_ "modernc.org/sqlite"             // for the driver "sqlite"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// approvalTime is the maximum time until an acknowledged upload is approved, even after a crash.
const approvalTime = 30 * time.Second

// The institution of a fixture.
const (
	institutionName   = "Northwind University"
	institutionPrefix = "NWU"
)

// fixture is a running vault with one institution, and a client with the permissions
// vault.Permissions.
type fixture struct {
	*vault.Vault

	institution *vault.Institution
	client      *vault.Client
}

// each runs a test on both databases. It passes the URL of a migrated database, or "" for SQLite.
func each(t *testing.T, f func(t *testing.T, database string)) {
	t.Helper()
	eachOf(t, dbtest.MigratedURL, f)
}

// eachOf is like each, but postgres creates the PostgreSQL database.
func eachOf(t *testing.T, postgres func(testing.TB) string, f func(t *testing.T, database string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, postgres(t))
	})
}

// eachInFull is like each. With -short, it runs the test only on SQLite, because the tests of the
// packages that own the pages, the API and the texts use both databases.
func eachInFull(t *testing.T, f func(t *testing.T, database string)) {
	t.Helper()
	if !testing.Short() {
		each(t, f)
		return
	}
	f(t, "")
}

// start starts a vault in a new folder, with an institution and a token. The vault is stopped at the
// end of the test, and must then exit with 0.
func start(t *testing.T, database string, args ...string) *fixture {
	t.Helper()
	if database != "" {
		return startIn(t, warm(t), database, args...)
	}
	p, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	data := empty(t)
	for name, content := range p.files {
		path := filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{Vault: serve(t, vault.Options{Data: data, Args: unlimited(args)}), institution: p.institution}
	f.client = f.as(t, p.token)
	return f
}

// preparedFolder is the content of a data folder on SQLite with an institution and a token.
type preparedFolder struct {
	files       map[string][]byte
	institution *vault.Institution
	token       string
}

// prepared creates the data folder for start once, because creating an institution and a token takes
// as long as many of the tests.
var prepared = sync.OnceValues(func() (p *preparedFolder, err error) {
	data, err := os.MkdirTemp("", "certvault-prepared-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	if err := dbtest.WriteTemplate(data); err != nil {
		return nil, err
	}
	v := &vault.Vault{Options: vault.Options{Data: data}}
	p = &preparedFolder{files: map[string][]byte{}}
	ctx := context.Background()
	if p.institution, err = v.CreateInstitution(ctx, institutionName, institutionPrefix); err != nil {
		return nil, err
	}
	if p.token, err = v.CreateToken(ctx, p.institution.Slug, "", vault.Permissions...); err != nil {
		return nil, err
	}
	return p, filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		p.files[name], err = os.ReadFile(path)
		return err
	})
})

// startIn is like start, but the vault uses the given data folder.
func startIn(t *testing.T, data, database string, args ...string) *fixture {
	t.Helper()
	return startWith(t, vault.Options{Data: data, Database: database, Args: unlimited(args)})
}

// startWith is like start, but the vault has the given options.
func startWith(t *testing.T, o vault.Options) *fixture {
	t.Helper()
	f := &fixture{Vault: serve(t, o)}
	var err error
	if f.institution, err = f.CreateInstitution(t.Context(), institutionName, institutionPrefix); err != nil {
		t.Fatal(err)
	}
	f.client = f.as(t, f.token(t, "", vault.Permissions...))
	return f
}

// warm is like empty, but the folder has a migrated database.
func warm(t *testing.T) string {
	t.Helper()
	data := empty(t)
	dbtest.CopyTemplate(t, data)
	return data
}

// empty returns a new data folder with only a link to the shared cache of the compiled renderer.
func empty(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	if err := vault.Warm(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// unlimited adds arguments that disable the rate limits, because tests send many requests.
func unlimited(args []string) []string {
	return append([]string{"--rate-limit", "0", "--public-rate-limit", "0"}, args...)
}

// serve starts a vault. If the vault still runs when the test ends, it is stopped, and must exit with
// 0. If the test failed, the last lines of the vault's log are printed.
func serve(t *testing.T, o vault.Options) *vault.Vault {
	t.Helper()
	v, err := vault.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-v.Done(): // the test stopped the vault
		default:
			if code, err := v.Stop(); err != nil || code != 0 {
				t.Errorf("exit code of the vault = %d, %v; want 0", code, err)
			}
		}
		if t.Failed() {
			log := strings.Split(strings.TrimSpace(v.Log()), "\n")
			t.Logf("last lines of the vault's log:\n%s", strings.Join(log[max(0, len(log)-20):], "\n"))
		}
		if err := v.Forget(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// restart starts the vault again with the same data folder and database, and another port.
func (f *fixture) restart(t *testing.T, args ...string) {
	t.Helper()
	token := f.client.Token
	f.Vault = serve(t, vault.Options{Data: f.Data, Database: f.Database, Args: unlimited(args)})
	f.client = f.as(t, token)
}

// token creates a token for the fixture's institution.
func (f *fixture) token(t *testing.T, expires string, permissions ...string) string {
	t.Helper()
	token, err := f.CreateToken(t.Context(), f.institution.Slug, expires, permissions...)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// as returns a client with a token. If the token is empty, the client sends public requests.
func (f *fixture) as(t *testing.T, token string) *vault.Client {
	t.Helper()
	c, err := f.Client(token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// sample returns a small PDF of a certificate for a person.
func sample(name string) []byte {
	return vault.Sample{
		Institution: "Northwind University", Title: "Diploma", Name: name, Line: "has completed the course.", Date: "1 June 2026", Emblem: 40,
	}.PDF()
}

// form returns a valid form with a small PDF for a person.
func form(who string) *vault.Form {
	return vault.NewForm("Diploma", who, mailbox(who), "diploma.pdf", sample(who))
}

func mailbox(who string) string {
	return strings.ReplaceAll(strings.ToLower(who), " ", ".") + "@example.org"
}

// get requests a path or URL and checks the status of the response.
func get(t *testing.T, c *vault.Client, target string, status int) *vault.Response {
	t.Helper()
	a, err := c.Get(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, status)
	return a
}

// post posts JSON and checks the status of the response.
func post(t *testing.T, c *vault.Client, target, body string, status int) *vault.Response {
	t.Helper()
	a, err := c.PostJSON(t.Context(), target, body)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, status)
	return a
}

func wantStatus(t *testing.T, a *vault.Response, status int) {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status = %d, want %d: %.500s", a.Status, status, a.Body)
	}
}

// wantProblem checks the status of an error response, and its message unless message is empty. It
// returns the decoded body.
func wantProblem(t *testing.T, a *vault.Response, status int, message string) *vault.Problem {
	t.Helper()
	if a.Status != status {
		t.Errorf("status = %d, want %d: %.500s", a.Status, status, a.Body)
	}
	p, err := a.Problem()
	if got := a.Header.Get("Content-Type"); got != "application/json" || err != nil {
		t.Errorf("error response: content type = %q, decoding error = %v; want application/json and no error", got, err)
		return &vault.Problem{}
	}
	if message != "" && p.Message != message {
		t.Errorf("message = %q, want %q", p.Message, message)
	}
	return p
}

// database opens the fixture's database for reading.
func (f *fixture) database(t *testing.T) *sql.DB {
	t.Helper()
	return f.openDatabase(t, "&_pragma=query_only(1)")
}

// openDatabase opens the fixture's database. options are more parameters of the SQLite URI, each
// beginning with "&".
func (f *fixture) openDatabase(t *testing.T, options string) *sql.DB {
	t.Helper()
	driver, source := "pgx", f.Database
	if source == "" {
		driver, source = "sqlite", "file:"+filepath.Join(f.Data, "certvault.db")+"?_pragma=busy_timeout(10000)"+options
	}
	d, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// count returns the result of a query that counts rows.
func count(t *testing.T, d *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// files lists the files below a folder of the file store.
func (f *fixture) files(t *testing.T, folder string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(f.Data, "files", folder), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // the vault removed the file
		}
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// eventually waits until done returns true. After the time limit it fails the test with the text
// what, which describes the expected state.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("timeout after %v, want: %s", limit, what)
		}
	}
}

// tool returns the path of an independent program. If the program is missing, tool skips the test,
// or fails the test if the environment variable CI is true.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: run make deps", name)
	}
	t.Skipf("%s is not installed: run make deps", name)
	return ""
}

// run runs an independent program and returns its output. If the program fails, the test fails.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("running %s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// writeTemp writes a temporary file and returns its path.
func writeTemp(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func person(i int) string { return fmt.Sprintf("Person %d", i) }
