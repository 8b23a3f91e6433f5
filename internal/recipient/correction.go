package recipient

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// maxCorrection is the maximum length of a request in characters.
	maxCorrection = 1000
	// maxQuoted is the maximum length of the request in the mail, in characters.
	maxQuoted = maxCorrection
	// maxShownCorrections is the maximum number of requests that are listed for one certificate.
	maxShownCorrections = 50
)

// Correction is a request to correct a certificate, by its holder.
type Correction struct {
	UUID string
	// Certificate is the UUID of the certificate, and FullName the name of its recipient.
	Certificate, FullName, Title, ReferenceID string
	Text                                      string
	CreatedAt                                 time.Time
	// SettledAt is nil until the institution has handled the request.
	SettledAt *time.Time
}

// RequestCorrection stores a holder's request to correct a certificate. It mails the request to the
// institution's owners, and to the institution's contact if the contact is an e-mail address. The
// error is fault.Invalid or fault.TooMany.
func (s *Service) RequestCorrection(ctx context.Context, h Holder, c *cert.Certificate, text string) error {
	text = strings.TrimSpace(text)
	if n := len([]rune(text)); n < 1 || n > maxCorrection || !account.CleanText(text) {
		return fault.OfField("text", fmt.Sprintf("Describe the error in 1 to %d characters.", maxCorrection))
	}
	profile, err := s.accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, h.key(), correcting); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO corrections (uuid, certificate_id, institution_id, user_id, text, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			uuid.Must(uuid.NewV7()).String(), c.ID, c.InstitutionID, sql.NullInt64{Int64: h.userID, Valid: h.userID != 0}, text, db.Micros(s.now())); err != nil {
			return fmt.Errorf("storing a request for correction: %w", err)
		}
		return s.mailCorrectionTx(ctx, tx, h, c, profile, text)
	})
}

func (s *Service) mailCorrectionTx(ctx context.Context, tx *db.Tx, h Holder, c *cert.Certificate, profile *account.PublicProfile, text string) error {
	owners, err := s.accounts.OwnersTx(ctx, tx, c.InstitutionID)
	if err != nil {
		return err
	}
	if a, err := account.ParseEmail(profile.Contact); err == nil {
		owners = append(owners, account.Person{Name: profile.Name, Email: a.Text})
	}
	settings, err := account.ReadSettings(ctx, tx, c.InstitutionID)
	if err != nil {
		return err
	}
	// The mail links to the panel, because the certificate cannot be corrected on its public page.
	page := s.to("/panel/" + profile.Slug + "/certificates/" + c.UUID + "#corrections")
	head, err := account.MailHeadOf(ctx, tx, c.InstitutionID)
	if err != nil {
		return err
	}
	w := &translator{language: s.catalog.FirstOf(settings.MailLanguage), maxLength: titleInText}
	name := h.Name
	if name == "" {
		name = c.FullName
	}
	subject := w.text("correction_subject", "title", c.Title)
	letter := mail.Letter{
		Language: w.language.Tag, Direction: w.language.Direction, Heading: w.text("correction_heading"),
		Paragraphs: []string{
			w.text("correction_intro", "name", name, "email", h.Email, "title", c.Title, "reference", c.ReferenceID),
			"“" + mail.Quote(text, maxQuoted, w.language.Direction) + "”", w.text("correction_next"),
		},
		Button: &mail.Button{Label: w.text("correction_open"), URL: page},
		Why:    w.text("correction_why", "institution", profile.Name),
	}
	if w.err != nil {
		return fmt.Errorf("writing a mail: %w", w.err)
	}
	mailed := map[string]bool{}
	for _, o := range owners {
		if mailed[strings.ToLower(o.Email)] {
			continue
		}
		mailed[strings.ToLower(o.Email)] = true
		m, err := head.Write(letter, mail.Address{Name: o.Name, Email: o.Email}, subject)
		if err != nil {
			return err
		}
		if _, err := s.mailer.EnqueueTx(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

// OpenCorrections returns at most limit open requests of an institution, the oldest first, and the
// number of all open requests.
func (s *Service) OpenCorrections(ctx context.Context, institutionID int64, limit int) (list []*Correction, total int, err error) {
	const where = `r.institution_id = $1 AND r.settled_at IS NULL`
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM corrections r WHERE `+where, institutionID).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("counting requests for correction: %w", err)
	}
	if total == 0 {
		return nil, 0, nil
	}
	list, err = s.corrections(ctx, where+` ORDER BY r.id LIMIT $2`, institutionID, limit)
	return list, total, err
}

// CorrectionsOf returns at most maxShownCorrections requests to correct a certificate, the newest
// first.
func (s *Service) CorrectionsOf(ctx context.Context, c *cert.Certificate) ([]*Correction, error) {
	return s.corrections(ctx, `r.certificate_id = $1 AND r.institution_id = $2 ORDER BY r.id DESC LIMIT $3`, c.ID, c.InstitutionID, maxShownCorrections)
}

func (s *Service) corrections(ctx context.Context, where string, args ...any) ([]*Correction, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT r.uuid, c.uuid, c.full_name, c.title, c.reference_id, r.text, r.created_at, r.settled_at
		FROM corrections r JOIN certificates c ON c.id = r.certificate_id WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading requests for correction: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Correction, error) {
		var r Correction
		var created int64
		var settled sql.NullInt64
		if err := rows.Scan(&r.UUID, &r.Certificate, &r.FullName, &r.Title, &r.ReferenceID, &r.Text, &created, &settled); err != nil {
			return nil, err
		}
		r.CreatedAt, r.SettledAt = db.Time(created), db.OptionalTime(settled)
		return &r, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading requests for correction: %w", err)
	}
	return list, nil
}

// SettleCorrection records that an institution has handled a request. A second call changes nothing. If the
// request was open and the function then is not nil, SettleCorrection calls it in the same transaction. The
// error is fault.NotFound if the certificate has no such request.
func (s *Service) SettleCorrection(ctx context.Context, c *cert.Certificate, id string, then cert.TxFunc) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE corrections SET settled_at = $1 WHERE uuid = $2 AND certificate_id = $3 AND institution_id = $4 AND settled_at IS NULL`,
			db.Micros(s.now()), id, c.ID, c.InstitutionID)
		if err != nil {
			return fmt.Errorf("settling a request for correction: %w", err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return fmt.Errorf("settling a request for correction: %w", err)
		}
		if n > 0 {
			if then == nil {
				return nil
			}
			return then(ctx, tx, c)
		}
		var found bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM corrections WHERE uuid = $1 AND certificate_id = $2 AND institution_id = $3)`,
			id, c.ID, c.InstitutionID).Scan(&found); err != nil {
			return fmt.Errorf("reading a request for correction: %w", err)
		}
		if !found {
			return fault.New(fault.NotFound, "There is no such request.")
		}
		return nil
	})
}
