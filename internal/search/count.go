package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// FoldEvery is how often changes of counts are added up.
	FoldEvery = 30 * time.Second
	// foldBatch bounds one transaction of that.
	foldBatch = 5000
)

// size is how many certificates there are of the sources and statuses of a
// list. It is exact at any moment: each change is written in the transaction of
// what it counts. It also notes whether the institution is large or small, by
// which the way to the list's parts is chosen.
func (s *Service) size(ctx context.Context, v *view) (n int, err error) {
	q := &statement{}
	query := `SELECT coalesce(sum(CASE WHEN ` + and(v.kinds(q)) + ` THEN c.n ELSE 0 END), 0), coalesce(sum(c.n), 0),
		(SELECT coalesce(max(id), 0) FROM certificates) FROM certificate_counts c WHERE c.institution_id = ` + q.arg(v.InstitutionID)
	var own, all int
	if err := s.db.QueryRowContext(ctx, query, q.args...).Scan(&n, &own, &all); err != nil {
		return 0, err
	}
	v.merges = s.db.Dialect == db.SQLite && v.Sort != ByStatus
	v.few, v.most, v.own, v.size, v.all = n <= s.bounds.few, own > all-all/100, own, n, all
	return n, nil
}

// countBy counts what a list selects, behind its cursor if it has one, and no
// further than to one more than is told.
func (s *Service) countBy(ctx context.Context, v *view, by way) (n int, err error) {
	q := &statement{}
	query := `SELECT count(*) FROM (` + s.bounded(q, v, by, `1`) + `) AS counted`
	err = s.db.QueryRowContext(ctx, query, q.args...).Scan(&n)
	return n, err
}

// Fold adds up the changes of counts that have come since the last time. What
// it adds up and what it writes instead is one transaction, so a count read
// meanwhile is right.
func Fold(ctx context.Context, d *db.DB) error {
	for {
		var taken, left int
		err := d.Tx(ctx, func(tx *db.Tx) error {
			sums, n, err := takeCounts(ctx, tx)
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

// SweepCounts is Fold for a service.
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

// takeCounts removes rows that are not alone in what they count, and gives
// their sums and how many there were.
func takeCounts(ctx context.Context, tx *db.Tx) (sums map[countKey]int64, n int, err error) {
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM certificate_counts WHERE id IN (
			SELECT a.id FROM certificate_counts a WHERE EXISTS (
				SELECT 1 FROM certificate_counts b
				WHERE b.institution_id = a.institution_id AND b.source = a.source AND b.status = a.status AND b.id <> a.id)
			ORDER BY a.institution_id, a.source, a.status LIMIT $1)
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

// Miscounted says by how many certificates the counts are wrong, which is none
// as long as nothing but the vault wrote to them.
func Miscounted(ctx context.Context, q db.Queryer) (n int, err error) {
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
