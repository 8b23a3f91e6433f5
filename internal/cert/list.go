package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// DefaultPage is how many records a page has when nobody says.
	DefaultPage = 15
	// MaxPage is how many it can have.
	MaxPage = 100
	// MaxDepth is the last record that can be reached by page number.
	MaxDepth = 100_000
	// countUpTo is how far records are counted under a filter.
	countUpTo = 10_000
	// minTrigram is from how many letters and digits on a search looks within
	// words and not at their beginnings alone.
	minTrigram = 3
	// maxFilter bounds the text of the filters in bytes: escaped and in a
	// pattern it stays below the 50,000 that SQLite takes.
	maxFilter = 4096
)

// Filter says which certificates to list.
type Filter struct {
	Status Status
	Email  string
	Search string
	// Page counts from 1.
	Page, PerPage int
}

// List is one page of certificates.
type List struct {
	Items []*Certificate
	// Total is nil when there are more than are counted; then there are at
	// least AtLeast.
	Total   *int
	AtLeast int
	// More says that there is a next page.
	More bool
}

// List gives the vault certificates of an institution, newest first.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	if f.Page < 1 || f.PerPage < 1 || f.PerPage > MaxPage {
		return nil, fault.OfField("page", "The page must be 1 or more, and have 1 to 100 records.")
	}
	if !account.CleanText(f.Search+f.Email) || len(f.Search)+len(f.Email) > maxFilter {
		return nil, fault.OfField("search", fmt.Sprintf("The filters must be text in UTF-8 without NUL characters, of at most %d bytes.", maxFilter))
	}
	where, args, filtered := f.where(institutionID)
	l := &List{}
	if err := s.count(ctx, l, where, args, filtered); err != nil {
		return nil, err
	}
	// One more than asked for tells whether there is a next page.
	query := fmt.Sprintf(`SELECT %s FROM certificates WHERE %s ORDER BY created_at DESC, id DESC LIMIT $%d OFFSET $%d`,
		columns, where, len(args)+1, len(args)+2)
	rows, err := s.db.QueryContext(ctx, query, append(args, f.PerPage+1, (f.Page-1)*f.PerPage)...)
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	if l.Items, err = scanAll(rows); err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	if len(l.Items) > f.PerPage {
		l.Items, l.More = l.Items[:f.PerPage], true
	}
	return l, nil
}

// Waiting counts the certificates of all institutions that are in processing.
func (s *Service) Waiting(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE status = 'processing'`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting certificates in processing: %w", err)
	}
	return n, nil
}

func scanAll(rows *sql.Rows) (list []*Certificate, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		c, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// count counts exactly without a filter or by status alone, where an index
// does it, and otherwise up to countUpTo.
func (s *Service) count(ctx context.Context, l *List, where string, args []any, filtered bool) error {
	query := `SELECT count(*) FROM certificates WHERE ` + where
	if filtered {
		query = fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM certificates WHERE %s LIMIT %d) AS counted`, where, countUpTo+1)
	}
	var n int
	if err := s.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return fmt.Errorf("counting certificates: %w", err)
	}
	if filtered && n > countUpTo {
		l.AtLeast = countUpTo
		return nil
	}
	l.Total = &n
	return nil
}

func (f *Filter) where(institutionID int64) (where string, args []any, filtered bool) {
	terms := []string{"institution_id = $1", "source = 'vault'"}
	args = []any{institutionID}
	add := func(term string, arg any) {
		args = append(args, arg)
		terms = append(terms, fmt.Sprintf(term, len(args)))
	}
	if f.Status != "" {
		add("status = $%d", string(f.Status))
	}
	if f.Email != "" {
		folded := foldText(f.Email)
		if e, err := account.ParseEmail(f.Email); err == nil {
			folded = e.Folded
		}
		add("email_folded = $%d", folded)
		filtered = true
	}
	if q := foldText(f.Search); q != "" {
		pattern := "%" + escapeLike(q) + "%"
		if letters(q) < minTrigram {
			// The search text begins each word with a space.
			pattern = "% " + escapeLike(q) + "%"
		}
		add(`search_text LIKE $%d ESCAPE '\'`, pattern)
		filtered = true
	}
	return strings.Join(terms, " AND "), args, filtered
}

// searchText is what a search looks in: name, title, e-mail and reference id,
// folded in Go since SQLite folds ASCII alone. Each stands on a line of its
// own, which no search crosses, and after a space, as every word does.
func searchText(c *Certificate, email account.Email) string {
	parts := []string{c.FullName, c.Title, c.Email, email.Folded, c.ReferenceID}
	for i, p := range parts {
		parts[i] = " " + strings.Join(strings.FieldsFunc(foldText(p), unicode.IsSpace), " ")
	}
	return strings.Join(slices.Compact(parts), "\n") + "\n"
}

// foldText gives text in the form in which it is compared: composed, without
// case, white space collapsed.
func foldText(s string) string {
	return strings.Join(strings.Fields(cases.Fold().String(norm.NFC.String(strings.ToValidUTF8(s, "")))), " ")
}

func letters(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
