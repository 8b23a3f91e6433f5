package search

import (
	"context"

	"github.com/certvault/certvault/internal/db"
)

// What it costs SQLite to read a record as it comes by name, by time, which is
// nearly the order of the file, and by an index of search or dates; and to find
// one in an index that has all that is asked. Measured, as ratios.
const (
	costByName, costByTime, costOfFile, costOfIndex = 7, 4, 5, 3
)

// reach says how many records of the order to look through for a part that is
// deep in the list: about as many as have it before them when the filters are
// independent of each other and of the order, and an eighth more. It is 0 where
// it costs less to sort all that is selected. Only SQLite is slow enough to ask.
func (s *Service) reach(ctx context.Context, v *view, by way, want int) (int, error) {
	if s.db.Dialect != db.SQLite || v.BatchID != "" || v.CustomerID != 0 || v.Email != "" {
		return 0, nil
	}
	before, sorting := want, 0
	for _, w := range v.ways() {
		if w == wayIssued && v.generated() {
			continue // the way of the generation knows both
		}
		n, among, err := s.leads(ctx, v, w)
		if err != nil || n == 0 {
			return 0, err
		}
		before = before * among / n
		if w == by {
			sorting = v.costOfSort(by, n)
		}
	}
	if v.costOfWalk(before) > sorting {
		return 0, nil
	}
	return before + before/8 + s.bounds.walk, nil
}

// rest says how many records of the order have the part among them, wherever those
// stand that a range of dates selects: as many as it leaves out, and as many more
// as are wanted. Should records come between the two counts, so that it falls
// short, the sort that follows finds all. It is 0 where it costs less to sort all
// that is selected.
func (s *Service) rest(ctx context.Context, v *view, by way, want int) (int, error) {
	if s.db.Dialect != db.SQLite || by != wayIssued && by != wayGenerated || !v.alone(by) {
		return 0, nil
	}
	n, among, err := s.leads(ctx, v, by)
	if err != nil {
		return 0, err
	}
	records := among - n + want
	if v.costOfWalk(records) > v.costOfSort(by, n) {
		return 0, nil
	}
	return records, nil
}

func (v *view) costOfWalk(records int) int {
	if v.Sort == ByName || v.Sort == ByEmail {
		return costByName * records
	}
	return costByTime * records
}

func (v *view) costOfSort(by way, records int) int {
	if v.covers(by) {
		return costOfIndex * records
	}
	return costOfFile * records
}

// leads counts to how many records a way leads on SQLite, and among how many.
func (s *Service) leads(ctx context.Context, v *view, by way) (n, among int, err error) {
	q, among := &statement{}, v.size
	query := `SELECT count(*) FROM certificates d WHERE ` + and(v.entry(q, by, "d"))
	if by == waySearch {
		// The index of trigrams knows no status.
		q, among = &statement{}, v.own
		query = `SELECT count(*) FROM certificate_search WHERE certificate_search MATCH ` + q.arg(match(v.InstitutionID, v.most, v.Search))
	}
	err = s.db.QueryRowContext(ctx, query, q.args...).Scan(&n)
	return n, among, err
}
