package verification

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
)

const (
	// recentDays is the number of days of Numbers.Recent, including today.
	recentDays = 30
	// MaxDays is the maximum length of the period of Days and Top, in days.
	MaxDays = 366
	// fewest is the smallest number of verifications of a certificate that an institution sees if it
	// hides the names of its recipients. A smaller number could reveal that one person showed the certificate.
	fewest = 3
)

// Numbers are the numbers of verifications of one certificate.
type Numbers struct {
	Total int
	// Recent is the number in the last 30 days, including today (UTC).
	Recent int
}

// Shown are the numbers that an institution sees. A nil number is below three, and is not shown
// because the institution hides the names of its recipients.
type Shown struct{ Total, Recent *int }

// shown returns a number as an institution sees it.
func shown(n int, hideNames bool) *int {
	if hideNames && n < fewest {
		return nil
	}
	return &n
}

// Of returns the numbers of one certificate. They are exact, and therefore only for the recipient.
func (s *Service) Of(ctx context.Context, institutionID, certificateID int64) (Numbers, error) {
	found, err := s.numbers(ctx, s.db, institutionID, []int64{certificateID})
	return found[certificateID], err
}

// Shown returns the numbers of an institution's certificates as the institution sees them, with an
// entry for each id. q is the transaction in which Shown reads, or nil.
func (s *Service) Shown(ctx context.Context, q db.Queryer, institutionID int64, ids ...int64) (map[int64]Shown, error) {
	if q == nil {
		q = s.db
	}
	hidden, err := hidesNames(ctx, q, institutionID)
	if err != nil {
		return nil, err
	}
	found, err := s.numbers(ctx, q, institutionID, ids)
	if err != nil {
		return nil, err
	}
	list := make(map[int64]Shown, len(ids))
	for _, id := range ids {
		n := found[id]
		list[id] = Shown{Total: shown(n.Total, hidden), Recent: shown(n.Recent, hidden)}
	}
	return list, nil
}

// hidesNames reports whether an institution hides the names of its recipients.
func hidesNames(ctx context.Context, q db.Queryer, institutionID int64) (bool, error) {
	settings, err := account.ReadSettings(ctx, q, institutionID)
	if err != nil {
		return false, err
	}
	return settings.HideName, nil
}

func (s *Service) numbers(ctx context.Context, q db.Queryer, institutionID int64, ids []int64) (map[int64]Numbers, error) {
	first := s.today() - recentDays + 1
	found, err := db.ByID(ctx, q, institutionID, ids, func(list string) string {
		return fmt.Sprintf(`
			SELECT certificate_id, sum(n), sum(CASE WHEN day >= %d THEN n ELSE 0 END) FROM verification_counts
			WHERE institution_id = $1 AND certificate_id IN (%s) GROUP BY certificate_id`, first, list)
	}, func(rows *sql.Rows) (id int64, n Numbers, err error) {
		err = rows.Scan(&id, &n.Total, &n.Recent)
		return id, n, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the counts of verifications: %w", err)
	}
	return found, nil
}

// Day is the number of verifications of all certificates of an institution on one day, in UTC.
type Day struct {
	Date time.Time
	N    int
}

// Days returns the numbers of the last n days including today, the oldest first. It returns at least
// one day and at most MaxDays days.
func (s *Service) Days(ctx context.Context, institutionID int64, n int) ([]Day, error) {
	today, first := s.period(n)
	list := make([]Day, today-first+1)
	for i := range list {
		list[i].Date = db.Time((first + int64(i)) * dayMicros)
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT day, sum(n) FROM verification_counts WHERE institution_id = $1 AND day BETWEEN $2 AND $3 GROUP BY day`, institutionID, first, today)
	if err == nil {
		_, err = db.Collect(rows, func(rows *sql.Rows) (_ struct{}, err error) {
			var day int64
			var n int
			if err = rows.Scan(&day, &n); err == nil {
				list[day-first].N = n
			}
			return struct{}{}, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the daily counts of verifications: %w", err)
	}
	return list, nil
}

// period returns today and the first of the last n days, which include today. It limits n to at least 1
// and at most MaxDays.
func (s *Service) period(n int) (today, first int64) {
	today = s.today()
	return today, today - int64(max(1, min(n, MaxDays))) + 1
}

// Verified is a certificate with its number of verifications in a period.
type Verified struct {
	CertificateID int64
	N             int
}

// Top returns the certificates of an institution with the most verifications in the last n days
// including today, at most limit, the largest number first. If the institution hides the names of its
// recipients, Top omits certificates with fewer than three verifications in this period.
func (s *Service) Top(ctx context.Context, institutionID int64, n, limit int) ([]Verified, error) {
	today, first := s.period(n)
	least, err := s.least(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT certificate_id, sum(n) AS total FROM verification_counts WHERE institution_id = $1 AND day BETWEEN $2 AND $3
		GROUP BY certificate_id HAVING sum(n) >= $4 ORDER BY total DESC, certificate_id DESC LIMIT $5`, institutionID, first, today, least, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates with the most verifications: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (v Verified, err error) {
		err = rows.Scan(&v.CertificateID, &v.N)
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the certificates with the most verifications: %w", err)
	}
	return list, nil
}

// least returns the minimum number of verifications of a certificate for Top and Each.
func (s *Service) least(ctx context.Context, institutionID int64) (int, error) {
	hidden, err := hidesNames(ctx, s.db, institutionID)
	if hidden {
		return fewest, err
	}
	return 1, err
}

// Each calls f with the ids of all verified certificates of an institution, at most limit at a time, in
// ascending order. If the institution hides the names of its recipients, Each omits certificates with fewer
// than three verifications.
func (s *Service) Each(ctx context.Context, institutionID int64, limit int, f func(ids []int64) error) error {
	least, err := s.least(ctx, institutionID)
	if err != nil {
		return err
	}
	for last := int64(0); ; {
		ids, err := db.Column[int64](s.db.QueryContext(ctx, `
			SELECT certificate_id FROM verification_counts WHERE institution_id = $1 AND certificate_id > $2
			GROUP BY certificate_id HAVING sum(n) >= $3 ORDER BY certificate_id LIMIT $4`, institutionID, last, least, limit))
		if err != nil {
			return fmt.Errorf("reading the verified certificates: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		if err := f(ids); err != nil {
			return err
		}
		last = ids[len(ids)-1]
	}
}
