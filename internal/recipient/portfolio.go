package recipient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// MaxEntries is the maximum number of certificates in a portfolio.
	MaxEntries = 50
	// MaxDisplayName is the maximum number of characters of the name on a portfolio.
	MaxDisplayName = 100
	minSlug        = 4
	maxSlug        = 40
	// slugHold is the time for which an address is reserved after its person stops using it, so that
	// links to it do not lead to the page of another person.
	slugHold = 366 * 24 * time.Hour
)

// Portfolio is a public page with certificates that a person chooses.
type Portfolio struct {
	// Slug is the end of the page's address. It is "" if the person has no portfolio yet.
	Slug string
	// DisplayName is the name that the person chose for the page.
	DisplayName string
	// Visible reports whether the page is switched on. Listed reports whether search engines may index
	// it.
	Visible, Listed bool
	// Certificates are the chosen certificates that belong to the person, in the order of the page.
	Certificates []*cert.Certificate
}

// Has reports whether a certificate is in the portfolio.
func (p *Portfolio) Has(uuid string) bool {
	return slices.ContainsFunc(p.Certificates, func(c *cert.Certificate) bool { return c.UUID == uuid })
}

// PortfolioSettings are the settings of a portfolio that a person can change.
type PortfolioSettings struct {
	// Slug is the end of the address. If it is "", an existing portfolio keeps its address, and a new
	// portfolio gets a random address.
	Slug            string
	DisplayName     string
	Visible, Listed bool
}

var (
	// ErrManyEntries means that a portfolio has too many certificates.
	ErrManyEntries = fault.New(fault.BadRequest, fmt.Sprintf("A portfolio can have at most %d certificates.", MaxEntries))
	errNoPortfolio = fault.New(fault.NotFound, "There is no such page.")
	// slugRule is the syntax of the slugs that a person can choose.
	slugRule = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)
	// reservedSlugs could be mistaken for pages of the vault.
	reservedSlugs = []string{
		"about", "account", "admin", "administrator", "certificate", "certificates", "certvault", "help", "official", "operator", "panel", "portfolio",
		"registrar", "security", "sign-in", "support", "vault", "verify", "verified",
	}
)

// RandomSlug returns a slug with 60 random bits, without letters that are easily confused.
func RandomSlug() string {
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = letters[b[i]%32]
	}
	return string(b)
}

// check normalizes the settings. The error lists their problems.
func (n *PortfolioSettings) check() error {
	var bad fault.Fields
	n.DisplayName = strings.Join(strings.Fields(n.DisplayName), " ")
	if length := len([]rune(n.DisplayName)); length < 1 || length > MaxDisplayName || !account.CleanText(n.DisplayName) {
		bad.Add("display_name", fmt.Sprintf("The name must have 1 to %d characters.", MaxDisplayName))
	}
	n.Slug = strings.ToLower(strings.TrimSpace(n.Slug))
	if n.Slug != "" && (len(n.Slug) < minSlug || len(n.Slug) > maxSlug || !slugRule.MatchString(n.Slug)) {
		bad.Add("slug", fmt.Sprintf("The address must have %d to %d letters a to z, digits and single hyphens between them.", minSlug, maxSlug))
	} else if slices.Contains(reservedSlugs, n.Slug) {
		bad.Add("slug", slugTaken)
	}
	return bad.Err()
}

// slugTaken is the message about a slug that another person uses, or that is reserved.
const slugTaken = "This address is not available. Choose another one."

func errSlugTaken() error { return fault.OfField("slug", slugTaken) }

// Portfolio returns the portfolio of a person, or an empty Portfolio if the person has none.
func (s *Service) Portfolio(ctx context.Context, userID int64) (*Portfolio, error) {
	return s.portfolio(ctx, userID, `user_id = $1`, userID)
}

// PublicPortfolio returns the visible portfolio with a slug. If there is none, the error is
// fault.NotFound.
func (s *Service) PublicPortfolio(ctx context.Context, slug string) (*Portfolio, error) {
	var userID int64
	err := s.db.QueryRowContext(ctx, `SELECT user_id FROM portfolios WHERE slug = $1 AND visible = $2`, slug, true).Scan(&userID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoPortfolio
	}
	if err != nil {
		return nil, fmt.Errorf("reading a portfolio: %w", err)
	}
	// The page can be switched off between the statements.
	p, err := s.portfolio(ctx, userID, `slug = $1 AND visible = $2`, slug, true)
	if err == nil && p.Slug == "" {
		err = errNoPortfolio
	}
	return p, err
}

