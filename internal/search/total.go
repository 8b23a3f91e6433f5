package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// Totals counts the certificates of each institution by status, for those who
// run the installation: numbers, and nothing of what is counted.
func Totals(ctx context.Context, q db.Queryer) (totals map[int64]map[cert.Status]int, err error) {
	rows, err := q.QueryContext(ctx, `SELECT institution_id, status, sum(n) FROM certificate_counts GROUP BY institution_id, status`)
	if err != nil {
		return nil, fmt.Errorf("counting certificates: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	totals = map[int64]map[cert.Status]int{}
	for rows.Next() {
		var institution int64
		var status cert.Status
		var n int
		if err := rows.Scan(&institution, &status, &n); err != nil {
			return nil, fmt.Errorf("counting certificates: %w", err)
		}
		if totals[institution] == nil {
			totals[institution] = map[cert.Status]int{}
		}
		totals[institution][status] = n
	}
	return totals, rows.Err()
}
