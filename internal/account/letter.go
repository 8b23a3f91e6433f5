package account

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// mailTx queues the mail of an invitation.
func (s *Invitations) mailTx(ctx context.Context, tx *db.Tx, i *Invitation, l *locale.Language, secret string) error {
	head, err := MailHeadOf(ctx, tx, i.InstitutionID)
	if err != nil {
		return err
	}
	m, err := i.message(head, l, s.Link(InvitationPath+secret))
	if err != nil {
		return err
	}
	m.Unsubscribe = s.Link(InvitationPath + secret + "/decline")
	_, err = s.Send(ctx, tx, m)
	return err
}

// message returns the mail of an invitation.
func (i *Invitation) message(head MailHead, l *locale.Language, link string) (mail.Message, error) {
	say, failed := l.Texts("invitation.")
	role := say("role_" + string(i.Role))
	letter := mail.Letter{
		Language: l.Tag, Direction: l.Direction, Heading: say("heading", "institution", i.Institution),
		Paragraphs: []string{
			say("text", "inviter", i.Inviter, "institution", i.Institution, "role", role),
			say("ends", "date", l.Date(i.ExpiresAt.In(time.UTC))),
		},
		Button: &mail.Button{Label: say("button"), URL: link},
		Why:    say("why", "inviter", i.Inviter, "email", i.Email),
	}
	subject := say("subject", "institution", i.Institution)
	if err := failed(); err != nil {
		return mail.Message{}, err
	}
	// The link verifies the folded form of the address, so the mail goes to this form.
	return head.Write(letter, mail.Address{Email: i.folded}, subject)
}

// MailOwnerTx queues a mail to the owner of an institution that an operator has created for this
// owner.
func (s *Invitations) MailOwnerTx(ctx context.Context, tx *db.Tx, i *Institution, owner Person, operator, language string) error {
	l, ok := s.Languages.Get(language)
	if !ok {
		return fault.OfField("language", "Choose one of the languages.")
	}
	say, failed := l.Texts("opened.")
	letter := mail.Letter{
		Language: l.Tag, Direction: l.Direction, Heading: say("heading", "institution", i.Name),
		Paragraphs: []string{say("text", "inviter", operator, "institution", i.Name), say("how", "email", owner.Email)},
		Button:     &mail.Button{Label: say("button"), URL: s.Link("/sign-in")},
		Why:        say("why", "inviter", operator, "email", owner.Email),
	}
	subject := say("subject", "institution", i.Name)
	if err := failed(); err != nil {
		return err
	}
	head, err := MailHeadOf(ctx, tx, i.ID)
	if err != nil {
		return err
	}
	m, err := head.Write(letter, mail.Address{Name: owner.Name, Email: owner.Email}, subject)
	if err != nil {
		return err
	}
	_, err = s.Send(ctx, tx, m)
	return err
}

// MailOperatorsTx queues a mail about the new name of an institution to each operator of the
// installation, in the operator's language.
func (s *Invitations) MailOperatorsTx(ctx context.Context, tx *db.Tx, r Renaming) error {
	rows, err := tx.QueryContext(ctx, `SELECT name, email, language FROM users WHERE operator ORDER BY id`)
	if err != nil {
		return fmt.Errorf("reading the operators: %w", err)
	}
	type reader struct {
		Person

		language string
	}
	readers, err := db.Collect(rows, func(rows *sql.Rows) (o reader, err error) {
		err = rows.Scan(&o.Name, &o.Email, &o.language)
		return o, err
	})
	if err != nil {
		return fmt.Errorf("reading the operators: %w", err)
	}
	var head MailHead
	if u, err := url.Parse(s.Link("/")); err == nil {
		head.Name = mail.Host(u.Hostname())
	}
	for _, o := range readers {
		l := s.Languages.FirstOf(o.language)
		say, failed := l.Texts("renamed.")
		letter := mail.Letter{
			Language: l.Tag, Direction: l.Direction, Heading: say("heading", "prefix", r.Prefix),
			Paragraphs: []string{say("text", "prefix", r.Prefix, "before", r.Before, "after", r.After), say("what")},
			Button:     &mail.Button{Label: say("button"), URL: s.Link("/operator/institutions")},
			Why:        say("why"),
		}
		subject := say("subject", "prefix", r.Prefix)
		if err := failed(); err != nil {
			return err
		}
		m, err := head.Write(letter, mail.Address{Name: o.Name, Email: o.Email}, subject)
		if err != nil {
			return err
		}
		if _, err := s.Send(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}
