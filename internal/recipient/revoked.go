package recipient

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

// Revocation is the reason of the notice of a revoked certificate.
const Revocation Reason = "revocation"

// TellRevokedTx mails the public reason to the recipients of revoked certificates of an institution. It
// ignores a certificate about which no mail was sent to its address before. A person gets one mail about
// all certificates with the same address. TellRevokedTx is the callback cert.Config.TellRevoked. It runs
// after MovedTx, which withdraws mail that waits to be sent. It is not called for a certificate that is
// replaced, because the mail about the new certificate reports the replacement.
func (s *Service) TellRevokedTx(ctx context.Context, tx *db.Tx, list []*cert.Certificate) error {
	notices := map[string][]any{}
	var addresses []string
	for _, c := range list {
		email, err := account.ParseEmail(c.Email)
		if err != nil {
			return fmt.Errorf("reading the address of a certificate: %w", err)
		}
		// MovedTx has withdrawn the queued messages, except those that are being sent. The status unsent
		// means that the message is in the outbox, which counts as sent.
		var told bool
		if err := tx.QueryRowContext(ctx, `
			SELECT EXISTS (SELECT 1 FROM notices WHERE certificate_id = $1 AND email_folded = $2 AND status IN ('queued', 'sent', 'unsent'))`,
			c.ID, email.Folded).Scan(&told); err != nil {
			return fmt.Errorf("reading the notices of a revoked certificate: %w", err)
		}
		if !told {
			continue
		}
		id, err := s.insertTx(ctx, tx, c, email, Revocation, "")
		if err != nil {
			return err
		}
		if notices[email.Folded] == nil {
			addresses = append(addresses, email.Folded)
		}
		notices[email.Folded] = append(notices[email.Folded], id)
	}
	for _, address := range addresses {
		ids := notices[address]
		if err := s.writeTx(ctx, tx, `id IN (`+db.Placeholders(1, len(ids))+`)`, ids...); err != nil {
			return err
		}
	}
	return nil
}

// revokedMany changes the letter about several certificates to a letter about their revocation, and
// returns the subject.
func (d *draft) revokedMany(w *translator, letter *mail.Letter) (subject string) {
	letter.Heading = w.text("revoked_heading_many")
	letter.Paragraphs = []string{w.text("revoked_text_many", "institution", d.institution), w.reason(d.items[0].revocation)}
	letter.SenderText = nil
	return w.text("revoked_subject_many", "institution", d.institution)
}

// revoked changes the letter about one certificate to a letter about its revocation, and returns the
// subject. It removes the institution's texts, which are for new certificates only.
func (d *draft) revoked(w *translator, letter *mail.Letter) (subject string) {
	first := d.items[0]
	letter.Heading = w.text("revoked_heading")
	letter.Paragraphs = []string{w.text("revoked_text", "institution", d.institution), w.reason(first.revocation)}
	letter.SenderText, letter.Links = nil, nil
	letter.Certificate.Picture, letter.Certificate.PictureText = "", ""
	return w.text("revoked_subject", "title", first.title)
}

// reason returns the line of a mail with the reason of a revocation.
func (w *translator) reason(reason string) string {
	limited := *w
	limited.maxLength = max(w.maxLength, maxReason)
	text := limited.text("revoked_reason", "reason", reason)
	w.err = limited.err
	return text
}

// maxReason is the maximum length of the reason of a revocation in a mail, in characters.
const maxReason = 1000
