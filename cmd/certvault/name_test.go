package main

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
)

// change runs an SQL statement in the database of a data folder. Tests use it to store values that
// the commands do not store.
func change(t *testing.T, dir, statement string) {
	t.Helper()
	d, err := db.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement)
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// refuse runs certvault with args and checks that it refuses: the exit code is exitRefused and the
// output contains want.
func refuse(t *testing.T, want string, args ...string) {
	t.Helper()
	if code, out, errs := certvault(t, "correct horse\n", args...); code != exitRefused || !strings.Contains(out+errs, want) {
		t.Errorf("%v: exit code = %d: %s%s, want %d and %q", args, code, out, errs, exitRefused, want)
	}
}

// succeed runs certvault with args and checks that it succeeds: the exit code is exitDone and the
// standard output contains want.
func succeed(t *testing.T, want string, args ...string) {
	t.Helper()
	if code, out, errs := certvault(t, "correct horse\n", args...); code != exitDone || !strings.Contains(out, want) {
		t.Errorf("%v: exit code = %d: %s%s, want %d and %q", args, code, out, errs, exitDone, want)
	}
}

// TestOperatorConsentsToSameName checks that a name that looks the same as the name of another
// institution requires --allow-same-name, and that key rotate refuses the name before an operator has
// allowed it.
func TestOperatorConsentsToSameName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/vault"
	createInstitution(t, dir)
	create := []string{
		"institution", "create", "--data", dir, "--prefix", "NWX", "--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin", "--name",
	}
	refuse(t, "with the prefix NWU. Only an operator of the vault can allow that. Specify --allow-same-name to allow it.", append(create, "NORTHWEST University")...)
	succeed(t, "o@example.org already has an account. Its password was not changed", append(create, "Other College")...)
	set := []string{"institution", "set", "--data", dir, "--institution", "other-college"}
	// The name has a Cyrillic letter.
	refuse(t, "Specify --allow-same-name to allow it.", append(set, "--name", "Northwest Un\u0456versity")...)
	rotate := []string{"key", "rotate", "--data", dir, "--institution", "other-college"}
	succeed(t, "CN=Other College", rotate...)
	change(t, dir, `UPDATE institutions SET name = 'Northwest University' WHERE prefix = 'NWX'`)
	refuse(t, "looks the same as the name of the institution with the prefix NWU", rotate...)
	refuse(t, "WRONG  institution names: institutions with the following prefixes have names that look the same as that of another one: NWU, NWX", "doctor", "--data", dir)
	succeed(t, "Stamps of Northwest University", append(set, "--allow-same-name")...)
	succeed(t, "CN=Northwest University", rotate...)
	succeed(t, "ok     institution names: ", "doctor", "--data", dir)
}

// TestDoctorReportsAddressesOfAnotherMailbox checks that doctor reports an account that earlier
// versions treated as the account of another address. After the command user accept-address, doctor must
// not report the account.
func TestDoctorReportsAddressesOfAnotherMailbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/vault"
	createInstitution(t, dir)
	succeed(t, "ok     addresses: ", "doctor", "--data", dir)
	change(t, dir, "UPDATE users SET email = '\u0130ris@example.org', email_folded = '\u0130ris@example.org', email_folded_before = 'iris@example.org', operator = 1")
	refuse(t, `WRONG  addresses: before version 0.2, each of these accounts was treated as the account of another address, so it may have rights of the person with that address: `+
		`"\u0130ris@example.org" was treated as "iris@example.org", member of 1 institution, operator`, "doctor", "--data", dir)
	refuse(t, "There is no account with this main address.", "user", "accept-address", "--data", dir, "--email", "iris@example.org")
	accept := []string{"user", "accept-address", "--data", dir, "--email", "\u0130RIS@example.org"}
	succeed(t, "The account of \u0130ris@example.org was accepted.", accept...)
	refuse(t, "There is no account with this address to accept.", accept...)
	succeed(t, "ok     addresses: ", "doctor", "--data", dir)
}
