package cert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Totals counts the certificates of each institution by status, for those who
// run the installation: numbers, and nothing of what is counted.
func Totals(ctx context.Context, q db.Queryer) (totals map[int64]map[Status]int, err error) {
	rows, err := q.QueryContext(ctx, `SELECT institution_id, status, sum(n) FROM certificate_counts GROUP BY institution_id, status`)
	if err != nil {
		return nil, fmt.Errorf("counting certificates: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	totals = map[int64]map[Status]int{}
	for rows.Next() {
		var institution int64
		var status Status
		var n int
		if err := rows.Scan(&institution, &status, &n); err != nil {
			return nil, fmt.Errorf("counting certificates: %w", err)
		}
		if totals[institution] == nil {
			totals[institution] = map[Status]int{}
		}
		totals[institution][status] = n
	}
	return totals, rows.Err()
}

// Stuck counts the certificates that have been in processing since before a
// time.
func Stuck(ctx context.Context, q db.Queryer, before time.Time) (n int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE status = 'processing' AND updated_at < $1`, db.Micros(before)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting certificates in processing: %w", err)
	}
	return n, nil
}

// ApprovedSince counts the certificates of batches that were approved since a
// time.
func ApprovedSince(ctx context.Context, q db.Queryer, batches []string, since time.Time) (n int, err error) {
	args := []any{db.Micros(since)}
	for _, uuid := range batches {
		args = append(args, uuid)
	}
	if err := q.QueryRowContext(ctx, `
		SELECT count(*) FROM certificates WHERE status = 'approved' AND approved_at >= $1 AND batch_id IN (`+db.Places(2, len(batches))+`)`, args...).
		Scan(&n); err != nil {
		return 0, fmt.Errorf("counting approved certificates: %w", err)
	}
	return n, nil
}
