package search

import (
	"context"
	"time"

	"github.com/certvault/certvault/internal/cert"
)

// Expiry selects certificates by the end of their validity.
type Expiry string

const (
	// AnyExpiry selects all certificates.
	AnyExpiry Expiry = ""
	// Expired selects the certificates that have expired.
	Expired Expiry = "true"
	// Unexpired selects the certificates that have not expired, including those that never expire.
	Unexpired Expiry = "false"
)

// Expiries are the values of Expiry that narrow a list.
var Expiries = []Expiry{Expired, Unexpired}

// expiryRange returns the bounds of the last day of validity of the certificates that the list selects.
// A bound is "" if there is no limit.
func (v *view) expiryRange() (from, to string) {
	from, to = v.ExpiresFrom, v.ExpiresTo
	switch {
	case v.Expired == Expired:
		if yesterday := dayBefore(v.today); to == "" || to > yesterday {
			to = yesterday
		}
	case v.Expired == Unexpired && from+to != "":
		from = max(from, v.today)
	}
	return from, to
}

// dayBefore returns the day before a date, or "" if the date is not valid.
func dayBefore(date string) string {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return ""
	}
	return at.AddDate(0, 0, -1).Format(time.DateOnly)
}

// expires reports whether the list has a bound of the last day of validity.
func (v *view) expires() bool {
	return v.Expired == Expired || v.ExpiresFrom != "" || v.ExpiresTo != ""
}

// unexpired reports whether the list selects the certificates that have not expired, and has no bound of
// the last day of validity.
func (v *view) unexpired() bool { return v.Expired == Unexpired && !v.expires() }

// expiresTerms returns the terms of the bounds that expiryRange returns.
func (v *view) expiresTerms(q *statement, column string) []string {
	if !v.expires() {
		return nil
	}
	from, to := v.expiryRange()
	return dayRange{column, from, to}.terms(q)
}

// expiryTerms returns the terms that select the records of table c by the end of their validity.
func (v *view) expiryTerms(q *statement) []string {
	if v.unexpired() {
		// No index matches the expression. '~' is after all dates, so certificates that never expire are
		// selected.
		return []string{"coalesce(c.expires_on, '~') >= " + q.arg(v.today)}
	}
	return v.expiresTerms(q, "c.expires_on")
}

// onlyUnexpired reports whether the list selects the certificates that have not expired, and has no other
// filter except source and status.
func (v *view) onlyUnexpired() bool { return v.unexpired() && v.only(unexpiredIndex) }

// expired returns the view of the expired certificates with the sources and statuses of v.
func (v *view) expired() *view {
	return &view{InstitutionID: v.InstitutionID, Sources: v.ofSources(), Statuses: v.Statuses, Sort: ByCreated, Expired: Expired, today: v.today}
}

// countUnexpired returns the exact number of certificates of a list for which onlyUnexpired is true. It
// counts the expired certificates in their index, and subtracts them from the total.
func (s *Service) countUnexpired(ctx context.Context, v *view) (int, error) {
	total, err := s.total(ctx, v)
	if err != nil {
		return 0, err
	}
	q := &statement{}
	var expired int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM `+s.candidates(q, v.expired(), expiresIndex), q.args...).Scan(&expired); err != nil {
		return 0, err
	}
	return total - expired, nil
}

// unexpiredByStatus subtracts the number of expired certificates of each status from counts.
func (s *Service) unexpiredByStatus(ctx context.Context, v *view, counts map[cert.Status]int) (err error) {
	q := &statement{}
	return s.eachStatus(ctx, `SELECT c.status, count(*) FROM `+s.candidates(q, v.expired(), expiresIndex)+` GROUP BY c.status`, q.args,
		func(status cert.Status, n int) { counts[status] -= n })
}
