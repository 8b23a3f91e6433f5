package recipient

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

// sampleTitle is the title of a sample certificate, and sampleReason the reason of its revocation. They
// are not translated, because the values that an institution enters are not translated either.
const (
	sampleTitle  = "Bachelor of Science in Physics"
	sampleReason = "The certificate has a wrong grade."
)

// SampleReasons are the reasons for which Sample and Try can write a mail.
var SampleReasons = []Reason{Approval, Replacement, Revocation, Expiring}

// Page returns a mail as an HTML page that contains its pictures and loads no other file.
func (s *Service) Page(ctx context.Context, m *mail.Message) string { return s.mailer.Page(ctx, m) }

// Sample returns a mail about a sample certificate to a person without an account. about is one of
// SampleReasons, and tag is the language of the mail. If texts is not nil, the mail has these texts
// instead of the institution's texts in this language. The links in the mail open the page that verifies
// certificates.
func (s *Service) Sample(ctx context.Context, institutionID int64, about Reason, tag string, texts *account.MailText, to mail.Address) (mail.Message, error) {
	d, err := draftOf(ctx, s.db, institutionID)
	if err != nil {
		return mail.Message{}, err
	}
	if texts != nil {
		d.texts[tag] = *texts
		if *texts == (account.MailText{}) {
			delete(d.texts, tag)
		}
	}
	return s.sample(&d, about, tag, to)
}

func (s *Service) sample(d *draft, about Reason, tag string, to mail.Address) (mail.Message, error) {
	l, ok := s.catalog.Get(tag)
	if !ok {
		return mail.Message{}, fault.OfField("language", "The vault does not support this language.")
	}
	d.language, d.url = l, s.to("/verify")
	d.download, d.linkedIn = d.url, d.url
	band := d.brand
	if band == nil {
		band = mail.Letter{}.DefaultBrand()
	}
	d.picture = sampleSource + band.Day.String()
	today := s.now().UTC()
	sample := item{title: sampleTitle, name: to.Name, email: to.Email, issueDate: today.Format(time.DateOnly), reason: about, replaces: about == Replacement}
	switch about { //nolint:exhaustive // the other mails need nothing more
	case Expiring:
		sample.issueDate, sample.expiresOn = today.AddDate(-1, 0, d.expiryDays).Format(time.DateOnly), today.AddDate(0, 0, d.expiryDays).Format(time.DateOnly)
	case Revocation:
		sample.revocation = sampleReason
	}
	d.items = []item{sample}
	return d.message()
}

// Try mails a sample to the person who requests it. The error is fault.TooMany if the daily limit
// is reached.
func (s *Service) Try(ctx context.Context, institutionID int64, about Reason, tag string, userID int64, to mail.Address) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, Holder{userID: userID}.key(), trying); err != nil {
			return err
		}
		d, err := draftOf(ctx, tx, institutionID)
		if err != nil {
			return err
		}
		m, err := s.sample(&d, about, tag, to)
		if err != nil {
			return err
		}
		m.Subject = "Test: " + m.Subject
		if _, err := s.mailer.EnqueueTx(ctx, tx, m); err != nil {
			return err
		}
		if err := audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: institutionID, At: s.now(), Action: audit.MailTested, Detail: audit.Detail{"language": tag},
		}); err != nil {
			return fmt.Errorf("mailing a sample: %w", err)
		}
		return nil
	})
}
