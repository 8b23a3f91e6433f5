package application

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

// These are the kinds of mail to applicants. There is no mail about an approval, because the applicant
// receives the mail about the certificate.
const (
	mailReceived = "received"
	mailHold     = "hold"
	mailRejected = "rejected"
)

// maxQuoted is the maximum length of a name or a title in a mail, in characters. maxMailed is the maximum
// length of each line of a reason or a question.
const (
	maxQuoted = 200
	maxMailed = 1000
)

// mailTx queues a mail to the applicant, in the language of the applicant's account or of the
// institution's mail. It queues no mail to an applicant without an account who has unsubscribed.
func (s *Service) mailTx(ctx context.Context, tx *db.Tx, kind string, a *Application) error {
	settings, err := account.ReadSettings(ctx, tx, a.InstitutionID)
	if err != nil {
		return err
	}
	to, tag := mail.Address{Name: a.FullName, Email: a.Email}, ""
	if a.ApplicantID != 0 {
		u, err := account.UserByID(ctx, tx, a.ApplicantID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			to, tag = mail.Address{Name: a.FullName, Email: u.Email}, u.Language
		}
	} else if isUnsubscribed, err := recipient.IsUnsubscribed(ctx, tx, a.InstitutionID, a.emailFolded); err != nil || isUnsubscribed {
		return err
	}
	l := s.catalog.FirstOf(tag, settings.MailLanguage)
	head, err := account.MailHeadOf(ctx, tx, a.InstitutionID)
	if err != nil {
		return err
	}
	letter, subject, err := s.letter(l, kind, a, head.Name)
	if err != nil {
		return fmt.Errorf("writing a mail about an application: %w", err)
	}
	m, err := head.Write(letter, to, subject)
	if err != nil {
		return err
	}
	m.Sender, m.ReplyTo = settings.DisplayName(head.Name), settings.ReplyTo
	_, err = s.mailer.EnqueueTx(ctx, tx, m)
	return err
}

// letter returns a mail and its subject.
func (s *Service) letter(l *locale.Language, kind string, a *Application, institution string) (letter mail.Letter, subject string, err error) {
	text, failed := l.Texts("application_mail.")
	say := func(key string, args ...any) string {
		for i := 1; i < len(args); i += 2 {
			if value, ok := args[i].(string); ok {
				args[i] = mail.Quote(value, maxQuoted, l.Direction)
			}
		}
		return text(key, args...)
	}
	letter = mail.Letter{Language: l.Tag, Direction: l.Direction}
	quote := func(text string) {
		for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				letter.Paragraphs = append(letter.Paragraphs, mail.Quote(line, maxMailed, l.Direction))
			}
		}
	}
	button := "open"
	switch kind {
	case mailReceived:
		letter.Paragraphs = []string{say("received_text", "name", a.FullName, "offer", a.OfferName, "institution", institution), say("received_next")}
	case mailHold:
		if kind = "hold_" + string(a.Hold.Kind); a.Hold.Kind == Information {
			kind = "question"
		}
		letter.Paragraphs = []string{say(kind+"_text", "offer", a.OfferName, "institution", institution)}
		quote(a.Hold.Text)
		letter.After = []string{say("hold_until", "time", l.Time(a.Hold.Until))}
		button = "answer"
	case mailRejected:
		letter.Paragraphs = []string{say("rejected_text", "offer", a.OfferName, "institution", institution)}
		quote(a.Reason)
	}
	letter.Heading = say(kind + "_heading")
	letter.Button = &mail.Button{Label: say(button), URL: s.to("/account/applications/" + url.PathEscape(a.UUID))}
	if a.ApplicantID == 0 {
		letter.After = append(letter.After, say("sign_up", "email", a.Email))
		letter.Why = say("why_institution", "institution", institution, "email", a.Email)
	} else {
		letter.Why = say("why", "institution", institution)
	}
	subject = say(kind+"_subject", "offer", a.OfferName)
	return letter, subject, failed()
}
