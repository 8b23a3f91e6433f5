package backup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestUnusablePgDump checks the errors of a pg_dump that is missing, older than the server, or fails.
func TestUnusablePgDump(t *testing.T) {
	url := dbtest.MigratedURL(t)
	f := newFixture(t, dbtest.Open(t, "", url), 1)
	for script, want := range map[string]string{
		"":                                   "pg_dump is not installed; install",
		"echo 'pg_dump (PostgreSQL) 9.6.24'": "pg_dump has version 9",
		"[ \"$1\" = --version ] && echo 'pg_dump (PostgreSQL) 99.1' || { echo 'no such table' >&2; exit 1; }":           "no such table",
		"[ \"$1\" = --version ] && echo 'pg_dump (PostgreSQL) 99.1' || { echo 'No space left on device' >&2; exit 1; }": "free space",
	} {
		bin := t.TempDir()
		if script != "" {
			f.ok(os.WriteFile(filepath.Join(bin, "pg_dump"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		}
		t.Setenv("PATH", bin)
		dir := filepath.Join(t.TempDir(), "backup")
		_, err := backup.Create(t.Context(), f.config, backup.Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), want) || exists(dir) {
			t.Errorf("%q: error = %v, the folder exists: %v; want %q and no folder", script, err, exists(dir), want)
		}
		if strings.Contains(want, "pg_dump") && (err == nil || !strings.Contains(err.Error(), "--files-only")) {
			t.Errorf("error = %v, want advice about --files-only", err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	f.backup(backup.Options{FilesOnly: true})
}

// TestDumpIsRestored restores a dump with pg_restore into an empty database, and compares the
// certificates.
func TestDumpIsRestored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.Open(t, "", dbtest.MigratedURL(t)), 3)
	dir := f.backup(backup.Options{}).Dir
	target := dbtest.PostgresURL(t)
	out, err := exec.CommandContext(t.Context(), "pg_restore", "--no-owner", "--exit-on-error", "--dbname="+target, filepath.Join(dir, "database", "certvault.dump")).CombinedOutput()
	if err != nil {
		t.Fatalf("pg_restore: %v: %s", err, out)
	}
	restored := dbtest.Open(t, "", target)
	var got, want string
	query := `SELECT string_agg(reference_id || tail_key, ' ' ORDER BY id) FROM certificates WHERE status = 'approved'`
	f.ok(restored.QueryRowContext(t.Context(), query).Scan(&got))
	f.ok(f.DB.QueryRowContext(t.Context(), query).Scan(&want))
	if got != want {
		t.Errorf("the restored certificates are %q, want %q", got, want)
	}
}
