package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// TestResetPasswordListsPasskeys checks that the command lists the passkeys and can remove them. Another
// person who added a passkey could otherwise still sign in after the password is changed.
func TestResetPasswordListsPasskeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	d, err := sql.Open("sqlite", filepath.Join(dir, "certvault.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.ExecContext(t.Context(), `INSERT INTO passkeys (user_id, credential_id, credential, sign_count, name, created_at)
		SELECT id, x'01', '{}', 0, 'Another''s key', 0 FROM users WHERE email_folded = 'o@example.org'`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	reset := []string{"user", "reset-password", "--email", "o@example.org", "--password-stdin", "--data", dir}
	code, out, errs := certvault(t, "another horse battery\n", reset...)
	if code != exitDone || !strings.Contains(out, "“Another's key”, added 1970-01-01, never used") || !strings.Contains(out, "--drop-passkeys") {
		t.Errorf("exit code = %d, want 0 and the passkey with the flag that removes it: %s%s", code, out, errs)
	}
	var row passwordRow
	if runJSON(t, "another horse battery\n", &row, append(reset, "--drop-passkeys")...); row.Email != "o@example.org" || len(row.Passkeys) != 0 {
		t.Errorf("the output with --drop-passkeys is %+v, want o@example.org without passkeys", row)
	}
}
