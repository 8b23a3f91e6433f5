package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// maxLinkCertificates is the maximum number of certificates that one mailed link shows.
const maxLinkCertificates = 500

// MailLink is a link that was mailed to a person without an account.
type MailLink struct {
	InstitutionID int64
	// Email is the address to which the link was mailed, and Language the language of the mail.
	Email, Language string
	// Certificates are the certificates that the link shows, including revoked certificates, in the
	// order of the mail.
	Certificates []*cert.Certificate
	// More reports whether the mail had more certificates than the link shows.
	More bool

	id int64
	// former maps the UUIDs of replaced certificates to the certificates that replaced them.
	former map[string]*cert.Certificate
}

// errNoLink is the error for an unknown link and for a revoked link, so that a client cannot
// distinguish the two cases.
var errNoLink = fault.New(fault.NotFound, "There is no such link.")

// MailLink returns the content of a mailed link. It has the replacement instead of a replaced
// certificate if both are for the same address. It omits certificates whose address was corrected or
// whose holder revoked the mailed links. If no certificate is left, the error is fault.NotFound.
func (s *Service) MailLink(ctx context.Context, secret string) (*MailLink, error) {
	var l MailLink
	var opened bool
	err := s.db.QueryRowContext(ctx, `SELECT id, institution_id, email, language, opened_at IS NOT NULL FROM mail_links WHERE hash = $1`, account.HashSecret(secret)).
		Scan(&l.id, &l.InstitutionID, &l.Email, &l.Language, &opened)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoLink
	}
	if err != nil {
		return nil, fmt.Errorf("reading a link: %w", err)
	}
	list, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT certificate_id FROM notices WHERE link_id = $1 ORDER BY id LIMIT $2`, l.id, s.maxShown+1))
	if err != nil {
		return nil, fmt.Errorf("reading a link: %w", err)
	}
	if len(list) == 0 {
		return nil, errNoLink
	}
	if l.More = len(list) > s.maxShown; l.More {
		list = list[:s.maxShown]
	}
	if l.Certificates, err = s.certs.ByIDs(ctx, list); err != nil {
		return nil, err
	}
	if err := s.followReplacements(ctx, &l); err != nil {
		return nil, err
	}
	if !opened {
		err = s.recordOpening(ctx, l.id)
	}
	return &l, err
}

// recordOpening records the first time at which a link was opened, which the institution sees. It
// ignores an outage, so that people can open their links while the database is read-only.
func (s *Service) recordOpening(ctx context.Context, id int64) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE mail_links SET opened_at = $1 WHERE id = $2 AND opened_at IS NULL`, db.Micros(s.now()), id)
		return err
	})
	if err != nil && !db.IsOutage(err) {
		return fmt.Errorf("recording the opening of a link: %w", err)
	}
	return nil
}

// HasMailLink reports whether a mailed link opens a certificate, or another certificate in its chain
// of replacements.
func (s *Service) HasMailLink(ctx context.Context, c *cert.Certificate) (open bool, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM notices WHERE certificate_id IN (`+chain+`) AND link_id IS NOT NULL)`, c.ID).Scan(&open); err != nil {
		return false, fmt.Errorf("reading a certificate's mailed links: %w", err)
	}
	return open, nil
}

// RevokeMailLinks revokes the mailed links to a certificate, and to the other certificates in its
// chain of replacements. The person whose account has the certificate may request it. A second call
// is not an error.
func (s *Service) RevokeMailLinks(ctx context.Context, c *cert.Certificate) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error { return endMailedTx(ctx, tx, c.ID) })
}

func endMailedTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE notices SET link_id = NULL WHERE certificate_id IN (`+chain+`)`, certificateID); err != nil {
		return fmt.Errorf("revoking links: %w", err)
	}
	return nil
}

// Certificate returns the certificate with a UUID, or the certificate that the link shows instead of
// it. If the link shows neither, the error is fault.NotFound.
func (l *MailLink) Certificate(uuid string) (*cert.Certificate, error) {
	for _, c := range l.Certificates {
		if c.UUID == uuid {
			return c, nil
		}
	}
	if c, ok := l.former[uuid]; ok {
		return c, nil
	}
	return nil, errNoLink
}

// Holder returns the holder of the link.
func (l *MailLink) Holder() Holder { return Holder{linkID: l.id, Email: l.Email} }

// Holder is the holder of a certificate: a person with an account, or the reader of a mailed link.
type Holder struct {
	// Name and Email are the name and address of the person. A mailed link has only the address.
	Name, Email string

	userID, linkID int64
}

// Person returns a holder with an account.
func Person(userID int64, name, email string) Holder {
	return Holder{userID: userID, Name: name, Email: email}
}

// key identifies the holder in the counts of limited actions.
func (h Holder) key() string {
	if h.userID != 0 {
		return fmt.Sprintf("user %d", h.userID)
	}
	return fmt.Sprintf("link %d", h.linkID)
}

// Unsubscribe has the institution and the address of a link to unsubscribe.
type Unsubscribe struct {
	Institution, Email, Language string
	// Done reports whether the address is unsubscribed.
	Done bool

	institution int64
	folded      string
}

// Unsubscribe returns the institution and the address of a link to unsubscribe. It changes nothing.
func (s *Service) Unsubscribe(ctx context.Context, secret string) (*Unsubscribe, error) {
	var u Unsubscribe
	err := s.db.QueryRowContext(ctx, `
		SELECT email, language, institution_id, email_folded FROM mail_links WHERE unsubscribe_hash = $1`, account.HashSecret(secret)).
		Scan(&u.Email, &u.Language, &u.institution, &u.folded)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoLink
	}
	if err != nil {
		return nil, fmt.Errorf("reading a link: %w", err)
	}
	institution, err := account.InstitutionByID(ctx, s.db, u.institution)
	if err != nil {
		return nil, err
	}
	u.Institution = institution.Name
	u.Done, err = IsUnsubscribed(ctx, s.db, u.institution, u.folded)
	return &u, err
}

// SetUnsubscribed unsubscribes the address from the institution's mail if done is true, and otherwise
// cancels the unsubscription. A second call is not an error.
func (s *Service) SetUnsubscribed(ctx context.Context, secret string, done bool) (*Unsubscribe, error) {
	u, err := s.Unsubscribe(ctx, secret)
	if err != nil {
		return nil, err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		var err error
		if done {
			_, err = tx.ExecContext(ctx, `INSERT INTO unsubscribes (institution_id, email_folded, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				u.institution, u.folded, db.Micros(s.now()))
		} else {
			_, err = tx.ExecContext(ctx, `DELETE FROM unsubscribes WHERE institution_id = $1 AND email_folded = $2`, u.institution, u.folded)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recording an unsubscription: %w", err)
	}
	u.Done = done
	return u, nil
}

// IsUnsubscribed reports whether an address is unsubscribed from the mail of an institution.
func IsUnsubscribed(ctx context.Context, q db.Queryer, institutionID int64, emailFolded string) (is bool, err error) {
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM unsubscribes WHERE institution_id = $1 AND email_folded = $2)`,
		institutionID, emailFolded).Scan(&is); err != nil {
		return false, fmt.Errorf("reading an unsubscription: %w", err)
	}
	return is, nil
}
