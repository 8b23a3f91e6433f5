package recipient

import (
	"context"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
)

const (
	// WalletPage is the number of certificates on a page of a wallet.
	WalletPage = 24
	maxFilter  = 255
	maxPages   = 1000
)

// Filter selects certificates of a person.
type Filter struct {
	Text string
	// Issuer is the slug of an institution, or "" for all.
	Issuer string
	// Status is approved, revoked, ExpiredStatus, or "" for all.
	Status cert.Status
	// Page counts from 1.
	Page int
}

// ExpiredStatus selects the approved certificates that have expired. cert.Approved selects those that
// have not expired.
const ExpiredStatus cert.Status = "expired"

// Wallet is a page of a person's certificates.
type Wallet struct {
	Certificates []*cert.Certificate
	// Total is the number of certificates that match the filter. All is the number of all
	// certificates of the person.
	Total, All int
	// Issuers are all institutions that issued certificates to the person, sorted by name.
	Issuers []account.Summary
}

// Pages returns the number of pages of the list, at least 1.
func (w *Wallet) Pages() int { return max(1, (w.Total+WalletPage-1)/WalletPage) }

// issued selects the certificates of a person that were approved, including certificates that have been
// revoked since. The person does not see certificates that are in processing or that failed.
const issued = ` FROM customers k JOIN certificates c ON c.institution_id = k.institution_id AND c.customer_id = k.number
	WHERE k.user_id = $1 AND c.status IN ('approved', 'revoked') AND c.approved_at IS NOT NULL`

// Wallet returns a page of a person's certificates, the latest issue date first. The error is
// fault.Invalid if the page or a text of the filter is invalid.
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
		of := slices.IndexFunc(w.Issuers, func(i account.Summary) bool { return i.Slug == f.Issuer })
		if of < 0 {
			return w, nil
		}
		add(` AND k.institution_id = $%d`, w.Issuers[of].ID)
	}
	switch today := cert.Today(s.now()); f.Status {
	case "":
	case ExpiredStatus:
		add(` AND c.status = 'approved' AND c.expires_on < $%d`, today)
	case cert.Approved:
		add(` AND c.status = 'approved' AND coalesce(c.expires_on, '~') >= $%d`, today)
	default:
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

func (s *Service) issuers(ctx context.Context, userID int64) ([]account.Summary, error) {
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT DISTINCT k.institution_id`+issued, userID))
	if err != nil {
		return nil, fmt.Errorf("reading the issuers of a person's certificates: %w", err)
	}
	return account.Summaries(ctx, s.db, ids)
}

// Certificate returns a certificate of a person. The error is fault.NotFound if the person has no
// such certificate.
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
