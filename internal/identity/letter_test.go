package identity

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestLettersInEveryLanguage checks the size, the language and the text direction of all mails, and that
// their texts do not contain localhost. The institution has a name of the maximum length.
func TestLettersInEveryLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	d := dbtest.SQLite(t)
	b := open(t, d)
	certtest.Institution(t, d, nil, "NWU", strings.Repeat("𐎀", 255))
	names := []string{
		"letter_sign_up", "letter_known", "letter_sign_in", "letter_reset", "letter_address", "letter_taken", "letter_moved", "letter_device", "letter_password",
		"letter_passkey_added", "letter_passkey_removed", "letter_codes_on", "letter_codes_off", "letter_add_address", "letter_address_added",
		"letter_address_removed", "letter_further",
	}
	b.host = "localhost"
	for _, l := range b.Languages.Languages() {
		for _, name := range names {
			path, args := "", []any(nil)
			if l.Has(name + ".button") {
				path = "/sign-in/link/" + strings.Repeat("X", 52)
			}
			if strings.HasPrefix(name, "letter_address_") {
				args = []any{"address", strings.Repeat("a", maxAddress)}
			}
			if name == "letter_device" {
				args = []any{"device", strings.Repeat("𐎀", 100), "address", "192.0.2.1", "time", "now"}
			}
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				return b.writeTx(t.Context(), tx, Person{Name: "Ada", Email: "ada@example.org", Language: l.Tag}, name, path, args...)
			}); err != nil {
				t.Fatalf("%s in %s: %v", name, l.Tag, err)
			}
		}
		for i, m := range b.mails() {
			if !m.Fits() || !strings.Contains(m.HTML, `<html lang="`+l.Tag+`" dir="`+l.Direction+`">`) || strings.Contains(m.Text, " localhost") {
				t.Errorf("%s in %s is too large, has the wrong language or direction, or contains localhost: %s", names[i], l.Tag, m.Text)
			}
		}
	}
}

// TestSenderOfLetters checks the sender name of mails about an account.
func TestSenderOfLetters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		e := b.join(address)
		write := func(host string) (sender, text string) {
			t.Helper()
			b.host = host
			if err := d.Tx(t.Context(), func(tx *db.Tx) error { return b.notifyTx(t.Context(), tx, e.Session.Person, passwordChanged) }); err != nil {
				t.Fatal(err)
			}
			list := b.mails()
			return list[len(list)-1].Sender, list[len(list)-1].Text
		}
		if sender, text := write("localhost"); sender != "Certvault" || strings.Contains(text, "localhost") {
			t.Errorf("without an institution: sender %q, text %s; want the sender Certvault and no localhost", sender, text)
		}
		one := certtest.Institution(t, d, nil, "ONE", "University One")
		if sender, text := write("vault.example"); sender != "University One" || !strings.Contains(text, "vault.example") {
			t.Errorf("with one institution: sender %q, text %s; want the sender University One and the host vault.example", sender, text)
		}
		if sender, text := write("localhost"); sender != "University One" || strings.Contains(text, "localhost") || !strings.Contains(text, "University One") {
			t.Errorf("with one institution: sender %q, text %s; want the sender University One, also in the text instead of localhost", sender, text)
		}
		certtest.Institution(t, d, nil, "TWO", "College Two")
		if sender, _ := write("vault.example"); sender != "vault.example" {
			t.Errorf("with two institutions: sender %q, want vault.example", sender)
		}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO members (institution_id, user_id, role, created_at) VALUES ($1, $2, 'issuer', 0)`, one.ID, e.Session.Person.ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if sender, _ := write("vault.example"); sender != "University One" {
			t.Errorf("a member of one of two institutions: sender %q, want University One", sender)
		}
	})
}
