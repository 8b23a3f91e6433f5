package cert

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
func (v *view) days(q *statement, want int) string {
	first, last, from, all := "max", "min", " >= ", "0"
	if v.Ascending {
		first, last, from, all = "min", "max", " <= ", "9223372036854775807"
	}
	entry := and([]string{"c.institution_id = " + q.arg(v.InstitutionID), in(q, "c.source", v.ofSources())})
	before := *v
	before.IssuedTo = "" // the day before one in the range; two bounds would be one too many for SQLite
	behind := ""
	if v.after != nil {
		behind = " AND " + and(v.behind(q))
	}
	wanted := q.arg(want)
	return `WITH RECURSIVE dated (issued) AS (
			SELECT max(c.issue_date) FROM certificates c WHERE ` + entry + ` AND ` + and(v.issuedTerms(q, "c.issue_date")) + `
			UNION ALL
			SELECT (SELECT max(c.issue_date) FROM certificates c WHERE ` + and([]string{entry}, before.issuedTerms(q, "c.issue_date")) + ` AND c.issue_date < dated.issued)
			FROM dated WHERE dated.issued IS NOT NULL
		), heads (issued, at) AS MATERIALIZED (
			SELECT issued, (SELECT ` + first + `(c.created_at) FROM certificates c WHERE ` + entry + ` AND c.issue_date = dated.issued` + behind + `)
			FROM dated WHERE issued IS NOT NULL
		), nearest (at) AS (
			SELECT at FROM heads WHERE at IS NOT NULL` + v.order("at") + ` LIMIT ` + wanted + `
		), edge (at) AS MATERIALIZED (
			SELECT CASE WHEN count(*) = ` + wanted + ` THEN ` + last + `(at) ELSE ` + all + ` END FROM nearest
		)
		SELECT c.id, c.created_at AS k, c.created_at, 0 FROM edge CROSS JOIN heads CROSS JOIN certificates c
		WHERE heads.at` + from + `edge.at AND ` + entry + ` AND c.issue_date = heads.issued AND c.created_at` + from + `edge.at` + behind +
		v.order("c.created_at", "c.id") + ` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}
