package identity

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

// paths has the path of the page of each mailed link, without the secret.
var paths = map[Purpose]string{
	ToSignUp: "/sign-up/", ToSignIn: "/sign-in/link/", ToReset: "/reset/", ToChangeAddress: "/account/address/",
	ToAddAddress: "/account/addresses/",
}

// maxHost is the maximum length of a sender name that replaces the host in the text of a mail, in
// characters.
const maxHost = 120

// writeTx queues a mail, if the service sends mail. name is a section of the catalog. It has the subject
// and the text of the mail. If path is not "", the mail has a button with a link, and the section has
// the label of the button and the lifetime of the link. The section of a mail without a link can have
// its own advice for a reader who did not cause the mail. For example, a mail to a former address must
// not advise the reader to set a new password, because a former address cannot be used for that.
func (s *Service) writeTx(ctx context.Context, tx *db.Tx, to Person, name, path string, args ...any) error {
	if s.Mailer == nil {
		return nil
	}
	l := s.Languages.FirstOf(to.Language)
	say, failed := l.Texts("")
	head, err := account.MailHeadFor(ctx, tx, to.ID, s.host)
	if err != nil {
		return err
	}
	// If the host is localhost or an IP address, the texts contain the name of the sender instead.
	host := s.host
	if mail.Host(host) != host {
		host = mail.Quote(head.Name, maxHost, l.Direction)
	}
	subject := say(name + ".subject")
	letter := mail.Letter{
		Language: l.Tag, Direction: l.Direction, Heading: subject, Why: say("letter.why", "host", host),
		Paragraphs: []string{say(name+".text", append([]any{"host", host}, args...)...)},
	}
	if path != "" {
		letter.Button = &mail.Button{Label: say(name + ".button"), URL: s.BaseURL + path}
		letter.Paragraphs = append(letter.Paragraphs, say(name+".once"))
		if name != "letter_known" {
			letter.Paragraphs = append(letter.Paragraphs, say("letter.ignore"))
		}
	} else if name != "letter_taken" {
		notYou := "letter.not_you"
		if l.Has(name + ".not_you") {
			notYou = name + ".not_you"
		}
		letter.Paragraphs = append(letter.Paragraphs, say(notYou, "host", host))
	}
	if err := failed(); err != nil {
		return fmt.Errorf("queueing a mail: %w", err)
	}
	m, err := head.Write(letter, mail.Address{Name: to.Name, Email: to.Email}, subject)
	if err != nil {
		return err
	}
	_, err = s.Mailer.EnqueueTx(ctx, tx, m)
	return err
}

// notifyDeviceTx notifies a person of a sign-in from an unknown browser.
func (s *Service) notifyDeviceTx(ctx context.Context, tx *db.Tx, session *Session) error {
	if s.Mailer == nil {
		return nil
	}
	device, address := cmp.Or(session.Device(), "?"), cmp.Or(session.Address, "?")
	at := s.Languages.FirstOf(session.Person.Language).Time(session.CreatedAt)
	return s.writeTx(ctx, tx, session.Person, "letter_device", "", "device", device, "address", address, "time", at)
}

// change is a change of a person's credentials or addresses. The person is notified of it, and the audit log
// records the changes of members and operators.
type change string

const (
	passwordChanged change = "letter_password"
	passkeyAdded    change = "letter_passkey_added"
	passkeyRemoved  change = "letter_passkey_removed"
	codesOn         change = "letter_codes_on"
	codesOff        change = "letter_codes_off"
	addressChanged  change = "letter_moved"
	addressAdded    change = "letter_address_added"
	addressRemoved  change = "letter_address_removed"
)

// notifyTx notifies a person of a change. args are the arguments of the mail's text. If the person is
// a member or an operator, notifyTx records the change in the audit log.
func (s *Service) notifyTx(ctx context.Context, tx *db.Tx, p Person, c change, args ...any) error {
	if err := recordTx(ctx, tx, p, audit.SecurityChanged, strings.TrimPrefix(string(c), "letter_")); err != nil {
		return err
	}
	return s.writeTx(ctx, tx, p, string(c), "", args...)
}