// portfolio returns the portfolio that a condition selects, or an empty Portfolio if there is none. The
// condition must not select the portfolio of another person.
func (s *Service) portfolio(ctx context.Context, userID int64, where string, args ...any) (*Portfolio, error) {
	p := &Portfolio{}
	err := s.db.QueryRowContext(ctx, `SELECT slug, display_name, visible, listed FROM portfolios WHERE `+where, args...).
		Scan(&p.Slug, &p.DisplayName, &p.Visible, &p.Listed)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a portfolio: %w", err)
	}
	// The join omits certificates that no longer belong to the person.
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT e.certificate_id FROM portfolio_entries e JOIN certificates c ON c.id = e.certificate_id
		JOIN customers k ON k.institution_id = c.institution_id AND k.number = c.customer_id
		WHERE e.user_id = $1 AND k.user_id = $1 AND c.status IN ('approved', 'revoked') AND c.approved_at IS NOT NULL
		ORDER BY e.position, e.certificate_id`, userID))
	if err != nil {
		return nil, fmt.Errorf("reading the entries of a portfolio: %w", err)
	}
	p.Certificates, err = s.certs.ByIDs(ctx, ids)
	return p, err
}

// SavePortfolio creates or changes the portfolio of a person. After a change of the address, the old
// address stops working, and for slugHold only this person can use it again. The error is fault.Invalid
// or fault.TooMany.
func (s *Service) SavePortfolio(ctx context.Context, userID int64, n PortfolioSettings) error {
	if err := n.check(); err != nil {
		return err
	}
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, Holder{userID: userID}.key(), arranging); err != nil {
			return err
		}
		var before string
		err := tx.QueryRowContext(ctx, `UPDATE portfolios SET updated_at = $2 WHERE user_id = $1 RETURNING slug`, userID, db.Micros(s.now())).Scan(&before)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("saving a portfolio: %w", err)
		}
		slug := n.Slug
		switch {
		case slug == "" && before != "":
			slug = before
		case slug == "":
			slug = RandomSlug()
		}
		if slug != before {
			if err := s.changeSlugTx(ctx, tx, userID, before, slug); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO portfolios (user_id, slug, display_name, visible, listed, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $6)
			ON CONFLICT (user_id) DO UPDATE SET slug = excluded.slug, display_name = excluded.display_name, visible = excluded.visible, listed = excluded.listed`,
			userID, slug, n.DisplayName, n.Visible, n.Listed, db.Micros(s.now())); err != nil {
			return fmt.Errorf("saving a portfolio: %w", err)
		}
		return nil
	})
	if db.UniqueOn(err, "portfolios", "slug") {
		return errSlugTaken()
	}
	return err
}

// changeSlugTx checks that a slug is not reserved for another person, and reserves the slug that the
// person had before, if any. The unique index of portfolios detects a slug that is in use.
func (s *Service) changeSlugTx(ctx context.Context, tx *db.Tx, userID int64, before, slug string) error {
	now := db.Micros(s.now())
	if _, err := tx.ExecContext(ctx, `DELETE FROM portfolio_addresses WHERE free_at <= $1`, now); err != nil {
		return fmt.Errorf("deleting expired addresses: %w", err)
	}
	var taken bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM portfolio_addresses WHERE hash = $1 AND (user_id IS NULL OR user_id <> $2))`,
		slugHash(slug), userID).Scan(&taken); err != nil {
		return fmt.Errorf("checking an address: %w", err)
	}
	if taken {
		return errSlugTaken()
	}
	if before == "" {
		return nil
	}
	return s.reserveTx(ctx, tx, before, sql.NullInt64{Int64: userID, Valid: true})
}

// reserveTx reserves a slug for slugHold. Until then only the person userID can use it. If userID is
// null, no one can.
func (s *Service) reserveTx(ctx context.Context, tx *db.Tx, slug string, userID sql.NullInt64) error {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO portfolio_addresses (hash, user_id, free_at) VALUES ($1, $2, $3)
		ON CONFLICT (hash) DO UPDATE SET user_id = excluded.user_id, free_at = excluded.free_at`,
		slugHash(slug), userID, db.Micros(s.now().Add(slugHold))); err != nil {
		return fmt.Errorf("reserving an address: %w", err)
	}
	return nil
}

func slugHash(slug string) []byte {
	sum := sha256.Sum256([]byte(slug))
	return sum[:]
}

// entryChange changes ids, the certificates of a portfolio in the order of the page. id is the
// certificate that is added, removed or moved.
type entryChange func(ids []int64, id int64) ([]int64, error)

// AddEntry adds a certificate of a person at the end of the person's portfolio. The error is
// fault.NotFound, fault.BadRequest or fault.TooMany.
func (s *Service) AddEntry(ctx context.Context, userID int64, uuid string) error {
	return s.changeEntries(ctx, userID, uuid, func(ids []int64, id int64) ([]int64, error) {
		if slices.Contains(ids, id) {
			return ids, nil
		}
		if len(ids) >= MaxEntries {
			return nil, ErrManyEntries
		}
		return append(ids, id), nil
	})
}

