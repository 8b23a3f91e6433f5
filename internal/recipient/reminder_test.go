package recipient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
)

// expiring calls ExpiringTx, as package cert does, and runs the sweep that writes the mail.
func (b *fixture) expiring(list ...*cert.Certificate) {
	b.t.Helper()
	b.Tx(func(tx *db.Tx) error { return b.ExpiringTx(b.t.Context(), tx, list) })
	b.sweep()
}

func expires(date string) change { return func(u *cert.Upload) { u.ExpiresOn = date } }

func TestReminderOfExpiry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.Exec(`UPDATE institutions SET mail_language = 'de' WHERE id = $1`, b.inst.ID)
		b.Exec(`INSERT INTO institution_words (institution_id, language, paragraph, closing) VALUES ($1, 'de', 'Congratulations!', '')`, b.inst.ID)
		c := b.upload(expires("2026-08-15"))
		b.approve(c)
		if first := b.mails()[0].Text; !strings.Contains(first, "Gültig bis 15. August 2026") || !strings.Contains(first, "Congratulations!") {
			t.Errorf("the first mail is %q, want the last day of validity and the text of the institution", first)
		}
		b.Advance(20 * 24 * time.Hour)
		b.expiring(c)
		b.sweep()
		b.wantSent("ada@example.org", "ada@example.org")
		m := b.mails()[1]
		if m.Subject != "Ihr Zertifikat läuft am 15. August 2026 ab: “BSc Physics”" && !strings.Contains(m.Subject, "läuft am 15. August 2026 ab") {
			t.Errorf("subject = %q, want one that contains \"läuft am 15. August 2026 ab\"", m.Subject)
		}
		if !strings.Contains(m.Text, "bis 15. August 2026 gültig") || strings.Contains(m.Text, "Congratulations!") || !mailLink.MatchString(m.Text) || m.Unsubscribe == "" {
			t.Errorf("the reminder is %q, want the last day, a mailed link and a link to unsubscribe, but no text for new certificates", m.Text)
		}
		notices, err := b.Notices(t.Context(), c)
		if err != nil || len(notices) != 2 || notices[0].Reason != recipient.Expiring || notices[0].Status != recipient.Queued {
			t.Errorf("notices = %+v, error %v, want 2 notices, the latest a queued reminder", notices, err)
		}
	})
}

func TestNoReminderOfExpiry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		approved := func(name string) *cert.Certificate {
			c := b.upload(to(name+"@example.org"), expires("2026-08-15"))
			b.approve(c)
			return c
		}
		untold, unsubscribed, member, revoked, unwanted := approved("untold"), approved("unsubscribed"), approved("member"), approved("revoked"), approved("unwanted")
		sent := len(b.sent())
		b.Exec(`UPDATE notices SET status = 'dropped' WHERE certificate_id = $1`, untold.ID)
		for _, c := range []*cert.Certificate{unsubscribed, member} {
			b.Exec(`INSERT INTO unsubscribes (institution_id, email_folded, created_at) VALUES ($1, $2, 1)`, b.inst.ID, c.Email)
		}
		b.verify(b.user("member@example.org", false), "member@example.org")
		b.Tx(func(tx *db.Tx) error { return b.ExpiringTx(t.Context(), tx, []*cert.Certificate{revoked}) })
		b.move(revoked, cert.Revoked)
		b.expiring(untold, unsubscribed, b.get(member.UUID))
		if err := b.Accounts.SetExpiry(t.Context(), b.inst.ID, account.Expiry{ExpiryDays: 30}); err != nil {
			t.Fatal(err)
		}
		b.expiring(unwanted)
		b.Advance(time.Hour)
		b.sweep()
		if now := b.sent(); len(now) > sent {
			t.Errorf("mail was queued for %v, want no reminder", now)
		}
	})
}

// TestReminderBesideTheFirstMail checks that the first mail about a certificate and a reminder are
// separate mails.
func TestReminderBesideTheFirstMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload(expires("2026-07-10"))
		b.move(c, cert.Approved)
		b.Tx(func(tx *db.Tx) error { return b.ExpiringTx(t.Context(), tx, []*cert.Certificate{c}) })
		b.runJob(c)
		if n := len(b.mails()); n != 1 {
			t.Fatalf("%d mails were written, want 1", n)
		}
		b.sweep()
		if mails := b.mails(); len(mails) != 2 || strings.Contains(mails[0].Text, "expires soon") || !strings.Contains(mails[1].Text, "Your certificate expires soon") {
			t.Errorf("mails = %+v, want the first mail and a reminder", mails)
		}
	})
}
