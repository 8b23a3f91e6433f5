package search

import (
	"context"

	"github.com/certvault/certvault/internal/db"
)

// PostgreSQL counts what a search finds up to a bound, and there are two ways to
// get there. Its index of trigrams knows at once where to look, but reads the
// list of every trigram to its end: a word that all records have takes longest.
// Any records of the table will do for such a word; but where they all lie at
// the other end, as those of a year do, nearly all others are read first. Its
// planner takes every word for evenly spread. So the vault looks at a sample.
//
// commonIn is what makes a search common: one in so many records has it.
const commonIn = 8

// surelyMany notes how common a search is on PostgreSQL, and says whether a
// sample alone has more records of it than are counted. Each of them is one that
// is selected, so that this is no estimate.
func (s *Service) surelyMany(ctx context.Context, v *view, by way) (bool, error) {
	if by != waySearch || s.db.Dialect != db.PostgreSQL {
		return false, nil
	}
	share := 100 * float64(s.bounds.sample) / float64(max(v.all, s.bounds.sample))
	q := &statement{}
	query := `SELECT count(*), count(*) FILTER (WHERE ` + like("c.text", q, v.Search) + `) FROM ` + v.sample(q, share)
	var n, found int
	if err := s.db.QueryRowContext(ctx, query, q.args...).Scan(&n, &found); err != nil {
		return false, err
	}
	v.common = found > 0 && found*commonIn >= n
	if !v.common || !v.alone(by) || v.size < v.own {
		return false, nil
	}
	// Half as much again as it should take.
	share = min(100, share*1.5*float64(s.bounds.count+1)/float64(found))
	q = &statement{}
	query = `SELECT count(*) FROM (SELECT 1 FROM ` + v.sample(q, share) + ` AND ` + like("c.text", q, v.Search) + ` LIMIT ` + q.arg(s.bounds.count+1) + `) AS counted`
	if err := s.db.QueryRowContext(ctx, query, q.args...).Scan(&found); err != nil {
		return false, err
	}
	return found > s.bounds.count, nil
}

// sample writes FROM and WHERE of what the institution has on some pages of the
// search's table, the same each time.
func (v *view) sample(q *statement, share float64) string {
	return `certificate_search c TABLESAMPLE SYSTEM (` + q.arg(share) + `::real) REPEATABLE (1)
		WHERE c.institution_id = ` + q.arg(v.InstitutionID) + ` AND ` + in(q, "c.source", v.ofSources())
}

// bounded writes what is selected, as far as it is counted.
func (s *Service) bounded(q *statement, v *view, by way, columns string) string {
	var with, from string
	if by == waySearch && s.db.Dialect == db.PostgreSQL && !v.common {
		with, from = v.foundByTrigrams(q)
	} else {
		from = s.candidates(q, v, by)
	}
	return with + `SELECT ` + columns + ` FROM ` + from + ` LIMIT ` + q.arg(s.bounds.count+1)
}

// foundByTrigrams writes what is selected by the index of trigrams. A query that
// stands in front is planned as if all of it were read, and read only as far as
// is asked for: so the bound does not tempt the planner to read the table.
func (v *view) foundByTrigrams(q *statement) (with, from string) {
	const front = `WITH found AS MATERIALIZED (SELECT c.id, c.created_at FROM certificate_search c WHERE `
	if v.searched() {
		return front + and(v.searchEntry(q, "c"), v.behind(q)) + `) `, `found c`
	}
	rest := *v
	rest.Search = ""
	return front + and(v.searchEntry(q, "c")) + `) `, `found d CROSS JOIN certificates c WHERE c.id = d.id AND ` + and(v.base(q), rest.filters(q), v.behind(q))
}
