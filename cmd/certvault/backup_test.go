package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/backup"
)

// TestBackupCommands checks backup, backup create and backup verify while no server runs.
func TestBackupCommands(t *testing.T) {
	t.Parallel()
	data, at := t.TempDir(), t.TempDir()
	createInstitution(t, data)
	if code, _, errs := certvault(t, "", "backup", filepath.Join(at, "early"), "--data", data); code != exitRefused || !strings.Contains(errs, "has no files") {
		t.Errorf("a vault that never ran: exit code = %d, stderr = %q, want a refusal because there are no files", code, errs)
	}
	if err := os.MkdirAll(filepath.Join(data, "files", "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(at, "first"), filepath.Join(at, "second")
	code, out, errs := certvault(t, "", "backup", first, "--data", data)
	if code != exitDone || !strings.Contains(out, "The backup in "+first+" has ") || strings.Contains(out, "no keys") {
		t.Errorf("backup: exit code = %d, stdout = %q, stderr = %q, want %d and the folder of the backup, with keys", code, out, errs, exitDone)
	}
	var made backup.Result
	runJSON(t, "", &made, "backup", "create", second, "--data", data, "--since", first, "--without-keys")
	if made.Dir != second || made.Keys || made.Files == 0 {
		t.Errorf("result = %+v, want the second backup without keys", made)
	}
	if code, _, errs := certvault(t, "", "backup", first, "--data", data); code != exitRefused || !strings.Contains(errs, "is not empty") {
		t.Errorf("the same folder again: exit code = %d, stderr = %q, want a refusal because it is not empty", code, errs)
	}
	if code, out, errs := certvault(t, "", "backup", "verify", first, "--data", data); code != exitDone || !strings.Contains(out, "is intact") || strings.Contains(out, "in the backup, which") {
		t.Errorf("verify: exit code = %d, stdout = %q, stderr = %q, want an intact backup", code, out, errs)
	}
	var report verifyResult
	runJSON(t, "", &report, "backup", "verify", second, "--data", data)
	if !report.Intact || report.OwnKey || report.Header.Schema == 0 || len(report.Problems) != 0 {
		t.Errorf("report = %+v, want an intact backup that was checked with the key of the vault", report)
	}
	// Without the vault, verify uses the key in the backup.
	runJSON(t, "", &report, "backup", "verify", first, "--data", filepath.Join(at, "none"))
	if !report.Intact || !report.OwnKey {
		t.Errorf("report = %+v, want an intact backup that was checked with the key in the backup", report)
	}
	if code, _, errs := certvault(t, "", "backup", "verify", second, "--data", filepath.Join(at, "none")); code != exitRefused || !strings.Contains(errs, "contains no master key") {
		t.Errorf("verify without a key: exit code = %d, stderr = %q, want a refusal that says that there is no key", code, errs)
	}
	other := t.TempDir()
	createInstitution(t, other)
	if code, _, errs := certvault(t, "", "backup", "verify", first, "--data", other); code != exitRefused || !strings.Contains(errs, "another master key: "+first) || !strings.Contains(errs, filepath.Join(other, "keys")) {
		t.Errorf("verify with the key of another vault: exit code = %d, stderr = %q, want a refusal that names the backup and the folder of the keys", code, errs)
	}
	if err := os.Remove(filepath.Join(first, "database", "certvault.db")); err != nil {
		t.Fatal(err)
	}
	code, out, errs = certvault(t, "", "backup", "verify", first, "--data", data)
	if code != exitRefused || !strings.Contains(out, "WRONG  database/certvault.db: the file is missing") || !strings.Contains(errs, "has 1 problem") {
		t.Errorf("verify of a damaged backup: exit code = %d, stdout = %q, stderr = %q, want the problem", code, out, errs)
	}
	if code, _, errs := certvault(t, "", "backup", "--data", data); code != exitUsage || !strings.Contains(errs, "dir") {
		t.Errorf("without a folder: exit code = %d, stderr = %q, want %d and an error about DIR", code, errs, exitUsage)
	}
	if code, _, errs := certvault(t, "", "backup", filepath.Join(at, "x"), "--data", filepath.Join(at, "none")); code != exitRefused || !strings.Contains(errs, "contains no vault") {
		t.Errorf("a data folder without a vault: exit code = %d, stderr = %q, want %d and the reason", code, errs, exitRefused)
	}
}
