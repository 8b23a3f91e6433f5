package cert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// FoldEvery is how often changes of counts are added up.
	FoldEvery = 30 * time.Second
	// foldBatch bounds one transaction of that.
	foldBatch = 5000
)

// tally is a table of counts: what is counted is told by its key, and how many
// there are is the sum of n. Triggers append what changes, in the transaction of
// the change.
type tally struct {
	table, key string
	// counted selects the key from the certificates themselves.
	counted string
	of      func(*tallyKey) []any
}

// tallyKey has the columns of all keys.
type tallyKey struct {
	institution, day int64
	source, status   string
}

var tallies = []tally{
	{
		"certificate_counts", "institution_id, source, status", "institution_id, source, status",
		func(k *tallyKey) []any { return []any{&k.institution, &k.source, &k.status} },
	},
	{
		"certificate_days", "institution_id, day, status", "institution_id, created_at / 86400000000 AS day, status",
		func(k *tallyKey) []any { return []any{&k.institution, &k.day, &k.status} },
	},
}

// Fold adds up the changes of counts that have come since the last time. What
// it adds up and what it writes instead is one transaction, so a count read
// meanwhile is right.
func Fold(ctx context.Context, d *db.DB) error {
	for i := range tallies {
		if err := tallies[i].fold(ctx, d); err != nil {
			return fmt.Errorf("adding up the counts of certificates: %w", err)
		}
	}
	return nil
}

// SweepCounts is Fold for a service.
func (s *Service) SweepCounts(ctx context.Context) error { return Fold(ctx, s.db) }

func (t *tally) fold(ctx context.Context, d *db.DB) error {
	for {
		var taken, left int
		err := d.Tx(ctx, func(tx *db.Tx) error {
			sums, n, err := t.takeTx(ctx, tx)
			if err != nil {
				return err
			}
			taken, left = n, 0
			for key, n := range sums {
				if n == 0 {
					continue
				}
				left++
				if _, err := tx.ExecContext(ctx, `INSERT INTO `+t.table+` (`+t.key+`, n) VALUES ($1, $2, $3, $4)`, append(t.of(&key), n)...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if taken == left {
			return nil
		}
	}
}

// takeTx removes rows that are not alone in what they count, and gives their
// sums and how many there were.
func (t *tally) takeTx(ctx context.Context, tx *db.Tx) (sums map[tallyKey]int64, n int, err error) {
	var same []string
	for column := range strings.SplitSeq(t.key, ", ") {
		same = append(same, "b."+column+" = a."+column)
	}
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM `+t.table+` WHERE id IN (
			SELECT a.id FROM `+t.table+` a WHERE EXISTS (SELECT 1 FROM `+t.table+` b WHERE `+and(same)+` AND b.id <> a.id)
			ORDER BY a.`+strings.ReplaceAll(t.key, ", ", ", a.")+` LIMIT $1)
		RETURNING `+t.key+`, n`, foldBatch)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	sums = map[tallyKey]int64{}
	for rows.Next() {
		var key tallyKey
		var change int64
		if err := rows.Scan(append(t.of(&key), &change)...); err != nil {
			return nil, 0, err
		}
		sums[key] += change
		n++
	}
	return sums, n, rows.Err()
}

// Miscounted says by how many certificates the counts are wrong, which is none
// as long as nothing but the vault wrote to them.
func Miscounted(ctx context.Context, q db.Queryer) (wrong int, err error) {
	for _, t := range tallies {
		var n int
		if err := q.QueryRowContext(ctx, `
			SELECT coalesce(sum(abs(wrong)), 0) FROM (
				SELECT sum(n) AS wrong FROM (
					SELECT `+t.key+`, n FROM `+t.table+`
					UNION ALL SELECT `+t.key+`, -count(*) FROM (SELECT `+t.counted+` FROM certificates) AS c GROUP BY `+t.key+`) AS entry
				GROUP BY `+t.key+`) AS compared`).Scan(&n); err != nil {
			return 0, fmt.Errorf("comparing the counts of certificates: %w", err)
		}
		wrong += n
	}
	return wrong, nil
}
