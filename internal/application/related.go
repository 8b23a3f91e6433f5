package application

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
)

// maxEarlier is the maximum number of certificates, and of applications, that Earlier returns.
const maxEarlier = 20

// Earlier returns the other certificates and applications in the institution of a that have the same
// address as a, newest first and at most maxEarlier of each. It does not return certificates that wait for
// signatories.
func (s *Service) Earlier(ctx context.Context, a *Application) ([]*cert.Certificate, []*Application, error) {
	list, err := s.search.List(ctx, a.InstitutionID, search.Filter{
		Email: a.Email, Statuses: cert.VaultStatuses, Range: listing.Range{PerPage: maxEarlier + 1, Page: 1},
	})
	if err != nil {
		return nil, nil, err
	}
	certificates := slices.DeleteFunc(list.Items, func(c *cert.Certificate) bool { return c.ID == a.ID })
	applications, err := s.all(ctx, `WHERE a.institution_id = $1 AND a.email_folded = $2 AND a.id <> $3 ORDER BY a.id DESC LIMIT $4`,
		a.InstitutionID, a.emailFolded, a.id, maxEarlier)
	return certificates[:min(len(certificates), maxEarlier)], applications, err
}

// Duplicates counts, for each application in list, the other certificates and applications of the
// institution with the same address. It does not count a certificate whose replacement has the same
// address, title and date. The result maps the UUIDs of the applications to the counts, without counts
// of 0.
func (s *Service) Duplicates(ctx context.Context, institutionID int64, list []*Application) (map[string]int, error) {
	found := map[string]int{}
	for some := range slices.Chunk(list, listing.MaxPage) {
		args := []any{institutionID}
		for _, a := range some {
			args = append(args, a.emailFolded)
		}
		addresses := db.Placeholders(2, len(some))
		// Each part of the UNION uses an index that begins with the institution and the address.
		rows, err := s.db.QueryContext(ctx, `
			SELECT email_folded, CAST(sum(n) AS BIGINT) FROM (
				SELECT email_folded, count(*) AS n FROM certificates
				WHERE institution_id = $1 AND source IN ('vault', 'template') AND NOT yields AND email_folded IN (`+addresses+`) GROUP BY email_folded
				UNION ALL SELECT email_folded, count(*) FROM applications WHERE institution_id = $1 AND email_folded IN (`+addresses+`) GROUP BY email_folded
			) AS found GROUP BY email_folded`, args...)
		if err != nil {
			return nil, fmt.Errorf("counting the records of addresses: %w", err)
		}
		counts := map[string]int{}
		if _, err := db.Collect(rows, func(rows *sql.Rows) (struct{}, error) {
			var email string
			var n int
			err := rows.Scan(&email, &n)
			counts[email] = n
			return struct{}{}, err
		}); err != nil {
			return nil, fmt.Errorf("counting the records of addresses: %w", err)
		}
		for _, a := range some {
			if n := counts[a.emailFolded] - 1; n > 0 && a.InstitutionID == institutionID {
				found[a.UUID] = n
			}
		}
	}
	return found, nil
}
