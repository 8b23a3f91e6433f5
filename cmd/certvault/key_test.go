package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/config"
)

// TestSheetAndRecover checks that key sheet writes the recovery sheet to a private file and records
// this in the audit log, and that key recover restores the lost files of the keys.
func TestSheetAndRecover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	sheet := filepath.Join(t.TempDir(), "sheet.txt")
	args := []string{"key", "sheet", "--data", dir, "--base-url", "https://vault.example", "--out", sheet}
	if code, out, errs := certvault(t, "", args...); code != exitDone || !strings.Contains(out, sheet) {
		t.Fatalf("key sheet: exit code = %d, want 0 and the name of the file: %s%s", code, out, errs)
	}
	if info, err := os.Stat(sheet); err != nil {
		t.Fatal(err)
	} else if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the sheet = %v, want 0600", info.Mode())
	}
	if code, _, errs := certvault(t, "", args...); code != exitRefused || !strings.Contains(errs, "exists") {
		t.Errorf("over an existing file: exit code = %d, want 1 and the reason: %s", code, errs)
	}
	text, err := os.ReadFile(sheet)
	if err != nil || !strings.Contains(string(text), "https://vault.example") {
		t.Fatalf("the sheet is %s, %v; want the address of the vault", text, err)
	}
	var printed struct{ Sheet string }
	runJSON(t, "", &printed, "key", "sheet", "--data", dir)
	if _, lines, _ := strings.Cut(string(text), "Master key"); !strings.HasSuffix(printed.Sheet, lines) {
		t.Errorf("the second sheet is %s, want the same secrets as in the first one", printed.Sheet)
	}
	if code, out, errs := certvault(t, "", "audit", "export", "--installation", "--data", dir); code != exitDone || strings.Count(out, "key.sheet") != 2 {
		t.Errorf("audit export: exit code = %d, want 0 and two entries key.sheet: %s%s", code, out, errs)
	}

	if err := os.RemoveAll(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	typed := writeFile(t, "typed.txt", []byte(strings.Replace(string(text), "M3 ", "M3 0", 1)))
	if code, _, errs := certvault(t, "", "key", "recover", "--data", dir, "--sheet", typed); code != exitRefused || !strings.Contains(errs, "line M3 ") {
		t.Errorf("a typing error: exit code = %d, want 1 and an error in line M3: %s", code, errs)
	}
	large := writeFile(t, "large.txt", make([]byte, maxKeyFile+1))
	if code, _, errs := certvault(t, "", "key", "recover", "--data", dir, "--sheet", large); code != exitRefused || !strings.Contains(errs, "larger than 2 MiB") {
		t.Errorf("a file that is too large: exit code = %d, want 1 and the limit: %s", code, errs)
	}
	var restored struct{ Files []string }
	runJSON(t, "", &restored, "key", "recover", "--data", dir, "--sheet", sheet)
	if len(restored.Files) != 2 {
		t.Errorf("restored files = %v, want 2 files", restored.Files)
	}
	if code, out, errs := certvault(t, "", "key", "rotate", "--data", dir, "--institution", "northwest-university"); code != exitDone {
		t.Errorf("key rotate: exit code = %d, want 0: %s%s", code, out, errs)
	}
}

// TestSecretsInTheEnvironment checks that commands read the master key and the identity from environment
// variables. A command must refuse to run if both the variable and the flag of a secret are set.
func TestSecretsInTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	createInstitution(t, dir)
	for variable, name := range map[string]string{config.MasterKeyVariable: "master.key", config.KeyIdentityVariable: "identity.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, "keys", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, string(text))
	}
	if err := os.RemoveAll(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	rotate := []string{"key", "rotate", "--data", dir, "--institution", "northwest-university"}
	if code, out, errs := certvault(t, "", rotate...); code != exitDone {
		t.Errorf("key rotate: exit code = %d, want 0: %s%s", code, out, errs)
	}
	for _, flag := range []string{"--master-key-file", "--key-identity-file"} {
		if code, _, errs := certvault(t, "", append(rotate, flag, "x")...); code != exitUsage || !strings.Contains(errs, flag) {
			t.Errorf("%s and the variable: exit code = %d, want 2 and the name of the flag: %s", flag, code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "keys")); err == nil {
		t.Error("the folder keys exists, want no new folder")
	}
}
