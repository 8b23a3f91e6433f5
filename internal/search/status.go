package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// CountByStatus returns, for each status, the number of certificates that a filter selects. It ignores
// the statuses of the filter. ok reports whether the numbers are exact. They are exact if the filter
// selects at most bounds.count certificates, or has no conditions except its sources and Unexpired.
// CountByStatus returns a fault of kind Invalid for a filter that is not valid, and of kind Unavailable if
// counting takes too long.
func (s *Service) CountByStatus(ctx context.Context, institutionID int64, f Filter) (counts map[cert.Status]int, ok bool, err error) {
	err = s.db.Read(ctx, func(ctx context.Context) (err error) {
		counts, ok, err = s.countByStatus(ctx, institutionID, f)
		return err
	})
	return counts, ok, err
}

func (s *Service) countByStatus(ctx context.Context, institutionID int64, f Filter) (counts map[cert.Status]int, ok bool, err error) {
	f.Range, f.Statuses, f.Sort = listing.Range{Page: 1, PerPage: 1}, cert.Statuses, ByCreated
	v, err := s.view(ctx, institutionID, f)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.listTime, errSlow)
	defer cancel()
	counts = map[cert.Status]int{}
	total, err := s.byStatuses(ctx, v, counts)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, false, &fault.Error{Kind: fault.Unavailable, Message: "The certificates took too long to count. Try again in a moment.", RetryAfter: listRetry, Err: err}
	}
	if err != nil {
		return nil, false, fmt.Errorf("counting certificates by status: %w", err)
	}
	return counts, !v.filtered() || v.onlyUnexpired() || total <= s.bounds.count, nil
}

func (s *Service) byStatuses(ctx context.Context, v *view, counts map[cert.Status]int) (total int, err error) {
	q := &statement{}
	query := `SELECT c.status, sum(c.n) FROM certificate_counts c WHERE ` + and(v.base(q)) + ` GROUP BY c.status`
	if v.filtered() && !v.onlyUnexpired() {
		by, err := s.narrowest(ctx, v)
		if err != nil {
			return 0, err
		}
		q = &statement{}
		query = `SELECT status, count(*) FROM (` + s.bounded(q, v, by, `c.status AS status`) + `) AS counted GROUP BY status`
	}
	if err := s.eachStatus(ctx, query, q.args, func(status cert.Status, n int) { counts[status] = n }); err != nil {
		return 0, err
	}
	if v.onlyUnexpired() {
		if err := s.unexpiredByStatus(ctx, v, counts); err != nil {
			return 0, err
		}
	}
	for _, n := range counts {
		total += n
	}
	return total, nil
}

// eachStatus calls f for each row of a query. A row has a status and a number.
func (s *Service) eachStatus(ctx context.Context, query string, args []any, f func(cert.Status, int)) (err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var status cert.Status
		var n int
		if err := rows.Scan(&status, &n); err != nil {
			return err
		}
		f(status, n)
	}
	return rows.Err()
}
