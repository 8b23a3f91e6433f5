package cert

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Stuck counts the certificates in processing that have not changed since a time.
func Stuck(ctx context.Context, q db.Queryer, before time.Time) (n int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE status = 'processing' AND updated_at < $1`, db.Micros(before)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting certificates in processing: %w", err)
	}
	return n, nil
}

// CountDamaged counts the certificates with at least one check whose stored result is FailedCheck.
func CountDamaged(ctx context.Context, q db.Queryer) (n int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT count(DISTINCT certificate_id) FROM certificate_checks WHERE result = '`+string(FailedCheck)+`'`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting damaged files: %w", err)
	}
	return n, nil
}

// ApprovedSince counts the certificates of batches that were approved since a time and are still
// approved.
func ApprovedSince(ctx context.Context, q db.Queryer, batches []string, since time.Time) (n int, err error) {
	args := []any{db.Micros(since)}
	for _, uuid := range batches {
		args = append(args, uuid)
	}
	if err := q.QueryRowContext(ctx, `
		SELECT count(*) FROM certificates WHERE status = 'approved' AND approved_at >= $1 AND batch_id IN (`+db.Placeholders(2, len(batches))+`)`, args...).
		Scan(&n); err != nil {
		return 0, fmt.Errorf("counting approved certificates: %w", err)
	}
	return n, nil
}
