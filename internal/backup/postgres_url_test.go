package backup

import "testing"

// TestProgramURL checks that programURL removes the password, and the parameters that the programs of
// PostgreSQL do not accept.
func TestProgramURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"postgres://vault:p%40ss@db.example:5433/certvault?sslmode=verify-full&pool_max_conns=20&statement_timeout=60000": {
			"postgres://vault@db.example:5433/certvault?sslmode=verify-full", "p@ss",
		},
		"postgres:///certvault?host=%2Frun%2Fa+b&password=x%26y&user=vault": {"postgres:///certvault?host=%2Frun%2Fa%20b&user=vault", "x&y"},
		"postgresql://localhost/certvault":                                  {"postgresql://localhost/certvault", ""},
	} {
		target, password, err := programURL(url)
		if err != nil || target != want[0] || password != want[1] {
			t.Errorf("programURL(%q) = %q, %q, %v, want %q", url, target, password, err, want)
		}
	}
	if _, _, err := programURL("postgres://u:secret@%zz/"); err == nil || err.Error() != "the database URL is invalid; see the PostgreSQL connection URI syntax" {
		t.Errorf("an invalid URL: error = %v, want an error without the URL", err)
	}
}
