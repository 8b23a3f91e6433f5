package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

const (
	// FoldEvery is the interval of SweepCounts.
	FoldEvery = 30 * time.Second
	// foldBatch is the maximum number of rows that one transaction removes and adds up.
	foldBatch = 5000
)

// total returns the number of certificates with the sources and statuses of a list. The number is exact,
// because each change is counted in the transaction that makes the change.
func (s *Service) total(ctx context.Context, v *view) (n int, err error) {
	q := &statement{}
	query := `SELECT coalesce(sum(c.n), 0) FROM certificate_counts c WHERE ` + and(v.base(q))
	err = s.db.QueryRowContext(ctx, query, q.args...).Scan(&n)
	return n, err
}

// countBy returns the number of matches of a list, at most bounds.count + 1. If the list has a cursor,
// countBy counts only the matches after the cursor.
func (s *Service) countBy(ctx context.Context, v *view, by index) (n int, err error) {
	q := &statement{}
	query := `SELECT count(*) FROM (` + s.bounded(q, v, by, `1`) + `) AS counted`
	err = s.db.QueryRowContext(ctx, query, q.args...).Scan(&n)
	return n, err
}

// Fold adds up the changes of the counts since the last call. Each transaction removes changes and
// inserts their sums, so the counts are always exact.
func Fold(ctx context.Context, d *db.DB) error {
	for {
		var taken, left int
		err := d.Tx(ctx, func(tx *db.Tx) error {
			sums, n, err := removeCounts(ctx, tx)
			if err != nil {
				return err
			}
			taken, left = n, 0
			for key, n := range sums {
				if n == 0 {
					continue
				}
				left++
				if _, err := tx.ExecContext(ctx, `INSERT INTO certificate_counts (institution_id, source, status, n) VALUES ($1, $2, $3, $4)`,
					key.institution, key.source, key.status, n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("adding up the counts of certificates: %w", err)
		}
		if taken == left {
			return nil
		}
	}
}

// SweepCounts adds up the changes of the counts and of the daily counts.
func (s *Service) SweepCounts(ctx context.Context) error {
	if err := Fold(ctx, s.db); err != nil {
		return err
	}
	return foldDays(ctx, s.db)
}

type countKey struct {
	institution    int64
	source, status string
}

// removeCounts removes up to foldBatch rows whose keys have several rows. It returns the sum of the
// removed rows of each key, and the number of removed rows.
func removeCounts(ctx context.Context, tx *db.Tx) (sums map[countKey]int64, n int, err error) {
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM certificate_counts WHERE id IN (
			SELECT a.id FROM certificate_counts a WHERE EXISTS (
				SELECT 1 FROM certificate_counts b
				WHERE b.institution_id = a.institution_id AND b.source = a.source AND b.status = a.status AND b.id <> a.id)`+
		tx.FirstLocked("a", "a.institution_id, a.source, a.status")+`)
		RETURNING institution_id, source, status, n`, foldBatch)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	sums = map[countKey]int64{}
	for rows.Next() {
		var key countKey
		var change int64
		if err := rows.Scan(&key.institution, &key.source, &key.status, &change); err != nil {
			return nil, 0, err
		}
		sums[key] += change
		n++
	}
	return sums, n, rows.Err()
}

// Processing returns the number of certificates with the status processing, in all institutions.
func Processing(ctx context.Context, q db.Queryer) (int, error) {
	return countAll(ctx, q, `status = '`+string(cert.Processing)+`'`)
}

// Verified returns the number of approved and revoked certificates in all institutions.
func Verified(ctx context.Context, q db.Queryer) (int, error) {
	return countAll(ctx, q, `status IN ('`+string(cert.Approved)+`', '`+string(cert.Revoked)+`')`)
}

// countAll returns the sum of the stored counts of all institutions.
func countAll(ctx context.Context, q db.Queryer, condition string) (n int, err error) {
	if err := q.QueryRowContext(ctx, `SELECT coalesce(sum(n), 0) FROM certificate_counts WHERE `+condition).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting certificates: %w", err)
	}
	return n, nil
}

// CountError returns the sum of the absolute differences between the stored counts and the actual
// numbers of certificates, for each institution, source and status. The result is 0 if the counts are
// correct.
func CountError(ctx context.Context, q db.Queryer) (n int, err error) {
	if err := q.QueryRowContext(ctx, `
		SELECT coalesce(sum(abs(wrong)), 0) FROM (
			SELECT sum(n) AS wrong FROM (
				SELECT institution_id, source, status, n FROM certificate_counts
				UNION ALL SELECT institution_id, source, status, -count(*) FROM certificates GROUP BY institution_id, source, status) AS entry
			GROUP BY institution_id, source, status) AS compared`).Scan(&n); err != nil {
		return 0, fmt.Errorf("comparing the counts of certificates: %w", err)
	}
	return n, nil
}

// Totals returns the number of certificates of each institution, by status. Without ids, Totals returns
// the numbers of all institutions.
func Totals(ctx context.Context, q db.Queryer, ids ...int64) (totals map[int64]map[cert.Status]int, err error) {
	where, args := "", make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	if len(ids) > 0 {
		where = ` WHERE institution_id IN (` + db.Placeholders(1, len(ids)) + `)`
	}
	rows, err := q.QueryContext(ctx, `SELECT institution_id, status, sum(n) FROM certificate_counts`+where+` GROUP BY institution_id, status`, args...)
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
