package recipient

import (
	"context"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Replacement is the reason of the first notice of a replacement, if the recipient got mail about a
// certificate that it replaces.
const Replacement Reason = "replacement"

// maxReplacements is the maximum number of replacements that current follows.
const maxReplacements = 100

// chain selects the ids of all certificates in the chain of replacements of a certificate, including its
// own id.
const chain = `SELECT o.id FROM certificates c JOIN certificates o ON o.uuid = coalesce(c.lineage, c.uuid) OR o.lineage = coalesce(c.lineage, c.uuid) WHERE c.id = $1`

// mailedTx reports whether c is a replacement and mail about another certificate in its chain was sent
// to the same address. A message that is queued or in the outbox counts as sent.
func mailedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, emailFolded string) (mailed bool, err error) {
	if c.Replaces == nil {
		return false, nil
	}
	if err := tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM notices WHERE certificate_id IN (`+chain+`) AND certificate_id <> $1 AND email_folded = $2 AND status IN ('queued', 'sent', 'unsent'))`,
		c.ID, emailFolded).Scan(&mailed); err != nil {
		return false, fmt.Errorf("reading the notices of a replaced certificate: %w", err)
	}
	return mailed, nil
}

// firstReasonTx returns the reason of the first notice of an approved certificate.
func firstReasonTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, emailFolded string) (Reason, error) {
	mailed, err := mailedTx(ctx, tx, c, emailFolded)
	if mailed {
		return Replacement, err
	}
	return Approval, err
}

// takeOverTx closes the requests to correct the certificate that c replaces. If both certificates have
// the same address, it also moves the links that the holder created: they then show c, and the holder of
// c can revoke them.
func (s *Service) takeOverTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, emailFolded string) error {
	if c.Replaces == nil {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE corrections SET settled_at = $1
		WHERE settled_at IS NULL AND institution_id = $2 AND certificate_id = (SELECT id FROM certificates WHERE uuid = $3)`,
		db.Micros(s.now()), c.InstitutionID, c.Replaces.UUID); err != nil {
		return fmt.Errorf("closing the requests to correct a replaced certificate: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE shares SET certificate_id = $1
		WHERE certificate_id = (SELECT id FROM certificates WHERE uuid = $2 AND institution_id = $3 AND email_folded = $4)`,
		c.ID, c.Replaces.UUID, c.InstitutionID, emailFolded); err != nil {
		return fmt.Errorf("moving links to a replacement: %w", err)
	}
	return nil
}

// current follows the replacements of c as long as they are for the same address, and returns the last
// one. It returns c if there is none.
func (s *Service) current(ctx context.Context, c *cert.Certificate) (*cert.Certificate, error) {
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return nil, fmt.Errorf("reading the address of a certificate: %w", err)
	}
	for range maxReplacements {
		if !c.Replaced() {
			break
		}
		next, err := s.certs.ByUUID(ctx, c.InstitutionID, c.ReplacedBy.UUID)
		if fault.Is(err, fault.NotFound) {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		other, err := account.ParseEmail(next.Email)
		if err != nil {
			return nil, fmt.Errorf("reading the address of a certificate: %w", err)
		}
		if other.Folded != email.Folded {
			break
		}
		c = next
	}
	return c, nil
}

// followReplacements makes a mailed link show the current certificates instead of those that they
// replaced.
func (s *Service) followReplacements(ctx context.Context, l *MailLink) error {
	var shown []*cert.Certificate
	for _, c := range l.Certificates {
		now, err := s.current(ctx, c)
		if err != nil {
			return err
		}
		if now != c {
			if l.former == nil {
				l.former = map[string]*cert.Certificate{}
			}
			l.former[c.UUID] = now
		}
		if !slices.ContainsFunc(shown, func(o *cert.Certificate) bool { return o.ID == now.ID }) {
			shown = append(shown, now)
		}
	}
	l.Certificates = shown
	return nil
}

// Successor returns the certificate of a person that replaced c, or nil if c was not replaced or if the
// person does not have the new certificate.
func (s *Service) Successor(ctx context.Context, userID int64, c *cert.Certificate) (*cert.Certificate, error) {
	if !c.Replaced() {
		return nil, nil //nolint:nilnil // most certificates are not replaced
	}
	next, err := s.Certificate(ctx, userID, c.ReplacedBy.UUID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // the new certificate was issued to another person
	}
	return next, err
}
