package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// Key identifies a certificate that an institution uploaded or issued from a template. Several such
// certificates have the same key only if they are in one chain of replacements. The key then identifies
// the newest of them.
type Key struct{ EmailFolded, Title, IssueDate string }

// keysPerQuery is the maximum number of keys in one query.
const keysPerQuery = 300

// Existing maps each of the keys that a certificate of an institution has to the UUID of the certificate.
func (s *Service) Existing(ctx context.Context, institutionID int64, keys []Key) (map[Key]string, error) {
	found := map[Key]string{}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		if err := s.existing(ctx, institutionID, chunk, found); err != nil {
			return nil, fmt.Errorf("finding duplicates: %w", err)
		}
	}
	return found, nil
}

func (s *Service) existing(ctx context.Context, institutionID int64, keys []Key, found map[Key]string) (err error) {
	q := &statement{}
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = "(" + q.arg(k.EmailFolded) + ", " + q.arg(k.Title) + ", " + q.arg(k.IssueDate) + ")"
	}
	rows, err := s.db.QueryContext(ctx, `WITH wanted (email, title, issued) AS (VALUES `+strings.Join(values, ", ")+`)
		SELECT c.uuid, c.email_folded, c.title, c.issue_date FROM wanted CROSS JOIN certificates c
		WHERE c.institution_id = `+q.arg(institutionID)+` AND c.source IN ('vault', 'template') AND NOT c.yields
		  AND c.email_folded = wanted.email AND c.title = wanted.title AND c.issue_date = wanted.issued`, q.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		var k Key
		if err := rows.Scan(&id, &k.EmailFolded, &k.Title, &k.IssueDate); err != nil {
			return err
		}
		found[k] = id
	}
	return rows.Err()
}

// maxSimilar is the maximum number of similar certificates that one query returns.
const maxSimilar = 5

// Duplicates returns the certificate with the same address, title and date as an upload, or nil if there
// is none. The upload is refused if there is one. Duplicates also returns similar certificates, which do
// not prevent the upload: up to maxSimilar with the same file, and up to maxSimilar with the same name and
// title.
func (s *Service) Duplicates(ctx context.Context, institutionID int64, t cert.Text, digest [32]byte) (same *cert.Certificate, similar []*cert.Certificate, err error) {
	if e, err := account.ParseEmail(t.Email); err == nil {
		k := Key{EmailFolded: e.Folded, Title: strings.TrimSpace(t.Title), IssueDate: strings.TrimSpace(t.IssueDate)}
		if k.IssueDate == "" {
			k.IssueDate = cert.Today(s.now())
		}
		found, err := s.Existing(ctx, institutionID, []Key{k})
		if err != nil {
			return nil, nil, err
		}
		if id, ok := found[k]; ok {
			list, err := s.query(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE institution_id = $1 AND uuid = $2`, institutionID, id)
			if err != nil {
				return nil, nil, fmt.Errorf("reading the duplicate: %w", err)
			}
			if len(list) > 0 {
				same = list[0]
			}
		}
	}
	for _, query := range []struct {
		where string
		args  []any
	}{
		{`sha256 = $2 AND status IN ('approved', 'revoked')`, []any{digest[:]}},
		{`source IN ('vault', 'template') AND status IN ('processing', 'approved', 'failed', 'revoked') AND name_folded = $2 AND title = $3`,
			[]any{cert.FoldText(t.FullName), strings.TrimSpace(t.Title)}},
	} {
		list, err := s.query(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE institution_id = $1 AND `+query.where+fmt.Sprintf(` LIMIT %d`, maxSimilar),
			append([]any{institutionID}, query.args...)...)
		if err != nil {
			return nil, nil, fmt.Errorf("finding similar certificates: %w", err)
		}
		for _, c := range list {
			if (same == nil || c.ID != same.ID) && !slices.ContainsFunc(similar, func(o *cert.Certificate) bool { return o.ID == c.ID }) {
				similar = append(similar, c)
			}
		}
	}
	return same, similar, nil
}

// query returns the certificates that a query selects.
func (s *Service) query(ctx context.Context, query string, args ...any) ([]*cert.Certificate, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return db.Collect(rows, func(rows *sql.Rows) (*cert.Certificate, error) { return cert.Scan(rows) })
}
