package cert

import (
	"context"
	"fmt"
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
	v.few, v.most = n <= s.bounds.few, own > all-all/100
	return n, nil
}

// countBy counts what a list selects, behind its cursor if it has one, and no
// further than to one more than is told.
func (s *Service) countBy(ctx context.Context, v *view, by way) (n int, err error) {
	q := &statement{}
	query := `SELECT count(*) FROM (SELECT 1 FROM ` + s.candidates(q, v, by) + ` LIMIT ` + q.arg(s.bounds.count+1) + `) AS counted`
	err = s.db.QueryRowContext(ctx, query, q.args...).Scan(&n)
	return n, err
}

// Counts is how many certificates a filter selects in each status.
type Counts struct {
	// Of is by status.
	Of map[Status]int
	// All is their sum.
	All int
	// AtLeast says that there are more than are counted: then no status has fewer
	// than Of says, and any may have more.
	AtLeast bool
}

// Counts counts what a filter selects, whatever statuses, order and part of it
// the filter names. Without other filters the counts are exact; with them they
// are up to 10,000.
func (s *Service) Counts(ctx context.Context, institutionID int64, f Filter) (*Counts, error) {
	f.Statuses, f.Sort, f.StatusOrder = nil, ByStatus, nil // of which every way knows the status
	f.Page, f.PerPage, f.Cursor = 1, 1, nil
	v, err := f.read(institutionID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.listTime, errSlow)
	defer cancel()
	if _, err := s.size(ctx, v); err != nil {
		return nil, slow(ctx, fmt.Errorf("counting certificates: %w", err))
	}
	q := &statement{}
	query := `SELECT c.status, sum(c.n) FROM certificate_counts c WHERE ` + and(v.base(q)) + ` GROUP BY c.status`
	if v.narrowed() {
		by, err := s.way(ctx, v)
		if err != nil {
			return nil, slow(ctx, fmt.Errorf("counting certificates: %w", err))
		}
		q = &statement{}
		query = `SELECT status, count(*) FROM (SELECT c.status AS status FROM ` + s.candidates(q, v, by) +
			` LIMIT ` + q.arg(s.bounds.count+1) + `) AS counted GROUP BY status`
	}
	c := &Counts{Of: map[Status]int{}}
	if err := s.each(ctx, query, q.args, func(scan func(...any) error) error {
		var status Status
		var n int
		if err := scan(&status, &n); err != nil {
			return err
		}
		c.Of[status], c.All = n, c.All+n
		return nil
	}); err != nil {
		return nil, slow(ctx, fmt.Errorf("counting certificates: %w", err))
	}
	if v.narrowed() && c.All > s.bounds.count {
		c.All, c.AtLeast = s.bounds.count, true
	}
	return c, nil
}
