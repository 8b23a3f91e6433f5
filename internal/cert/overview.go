package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// microsPerDay is how certificate_days counts days: since 1970, UTC.
const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// Day is how many certificates were made on a day, by where they stand now.
type Day struct {
	// Date is YYYY-MM-DD, UTC.
	Date string
	Of   map[Status]int
	All  int
}

// Days gives the last n days, today the last of them, each with what was made on
// it. They are read from the totals that the database keeps by day, so that it
// costs the days and not the certificates.
func (s *Service) Days(ctx context.Context, institutionID int64, n int) ([]Day, error) {
	today := s.now().UnixMicro() / microsPerDay
	first := today - int64(n) + 1
	days := make([]Day, n)
	for i := range days {
		days[i] = Day{Date: time.UnixMicro((first + int64(i)) * microsPerDay).UTC().Format(dateLayout), Of: map[Status]int{}}
	}
	if err := s.each(ctx, `SELECT day, status, sum(n) FROM certificate_days WHERE institution_id = $1 AND day BETWEEN $2 AND $3 GROUP BY day, status`,
		[]any{institutionID, first, today}, func(scan func(...any) error) error {
			var day int64
			var status Status
			var made int
			if err := scan(&day, &status, &made); err != nil {
				return err
			}
			d := &days[day-first]
			d.Of[status] = made
			d.All += made
			return nil
		}); err != nil {
		return nil, fmt.Errorf("counting certificates by day: %w", err)
	}
	return days, nil
}

// FailureCount is how many certificates are failed for one reason.
type FailureCount struct {
	Code string
	// Message is what the institution was told of one of them.
	Message string
	Count   int
}

// maxFailures bounds how many failed certificates are looked at.
const maxFailures = 10_000

// Failures counts an institution's failed certificates by the code of the
// failure, the most frequent first. It looks at no more than 10,000, and more
// says that there are others.
func (s *Service) Failures(ctx context.Context, institutionID int64) (list []FailureCount, more bool, err error) {
	all := 0
	if err := s.each(ctx, `
		SELECT code, n, coalesce((SELECT c.failure_message FROM certificates c
			WHERE c.institution_id = $1 AND c.status = 'failed' AND c.failure_code = counted.code LIMIT 1), '')
		FROM (SELECT code, count(*) AS n FROM (
			SELECT coalesce(failure_code, '') AS code FROM certificates WHERE institution_id = $1 AND status = 'failed' LIMIT $2) AS failed GROUP BY code) AS counted
		ORDER BY n DESC, code`, []any{institutionID, maxFailures + 1}, func(scan func(...any) error) error {
		var f FailureCount
		if err := scan(&f.Code, &f.Count, &f.Message); err != nil {
			return err
		}
		all += f.Count
		list = append(list, f)
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("counting failures: %w", err)
	}
	return list, all > maxFailures, nil
}

// each hands every row of a query to f.
func (s *Service) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) (err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func(rows *sql.Rows) { err = errors.Join(err, rows.Close()) }(rows)
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
