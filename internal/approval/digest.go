package approval

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// SweepInterval is the interval of Sweep.
	SweepInterval = time.Minute
	// mailInterval is the minimum time between two mails to a signatory of an institution.
	mailInterval = time.Hour
	// settle is the minimum time between the last request to a signatory and the mail, so that one mail
	// includes a whole batch.
	settle = 2 * time.Minute
	// maxNamed is the maximum number of batches that a mail lists.
	maxNamed = 10
)

// Sweep mails each signatory who was asked to approve certificates after the last mail, at most once in
// mailInterval. It also deletes removed pictures of signatures that no certificate needs.
func (s *Service) Sweep(ctx context.Context) error {
	asked, err := s.Certs.AllAsked(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, a := range asked {
		if s.Now().Sub(a.Last) < settle {
			continue
		}
		if err := s.mail(ctx, a); err != nil {
			s.Log.WarnContext(ctx, "a mail to a signatory was not written", slog.Int64("institution", a.InstitutionID), slog.Any("error", err))
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, s.Templates.SweepSignatures(ctx))
}

// mail queues the mail to a signatory if it is due.
func (s *Service) mail(ctx context.Context, a cert.Asked) error {
	groups, err := s.Groups(ctx, a.InstitutionID, a.UserID)
	if err != nil || len(groups) == 0 {
		return err
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		due, err := s.dueTx(ctx, tx, a)
		if err != nil || !due {
			return err
		}
		names, err := account.PersonNames(ctx, tx, a.InstitutionID, []int64{a.UserID})
		if err != nil || !names[a.UserID].Role.Can(account.MaySign) {
			return err
		}
		user, err := account.UserByID(ctx, tx, a.UserID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := s.message(ctx, tx, a.InstitutionID, user, groups)
		if err != nil {
			return err
		}
		_, err = s.Send(ctx, tx, m)
		return err
	})
}

// dueTx reports whether a mail to a signatory is due. If so, dueTx records the mail as sent.
func (s *Service) dueTx(ctx context.Context, tx *db.Tx, a cert.Asked) (bool, error) {
	now := s.Now()
	var sent int64
	err := tx.QueryRowContext(ctx, `
		INSERT INTO signature_mails (institution_id, user_id, sent_at) VALUES ($1, $2, $3)
		ON CONFLICT (institution_id, user_id) DO UPDATE SET sent_at = excluded.sent_at WHERE signature_mails.sent_at < $4 AND signature_mails.sent_at < $5
		RETURNING sent_at`,
		a.InstitutionID, a.UserID, db.Micros(now), db.Micros(now.Add(-mailInterval)), db.Micros(a.Last)).Scan(&sent)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("recording a mail to a signatory: %w", err)
	}
	return true, nil
}

// message returns the mail to a signatory. It contains names of batches and counts of certificates, but no
// data of recipients.
func (s *Service) message(ctx context.Context, tx *db.Tx, institutionID int64, user *account.User, groups []Group) (mail.Message, error) {
	settings, err := account.ReadSettings(ctx, tx, institutionID)
	if err != nil {
		return mail.Message{}, err
	}
	inst, err := account.InstitutionByID(ctx, tx, institutionID)
	if err != nil {
		return mail.Message{}, err
	}
	l := s.Languages.FirstOf(user.Language, settings.MailLanguage)
	head, err := account.MailHeadOf(ctx, tx, institutionID)
	if err != nil {
		return mail.Message{}, err
	}
	say, failed := l.Texts("approval_mail.")
	letter, subject := letter(l, say, inst.Name, user.Email, groups)
	letter.Button = &mail.Button{Label: say("button"), URL: s.To("/panel/" + inst.Slug + "/approvals")}
	if err := failed(); err != nil {
		return mail.Message{}, err
	}
	return head.Write(letter, mail.Address{Name: user.Name, Email: user.Email}, subject)
}

func letter(l *locale.Language, say func(key string, args ...any) string, institution, email string, groups []Group) (out mail.Letter, subject string) {
	total := 0
	for _, g := range groups {
		total += g.Count
	}
	out = mail.Letter{
		Language: l.Tag, Direction: l.Direction, Heading: say("heading"),
		Paragraphs: []string{say("text", "institution", institution, "n", total)},
		Why:        say("why", "institution", institution, "email", email),
	}
	// The certificates without a batch are not counted among the further batches.
	if i := slices.IndexFunc(groups, func(g Group) bool { return g.BatchID == "" }); i >= 0 {
		out.Paragraphs = append(out.Paragraphs, say("single", "n", groups[i].Count))
		groups = slices.Concat(groups[:i], groups[i+1:])
	}
	named := min(len(groups), maxNamed)
	for _, g := range groups[:named] {
		out.Paragraphs = append(out.Paragraphs, say("batch", "name", g.Name, "n", g.Count))
	}
	further := 0
	for _, g := range groups[named:] {
		further += g.Count
	}
	if further > 0 {
		out.Paragraphs = append(out.Paragraphs, say("more", "n", further))
	}
	return out, say("subject", "institution", institution, "n", total)
}