// RemoveEntry removes a certificate from a person's portfolio. The error is fault.NotFound or
// fault.TooMany.
func (s *Service) RemoveEntry(ctx context.Context, userID int64, uuid string) error {
	return s.changeEntries(ctx, userID, uuid, func(ids []int64, id int64) ([]int64, error) {
		return slices.DeleteFunc(ids, func(other int64) bool { return other == id }), nil
	})
}

// MoveEntry moves a certificate of a person's portfolio by one place, up or down. The first certificate
// cannot move up, and the last cannot move down; this is not an error. The error is fault.NotFound or
// fault.TooMany.
func (s *Service) MoveEntry(ctx context.Context, userID int64, uuid string, up bool) error {
	return s.changeEntries(ctx, userID, uuid, func(ids []int64, id int64) ([]int64, error) {
		i := slices.Index(ids, id)
		j := i + 1
		if up {
			j = i - 1
		}
		if i >= 0 && j >= 0 && j < len(ids) {
			ids[i], ids[j] = ids[j], ids[i]
		}
		return ids, nil
	})
}

// changeEntries changes the entries of a person's portfolio. The certificate must belong to the person.
func (s *Service) changeEntries(ctx context.Context, userID int64, uuid string, change entryChange) error {
	c, err := s.Certificate(ctx, userID, uuid)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, Holder{userID: userID}.key(), arranging); err != nil {
			return err
		}
		// The update also makes concurrent changes of the same portfolio wait.
		r, err := tx.ExecContext(ctx, `UPDATE portfolios SET updated_at = $2 WHERE user_id = $1`, userID, db.Micros(s.now()))
		if err != nil {
			return fmt.Errorf("changing a portfolio: %w", err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errNoPortfolio)
		}
		ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT certificate_id FROM portfolio_entries WHERE user_id = $1 ORDER BY position, certificate_id`, userID))
		if err != nil {
			return fmt.Errorf("changing a portfolio: %w", err)
		}
		if ids, err = change(ids, c.ID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM portfolio_entries WHERE user_id = $1`, userID); err != nil {
			return fmt.Errorf("changing a portfolio: %w", err)
		}
		for i, id := range ids {
			if _, err := tx.ExecContext(ctx, `INSERT INTO portfolio_entries (user_id, certificate_id, position) VALUES ($1, $2, $3)`, userID, id, i+1); err != nil {
				return fmt.Errorf("changing a portfolio: %w", err)
			}
		}
		return nil
	})
}

// removeEntriesTx removes a certificate from all portfolios.
func removeEntriesTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM portfolio_entries WHERE certificate_id = $1`, certificateID); err != nil {
		return fmt.Errorf("removing a certificate from portfolios: %w", err)
	}
	return nil
}

// deletePortfolioTx deletes the portfolio of a person whose account is deleted. Its present and former
// addresses remain reserved, without a reference to the person.
func (s *Service) deletePortfolioTx(ctx context.Context, tx *db.Tx, userID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM portfolio_entries WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("deleting a portfolio: %w", err)
	}
	slugs, err := db.Column[string](tx.QueryContext(ctx, `DELETE FROM portfolios WHERE user_id = $1 RETURNING slug`, userID))
	if err != nil {
		return fmt.Errorf("deleting a portfolio: %w", err)
	}
	for _, slug := range slugs {
		if err := s.reserveTx(ctx, tx, slug, sql.NullInt64{}); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE portfolio_addresses SET user_id = NULL WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("deleting a portfolio: %w", err)
	}
	return nil
}

// exportedPortfolio is the portfolio in export.json.
type exportedPortfolio struct {
	Address     string `json:"address"`
	DisplayName string `json:"display_name"`
	Visible     bool   `json:"visible"`
	Listed      bool   `json:"listed"`
	// Certificates are reference ids, in the order of the page.
	Certificates []string `json:"certificates"`
}

// exportPortfolio returns the portfolio of a person for the export, or nil if there is none.
func (s *Service) exportPortfolio(ctx context.Context, userID int64) (*exportedPortfolio, error) {
	p, err := s.Portfolio(ctx, userID)
	if err != nil || p.Slug == "" {
		return nil, err
	}
	x := &exportedPortfolio{Address: s.to(PortfolioPath(p.Slug)), DisplayName: p.DisplayName, Visible: p.Visible, Listed: p.Listed, Certificates: []string{}}
	for _, c := range p.Certificates {
		x.Certificates = append(x.Certificates, c.ReferenceID)
	}
	return x, nil
}

// PortfolioPath returns the path of the page of a portfolio.
func PortfolioPath(slug string) string { return "/p/" + slug }
