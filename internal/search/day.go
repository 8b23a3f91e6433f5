package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// Day has the counts of an institution's certificates for one day, in UTC.
type Day struct {
	Date                               time.Time
	Created, Approved, Failed, Revoked int
}

// dayMicros is the length of a day in microseconds, the unit of stored times.
const dayMicros = 86_400_000_000

// maxDays is the largest number of days that Days returns.
const maxDays = 366

// Days returns the counts of the last n days including today, oldest first. It returns at least one day
// and at most maxDays days.
func (s *Service) Days(ctx context.Context, institutionID int64, n int) (list []Day, err error) {
	n = max(1, min(n, maxDays))
	today := db.Micros(s.now()) / dayMicros
	first := today - int64(n) + 1
	list = make([]Day, n)
	for i := range list {
		list[i].Date = db.Time((first + int64(i)) * dayMicros)
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT day, event, sum(n) FROM certificate_days WHERE institution_id = $1 AND day BETWEEN $2 AND $3 GROUP BY day, event`, institutionID, first, today)
	if err != nil {
		return nil, fmt.Errorf("reading the daily counts: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var day int64
		var event string
		var count int
		if err := rows.Scan(&day, &event, &count); err != nil {
			return nil, fmt.Errorf("reading the daily counts: %w", err)
		}
		d := &list[day-first]
		switch event {
		case "created":
			d.Created = count
		case string(cert.Approved):
			d.Approved = count
		case string(cert.Failed):
			d.Failed = count
		case string(cert.Revoked):
			d.Revoked = count
		}
	}
	return list, rows.Err()
}

// FailureCount is the number of certificates with the same failure code.
type FailureCount struct {
	cert.Failure

	N int
}

// maxFailures is the maximum number of failed certificates that Failures counts completely.
const maxFailures = 10_000

// Failures returns the number of failed certificates of an institution for each failure code, largest
// number first. If the institution has more than 10,000 failed certificates, more is true and the counts
// are not complete.
func (s *Service) Failures(ctx context.Context, institutionID int64) (list []FailureCount, more bool, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT code, n, coalesce((SELECT c.failure_message FROM certificates c
			WHERE c.institution_id = $1 AND c.status = 'failed' AND c.failure_code = counted.code LIMIT 1), '')
		FROM (SELECT code, count(*) AS n FROM (
			SELECT failure_code AS code FROM certificates WHERE institution_id = $1 AND status = 'failed' AND failure_code IS NOT NULL LIMIT $2) AS failed GROUP BY code) AS counted
		ORDER BY n DESC, code`, institutionID, maxFailures+1)
	if err != nil {
		return nil, false, fmt.Errorf("counting failures: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all := 0
	for rows.Next() {
		var f FailureCount
		if err := rows.Scan(&f.Code, &f.N, &f.Message); err != nil {
			return nil, false, fmt.Errorf("counting failures: %w", err)
		}
		all += f.N
		list = append(list, f)
	}
	return list, all > maxFailures, rows.Err()
}

type dayKey struct {
	institution, day int64
	event            string
}

// foldDays adds up the changes of the daily counts, as Fold does for the counts by source and status.
func foldDays(ctx context.Context, d *db.DB) error {
	for {
		var taken, left int
		err := d.Tx(ctx, func(tx *db.Tx) error {
			sums, n, err := removeDays(ctx, tx)
			if err != nil {
				return err
			}
			taken, left = n, len(sums)
			for key, n := range sums {
				if _, err := tx.ExecContext(ctx, `INSERT INTO certificate_days (institution_id, day, event, n) VALUES ($1, $2, $3, $4)`,
					key.institution, key.day, key.event, n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("adding up the daily counts: %w", err)
		}
		if taken == left {
			return nil
		}
	}
}

func removeDays(ctx context.Context, tx *db.Tx) (sums map[dayKey]int64, n int, err error) {
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM certificate_days WHERE id IN (
			SELECT a.id FROM certificate_days a WHERE EXISTS (
				SELECT 1 FROM certificate_days b
				WHERE b.institution_id = a.institution_id AND b.day = a.day AND b.event = a.event AND b.id <> a.id)`+
		tx.FirstLocked("a", "a.institution_id, a.day, a.event")+`)
		RETURNING institution_id, day, event, n`, foldBatch)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	sums = map[dayKey]int64{}
	for rows.Next() {
		var key dayKey
		var change int64
		if err := rows.Scan(&key.institution, &key.day, &key.event, &change); err != nil {
			return nil, 0, err
		}
		sums[key] += change
		n++
	}
	return sums, n, rows.Err()
}
