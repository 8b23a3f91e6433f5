package db_test

import (
	"testing"

	"github.com/certvault/certvault/internal/db"
)

// TestMigrationFindsAddressesOfAnotherMailbox checks that migration 27 corrects the folded forms that two
// mailboxes could share. The migration records the earlier form of each account whose form changes. The
// certificates with the earlier form that the account claimed become unclaimed, and their links stop working.
func TestMigrationFindsAddressesOfAnotherMailbox(t *testing.T) {
	empty(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		const other, lower = "\u0130RIS@example.org", "iris@example.org" // the lower case of other is lower
		run := func(statement string, args ...any) {
			t.Helper()
			if err := d.Tx(ctx, func(tx *db.Tx) error {
				_, err := tx.ExecContext(ctx, statement, args...)
				return err
			}); err != nil {
				t.Fatalf("the statement %s failed: %v", statement, err)
			}
		}
		if err := d.MigrateBelow(ctx, 27); err != nil {
			t.Fatal(err)
		}
		run(`INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ('i', 'i', 'i', 'III', 1)`)
		run(insertCertificate, lower, "text", "approved", []byte{1}, 1)
		run(`UPDATE certificates SET customer_id = 1, title = 'Another' WHERE uuid = $1`, lower)
		for id, a := range [][2]string{
			1: {other, lower}, 2: {"Ada@B\u00fccher.example", "ada@xn--bcher-kva.example"}, 3: {"jose\u0301@example.org", "jos\u00e9@example.org"}, 4: {"J\u00dcRGEN@example.org", "j\u00fcrgen@example.org"},
		} {
			if id == 0 {
				continue
			}
			run(`INSERT INTO users (uuid, email, email_folded, name, created_at, confirmed_at) VALUES ($1, $1, $2, 'Name', 1, 1)`, a[0], a[1])
			run(`INSERT INTO customers (institution_id, number, user_id, created_at) VALUES (1, $1, (SELECT id FROM users WHERE uuid = $2), 1)`, id, a[0])
			run(insertCertificate, a[0], "text", "approved", []byte{1}, 1)
			run(`UPDATE certificates SET email_folded = $1, customer_id = $2 WHERE uuid = $3`, a[1], id, a[0])
		}
		for _, id := range []string{other, lower} {
			run(`INSERT INTO shares (uuid, certificate_id, hash, label, listed, created_at)
				VALUES ($1, (SELECT id FROM certificates WHERE uuid = $1), $2, '', $3, 1)`, id, []byte(id), false)
		}
		for i, email := range []string{other, "Ada@example.org"} {
			folded := []string{lower, "ada@example.org"}[i]
			hash := []byte{byte(i)}
			run(`INSERT INTO invitations (uuid, institution_id, email, email_folded, role, manage_webhooks, language, hash, inviter_name, created_at, sent_at, expires_at)
				VALUES ($1, 1, $1, $2, 'admin', $3, 'en', $4, '', 1, 1, 1)`, email, folded, false, hash)
			run(`INSERT INTO mail_links (institution_id, hash, unsubscribe_hash, email, email_folded, language, created_at) VALUES (1, $1, $1, $2, $3, 'en', 1)`, hash, email, folded)
			run(`INSERT INTO unsubscribes (institution_id, email_folded, created_at) VALUES (1, $1, 5)`, folded)
			run(`INSERT INTO proofs (hash, purpose, email, email_folded, data, created_at, expires_at) VALUES ($1, 'sign_up', $2, $3, '', 1, 1)`, hash, email, folded)
			run(`INSERT INTO notices (certificate_id, occasion, institution_id, reason, email, email_folded, status, created_at, updated_at)
				VALUES ((SELECT id FROM certificates WHERE uuid = $4), $1, 1, '', $2, $3, 'sent', 1, 1)`, i, email, folded, lower)
		}
		if err := d.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		const is = "\u0130ris@example.org"
		for query, want := range map[string]string{
			`SELECT email_folded FROM users WHERE id = 1`:                                             is,
			`SELECT email_folded_before FROM users WHERE id = 1`:                                      lower,
			`SELECT email_folded FROM users WHERE id = 2`:                                             "ada@xn--bcher-kva.example",
			`SELECT email_folded FROM users WHERE id = 3`:                                             "jos\u00e9@example.org",
			`SELECT email_folded FROM users WHERE id = 4`:                                             "j\u00dcrgen@example.org",
			`SELECT count(*) FROM users WHERE email_folded_before IS NOT NULL`:                        "2",
			`SELECT email_folded FROM certificates WHERE uuid = '` + other + `'`:                      is,
			`SELECT customer_id FROM certificates WHERE uuid = '` + other + `'`:                       "1",
			`SELECT count(*) FROM certificates WHERE customer_id IS NOT NULL`:                         "4",
			`SELECT uuid FROM certificates WHERE customer_id IS NULL`:                                 lower,
			`SELECT uuid FROM shares WHERE revoked_at > 1600000000000000`:                             lower,
			`SELECT count(*) FROM shares WHERE revoked_at IS NULL`:                                    "1",
			`SELECT email_folded FROM invitations WHERE uuid = '` + other + `'`:                       is,
			`SELECT count(*) FROM invitations WHERE email_folded = 'ada@example.org'`:                 "1",
			`SELECT email_folded FROM mail_links WHERE email = '` + other + `'`:                       is,
			`SELECT email_folded FROM notices WHERE email = '` + other + `'`:                          is,
			`SELECT count(*) FROM unsubscribes WHERE created_at = 5`:                                  "3",
			`SELECT count(*) FROM unsubscribes WHERE email_folded IN ('` + lower + `', '` + is + `')`: "2",
			`SELECT email FROM proofs`:                                                                "Ada@example.org",
		} {
			var got string
			if err := d.QueryRowContext(ctx, query).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %+q, %v, want %+q", query, got, err, want)
			}
		}
	})
}
