package recipient

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

// ExpiringTx creates notices about certificates that expire soon, for institutions that send reminders.
// It ignores a certificate if no mail about it was sent or waits to be sent. A sweep writes the mail:
// see writeReminders. ExpiringTx is the callback cert.Config.Expiring.
func (s *Service) ExpiringTx(ctx context.Context, tx *db.Tx, list []*cert.Certificate) error {
	ids := map[int64][]any{}
	for _, c := range list {
		ids[c.InstitutionID] = append(ids[c.InstitutionID], c.ID)
	}
	for _, institution := range slices.Sorted(maps.Keys(ids)) {
		settings, err := account.ReadExpiry(ctx, tx, institution)
		if err != nil {
			return err
		}
		if !settings.ExpiryMail {
			continue
		}
		some := ids[institution]
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO notices (certificate_id, occasion, institution_id, reason, email, email_folded, status, created_at, updated_at)
			SELECT id, (SELECT max(occasion) + 1 FROM notices WHERE certificate_id = c.id), institution_id, 'expiring', email, email_folded, 'waiting', $2, $2
			FROM certificates c WHERE institution_id = $1 AND id IN (`+db.Placeholders(3, len(some))+`)
				AND EXISTS (SELECT 1 FROM notices WHERE certificate_id = c.id AND status IN ('waiting', 'queued', 'sent', 'unsent'))
			ON CONFLICT (certificate_id, occasion) DO NOTHING`, append([]any{institution, db.Micros(s.now())}, some...)...); err != nil {
			return fmt.Errorf("creating notices: %w", err)
		}
	}
	return nil
}

// writeReminders writes the mail about certificates that expire soon. The sweep that calls ExpiringTx
// does not write this mail, because its transaction would take too long.
func (s *Service) writeReminders(ctx context.Context) error {
	list, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT id FROM notices WHERE status = 'waiting' AND batch_id IS NULL AND reason = 'expiring' ORDER BY created_at LIMIT $1`, sweepBatch))
	if err != nil {
		return fmt.Errorf("sweeping reminders: %w", err)
	}
	return each(list, "sweeping reminders", func(id int64) error {
		return s.db.Tx(ctx, func(tx *db.Tx) error { return s.writeTx(ctx, tx, `id = $1`, id) })
	})
}

// expiry returns the last day on which the first certificate is valid, as a date in the language of the
// mail.
func (d *draft) expiry() string {
	day, err := time.Parse(time.DateOnly, d.items[0].expiresOn)
	if err != nil {
		return d.items[0].expiresOn
	}
	return d.language.Date(day)
}

// remind changes the letter about a new certificate to a letter about its expiry, and returns the
// subject of the mail. It removes the texts of the institution, because they are for new certificates
// only.
func (d *draft) remind(w *translator, letter *mail.Letter) (subject string) {
	first := d.items[0]
	letter.SenderText = nil
	letter.Heading = w.text("expiring_heading")
	letter.Paragraphs = []string{
		w.text("expiring_text", "institution", d.institution, "name", first.name, "date", d.expiry()), w.text("expiring_renew", "institution", d.institution),
	}
	return w.text("expiring_subject", "title", first.title, "date", d.expiry())
}
