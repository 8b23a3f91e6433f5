package recipient

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

// ExpiringTx creates a notice that a certificate expires soon, which a sweep mails. It creates none if the
// institution does not send such mail, or if no mail about the certificate was sent. ExpiringTx is
// the callback cert.Config.Expiring.
func (s *Service) ExpiringTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	settings, err := account.ReadExpiry(ctx, tx, c.InstitutionID)
	if err != nil || !settings.ExpiryMail {
		return err
	}
	var told bool
	if err := tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM notices WHERE certificate_id = $1 AND status IN ('waiting', 'queued', 'sent', 'unsent'))`, c.ID).Scan(&told); err != nil {
		return fmt.Errorf("reading the notices of a certificate: %w", err)
	}
	if !told {
		return nil
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return fmt.Errorf("reading the address of a certificate: %w", err)
	}
	_, err = s.insertTx(ctx, tx, c, email, Expiring, "")
	return err
}

// writeReminders writes the mail of certificates that expire soon. The sweep of expiries does not write
// it, because the writing takes longer than one transaction of that sweep may.
func (s *Service) writeReminders(ctx context.Context) error {
	list, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT id FROM notices WHERE status = 'waiting' AND batch_id IS NULL AND reason = 'expiring' ORDER BY created_at LIMIT $1`, sweepBatch))
	if err != nil {
		return fmt.Errorf("sweeping reminders: %w", err)
	}
	for _, id := range list {
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.writeTx(ctx, tx, `id = $1`, id) }); err != nil {
			return fmt.Errorf("sweeping reminders: %w", err)
		}
	}
	return nil
}

// expiry returns the last day of validity of the first certificate in the language of the mail.
func (d *draft) expiry() string {
	day, err := time.Parse(time.DateOnly, d.items[0].expiresOn)
	if err != nil {
		return d.items[0].expiresOn
	}
	return d.language.Date(day)
}

// remind makes a letter one about a certificate that expires soon, and returns the subject. The texts of
// the institution are for new certificates only.
func (d *draft) remind(w *translator, letter *mail.Letter) (subject string) {
	first := d.items[0]
	letter.SenderText = nil
	letter.Heading = w.text("expiring_heading")
	letter.Paragraphs = []string{
		w.text("expiring_text", "institution", d.institution, "name", first.name, "date", d.expiry()), w.text("expiring_renew", "institution", d.institution),
	}
	return w.text("expiring_subject", "title", first.title, "date", d.expiry())
}
