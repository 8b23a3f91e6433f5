package main

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
)

// TestOnlyServeAndMigrateMigrate checks that commands other than serve and migrate never change the
// schema of a database that an earlier release created, because a server of that release may be
// running.
func TestOnlyServeAndMigrateMigrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	d, err := db.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, statement := range []string{`DROP TABLE installations`, `DROP TABLE schema_floor`, `DELETE FROM schema_migrations WHERE version = 30`} {
		if _, err := d.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		t.Helper()
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM schema_migrations WHERE version = 30`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	create := []string{"institution", "create", "--name", "Other", "--prefix", "OTH", "--owner-email", "o@example.org", "--owner-name", "O", "--owner-password-stdin"}
	for _, args := range [][]string{
		{"institution", "list"}, create, {"operator", "list"}, {"key", "list", "--institution", "northwest-university"}, {"audit", "export", "--installation"},
	} {
		code, out, errs := certvault(t, "correct horse\n", append(args, "--data", dir)...)
		if code != exitRefused || !strings.Contains(errs, "run certvault migrate") || out != "" {
			t.Errorf("%v: exit code = %d, stdout = %q, stderr = %q, want exit code %d and the advice to run certvault migrate", args, code, out, errs, exitRefused)
		}
	}
	if code, out, _ := certvault(t, "", "doctor", "--data", dir); code != exitRefused || !strings.Contains(out, "WRONG  schema: ") {
		t.Errorf("doctor: exit code = %d, stdout = %q, want %d and a finding WRONG about the schema", code, out, exitRefused)
	}
	if count() != 0 {
		t.Error("the database has migration 30, want a database that no command has migrated")
	}
	for range 2 {
		if code, out, errs := certvault(t, "", "migrate", "--data", dir); code != exitDone || !strings.HasPrefix(out, "The database has schema ") {
			t.Errorf("migrate: exit code = %d, stdout = %q, stderr = %q, want exit code 0 and the schema", code, out, errs)
		}
	}
	if count() != 1 {
		t.Error("the database does not have migration 30, want it after certvault migrate")
	}
	if code, _, errs := certvault(t, "", "institution", "list", "--data", dir); code != exitDone {
		t.Errorf("institution list after the migration: exit code = %d, stderr = %q, want exit code 0", code, errs)
	}
	if code, _, errs := certvault(t, "", "migrate", "--data", dir+"/misspelt"); code != exitRefused || !strings.Contains(errs, "contains no vault") {
		t.Errorf("migrate of a folder without a vault: exit code = %d, stderr = %q, want a refusal with the reason", code, errs)
	}
}
