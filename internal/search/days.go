package search

import "github.com/certvault/certvault/internal/db"

// byDays says that the list is that of a range of dates of issue in the order
// of creation, and that nothing else narrows it.
func (v *view) byDays() bool {
	return v.covers(wayIssued) && v.Sort == ByCreated && len(v.Statuses) == 0
}

// days writes the part of the list that is asked for by way of the days in the
// range, of which there are few even where there are very many certificates:
// want days whose first record comes first have, between them, as many records
// that come no later than the last of those; so all that come before are of
// these days.
func (s *Service) days(q *statement, v *view, want int) string {
	last, from, all := "min", " >= ", "0"
	if v.Ascending {
		last, from, all = "max", " <= ", "9223372036854775807"
	}
	entry := and([]string{"c.institution_id = " + q.arg(v.InstitutionID), in(q, "c.source", v.ofSources())})
	behind := ""
	if v.after != nil {
		behind = " AND " + and(v.behind(q))
	}
	heads := v.heads
	if s.db.Dialect == db.PostgreSQL && v.after == nil {
		heads = v.headsInOrder
	}
	wanted := q.arg(want)
	return `WITH RECURSIVE ` + heads(q, entry, behind) + `, nearest (at) AS (
			SELECT at FROM heads WHERE at IS NOT NULL` + v.order("at") + ` LIMIT ` + wanted + `
		), edge (at) AS MATERIALIZED (
			SELECT CASE WHEN count(*) = ` + wanted + ` THEN ` + last + `(at) ELSE ` + all + ` END FROM nearest
		)
		SELECT c.id, c.created_at AS k, c.created_at, 0 FROM edge CROSS JOIN heads CROSS JOIN certificates c
		WHERE heads.at` + from + `edge.at AND ` + entry + ` AND c.issue_date = heads.issued AND c.created_at` + from + `edge.at` + behind +
		v.order("c.created_at", "c.id") + ` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// heads writes the days in the range, and when the first record of each was made.
func (v *view) heads(q *statement, entry, behind string) string {
	first := "max"
	if v.Ascending {
		first = "min"
	}
	before := *v
	before.IssuedTo = "" // the day before one in the range; two bounds would be one too many for SQLite
	return `dated (issued) AS (
			SELECT max(c.issue_date) FROM certificates c WHERE ` + entry + ` AND ` + and(v.issuedTerms(q, "c.issue_date")) + `
			UNION ALL
			SELECT (SELECT max(c.issue_date) FROM certificates c WHERE ` + and([]string{entry}, before.issuedTerms(q, "c.issue_date")) + ` AND c.issue_date < dated.issued)
			FROM dated WHERE dated.issued IS NOT NULL
		), heads (issued, at) AS MATERIALIZED (
			SELECT issued, (SELECT ` + first + `(c.created_at) FROM certificates c WHERE ` + entry + ` AND c.issue_date = dated.issued` + behind + `)
			FROM dated WHERE issued IS NOT NULL
		)`
}

// headsInOrder writes the same for a list from its beginning, in half as many
// looks into the index: in its order the record that follows on a day is the first
// of the next. SQLite has no LATERAL.
func (v *view) headsInOrder(q *statement, entry, _ string) string {
	next := func(later ...string) string {
		return `(SELECT c.issue_date, c.created_at FROM certificates c WHERE ` + and([]string{entry}, v.issuedTerms(q, "c.issue_date"), later) +
			v.order("c.issue_date", "c.created_at") + ` LIMIT 1)`
	}
	return `heads (issued, at) AS (
			` + next() + `
			UNION ALL
			SELECT n.issue_date, n.created_at FROM heads CROSS JOIN LATERAL ` + next("c.issue_date"+v.beyond()+"heads.issued") + ` AS n
		)`
}
