package recipient

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
)

const (
	// WalletPage is how many certificates a page of a wallet has.
	WalletPage = 24
	maxFilter  = 255
	maxPages   = 1000
)

// Issuer is an institution that a person has certificates of.
type Issuer struct {
	ID         int64
	Slug, Name string
	// Colour is its own as "#rrggbb", empty for the vault's.
	Colour string
}

// Brand gives the colour as it is drawn, nil for none.
func (i *Issuer) Brand() *colour.Brand { return account.BrandOf(i.Colour) }

// Filter says which of a person's certificates to list.
type Filter struct {
	Text string
	// Issuer is the slug of an institution, "" for all.
	Issuer string
	// Status is approved, revoked or "" for both.
	Status cert.Status
	// Page counts from 1.
	Page int
}

// Wallet is a page of a person's certificates.
type Wallet struct {
	Certificates []*cert.Certificate
	// Total is how many the filter lets through, All how many there are.
	Total, All int
	// Issuers are all institutions that the person has certificates of, by name.
	Issuers []Issuer
}

// Pages is how many pages the list has, one at least.
func (w *Wallet) Pages() int { return max(1, (w.Total+WalletPage-1)/WalletPage) }

// issued is what a person has: what was approved, even if it was revoked since.
// What is being prepared, or failed, is the institution's affair.
const issued = ` FROM customers k JOIN certificates c ON c.institution_id = k.institution_id AND c.customer_id = k.number
	JOIN institutions i ON i.id = k.institution_id WHERE k.user_id = $1 AND c.status IN ('approved', 'revoked') AND c.approved_at IS NOT NULL`

// Wallet lists a person's certificates, the latest first.
func (s *Service) Wallet(ctx context.Context, userID int64, f Filter) (*Wallet, error) {
	if !account.CleanText(f.Text) || len([]rune(f.Text)) > maxFilter || !account.CleanText(f.Issuer) || f.Page < 1 || f.Page > maxPages {
		return nil, fault.OfField("search", "There is no such page, or the text is too long.")
	}
	w := &Wallet{}
	var err error
	if w.Issuers, err = s.issuers(ctx, userID); err != nil {
		return nil, err
	}
	where := issued
	args := []any{userID}
	add := func(term string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(term, len(args))
	}
	if err := s.db.QueryRowContext(ctx, `SELECT count(*)`+where, args...).Scan(&w.All); err != nil {
		return nil, fmt.Errorf("counting a person's certificates: %w", err)
	}
	if f.Text != "" {
		add(` AND c.search_text LIKE $%d ESCAPE '\'`, search.Pattern(f.Text))
	}
	if f.Issuer != "" {
		add(` AND i.slug = $%d`, f.Issuer)
	}
	if f.Status != "" {
		add(` AND c.status = $%d`, string(f.Status))
	}
	if err := s.db.QueryRowContext(ctx, `SELECT count(*)`+where, args...).Scan(&w.Total); err != nil {
		return nil, fmt.Errorf("counting a person's certificates: %w", err)
	}
	list, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT c.id`+where+
		fmt.Sprintf(` ORDER BY c.issue_date DESC, c.id DESC LIMIT %d OFFSET %d`, WalletPage, (f.Page-1)*WalletPage), args...))
	if err != nil {
		return nil, fmt.Errorf("reading a person's certificates: %w", err)
	}
	w.Certificates, err = s.certs.ByIDs(ctx, list)
	return w, err
}

func (s *Service) issuers(ctx context.Context, userID int64) ([]Issuer, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT DISTINCT i.id, i.slug, i.name, i.colour`+issued+` ORDER BY i.name, i.id`, userID)
	if err != nil {
		return nil, fmt.Errorf("reading who issued a person's certificates: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (i Issuer, err error) {
		err = rows.Scan(&i.ID, &i.Slug, &i.Name, &i.Colour)
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading who issued a person's certificates: %w", err)
	}
	return list, nil
}

// Certificate gives one of a person's certificates; another's is not found.
func (s *Service) Certificate(ctx context.Context, userID int64, uuid string) (*cert.Certificate, error) {
	list, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT c.id`+issued+` AND c.uuid = $2`, userID, uuid))
	if err != nil {
		return nil, fmt.Errorf("reading a person's certificate: %w", err)
	}
	if len(list) != 1 {
		return nil, fault.New(fault.NotFound, "No such certificate.")
	}
	found, err := s.certs.ByIDs(ctx, list)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}
