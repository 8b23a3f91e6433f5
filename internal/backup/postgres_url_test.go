package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramURL checks that programURL removes the passwords, and the parameters that the programs of
// PostgreSQL do not accept.
func TestProgramURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		target string
		passwords
	}{
		"postgres://vault:p%40ss@db.example:5433/certvault?sslmode=verify-full&pool_max_conns=20&statement_timeout=60000": {
			"postgres://vault@db.example:5433/certvault?sslmode=verify-full", passwords{user: "p@ss"},
		},
		"postgres:///certvault?host=%2Frun%2Fa+b&password=x%26y&user=vault": {"postgres:///certvault?host=%2Frun%2Fa%20b&user=vault", passwords{user: "x&y"}},
		"postgresql://localhost/certvault":                                  {"postgresql://localhost/certvault", passwords{}},
		"postgres://localhost/certvault?sslkey=k.pem&sslpassword=se%20cret": {"postgres://localhost/certvault?service=certvault&sslkey=k.pem", passwords{key: "se cret"}},
	} {
		target, p, err := programURL(url)
		if err != nil || target != want.target || p != want.passwords {
			t.Errorf("programURL(%q) = %q, %q, %v, want %q", url, target, p, err, want)
		}
	}
	if _, _, err := programURL("postgres://localhost/certvault?sslpassword=secret&service=own"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("sslpassword and service: error = %v, want an error without the password", err)
	}
	if _, _, err := programURL("postgres://u:secret@%zz/"); err == nil || err.Error() != "the database URL is invalid; see the PostgreSQL connection URI syntax" {
		t.Errorf("an invalid URL: error = %v, want an error without the URL", err)
	}
}

// TestProgramGetsNoPasswordAsArgument runs a script in place of pg_dump, which reports its arguments and
// what it reads of the service file.
func TestProgramGetsNoPasswordAsArgument(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "arguments: $*" >&2
echo "password of the user: $PGPASSWORD" >&2
stat -c 'mode of the file: %a' "$PGSERVICEFILE" >&2
cat "$PGSERVICEFILE" >&2
exit 1
`
	if err := os.WriteFile(filepath.Join(dir, "pg_dump"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
	err := runProgram(t.Context(), "postgres://vault:one@localhost/certvault?sslkey=k.pem&sslpassword=two%23+%3D", "pg_dump", "--file=x")
	for _, want := range []string{
		"arguments: --file=x --no-password --dbname=postgres://vault@localhost/certvault?service=certvault&sslkey=k.pem\n",
		"password of the user: one\n", "mode of the file: 600\n", "[certvault]\nsslpassword=two# =",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("output = %v, want %q", err, want)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files after the program: %v, %v, want none", left, err)
	}
	for _, password := range []string{"x7\nb", "x7 ", strings.Repeat("x7", maxKeyPassword)} {
		if name, err := writeService(password); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("writeService(%.9q) = %q, %v, want an error without the password", password, name, err)
		}
	}
}
