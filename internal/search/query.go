package search

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// These queries read the pages of lists. Each query is written so that the database has only one plan for
// it:
//
//   - branches reads the index of the order. A list without filters needs only
//     this query.
//   - matches reads the index of one filter and sorts all records that match all
//     filters. It reads at most bounds.count + 1 matches.
//   - If there are more matches, scan finds matches among the first records of the
//     order. If these matches do not fill the page, sorted sorts all matches.
//   - Two kinds of lists in the order of creation have a faster query for many
//     matches: firstPerDay for a range of dates of issue or of last days of
//     validity, and firstFound for a search in SQLite.

// bounds limit the work of a list. Tests use small bounds.
type bounds struct {
	// count is the number up to which the records of a filtered list are counted.
	count int
	// scan is the number of records of the order that are scanned for a page without an offset. For other
	// pages, four times the offset is added.
	scan int
}

var defaultBounds = bounds{count: 10_000, scan: 2000}

// item is a certificate and its position in a list.
type item struct {
	*cert.Certificate

	at position
}

// page returns the records of a page, followed by the first record of the next page if there is
// one, and the number of records of the list. If the list has filters, a number above bounds.count
// may not be exact.
func (s *Service) page(ctx context.Context, v *view) ([]item, int, error) {
	if !v.filtered() {
		total, err := s.total(ctx, v)
		if err != nil {
			return nil, 0, err
		}
		q := &statement{}
		items, _, err := s.fetch(ctx, v, q, v.branches(q, v.limit+1, v.offset))
		return items, total, err
	}
	if v.onlyUnexpired() {
		n, err := s.countUnexpired(ctx, v)
		if err != nil {
			return nil, 0, err
		}
		items, err := s.pageOfMany(ctx, v, unexpiredIndex)
		return items, n, err
	}
	by, err := s.narrowest(ctx, v)
	if err != nil {
		return nil, 0, err
	}
	q := &statement{}
	items, n, err := s.fetch(ctx, v, q, s.matches(q, v, by))
	if err == nil && len(items) == 0 && v.offset > 0 {
		// The count is returned with each record, so a page past the end has no count.
		n, err = s.countBy(ctx, v, by)
	}
	if err != nil || n <= s.bounds.count {
		return items, n, err
	}
	items, err = s.pageOfMany(ctx, v, by)
	return items, n, err
}

// pageOfMany returns a page of a list that may have more than bounds.count matches.
func (s *Service) pageOfMany(ctx context.Context, v *view, by index) (items []item, err error) {
	q := &statement{}
	if v.only(issuedIndex) && v.Sort == ByCreated && len(v.Statuses) == 0 {
		items, _, err = s.fetch(ctx, v, q, v.firstPerDay(q, dayRange{"c.issue_date", v.IssuedFrom, v.IssuedTo}))
		return items, err
	}
	if v.only(expiresIndex) && v.expires() && v.Sort == ByCreated {
		first, last := v.expiryRange()
		items, _, err = s.fetch(ctx, v, q, v.firstPerDay(q, dayRange{"c.expires_on", first, last}))
		return items, err
	}
	if by == searchIndex && v.Sort == ByCreated && s.db.Dialect == db.SQLite {
		return s.firstFound(ctx, v)
	}
	items, _, err = s.fetch(ctx, v, q, v.scan(q, s.bounds.scan+4*v.offset))
	if err != nil || len(items) > v.limit {
		return items, err
	}
	q = &statement{}
	items, _, err = s.fetch(ctx, v, q, v.sorted(q, s.candidates(q, v, by)))
	return items, err
}

// fetch reads the records that the query inner selects. The query returns the id, the sort key and the
// time of creation of each record, and the number of matches or 0.
func (s *Service) fetch(ctx context.Context, v *view, q *statement, inner string) (items []item, n int, err error) {
	rows, err := s.db.QueryContext(ctx, `WITH page (row_id, row_key, row_time, row_count) AS (`+inner+`)
		SELECT `+cert.Columns+`, row_key, row_count FROM page CROSS JOIN certificates WHERE id = row_id`+v.order("row_key", "row_time", "row_id"), q.args...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var i item
		var key any = &i.at.Number
		if v.textual() {
			key = &i.at.Text
		}
		if i.Certificate, err = cert.Scan(withMore{rows, []any{key, &n}}); err != nil {
			return nil, 0, err
		}
		i.at.Created, i.at.ID = db.Micros(i.CreatedAt), i.ID
		items = append(items, i)
	}
	return items, n, rows.Err()
}

// withMore scans a row with more columns after those of a certificate.
type withMore struct {
	row  interface{ Scan(dest ...any) error }
	more []any
}

// Scan scans a row.
func (w withMore) Scan(dest ...any) error { return w.row.Scan(append(dest, w.more...)...) }

// branches returns a query for the records in the order of the list. The indexes of most orders have the
// source and the status before the sort key, so the query merges one branch for each source and status.
func (v *view) branches(q *statement, limit, offset int) string {
	var list []string
	for _, source := range v.ofSources() {
		if (v.Sort == ByCreated || v.Sort == ByIssueDate) && len(v.Statuses) == 0 {
			list = append(list, v.branch(q, source, "", 0, limit+offset))
			continue
		}
		for rank, status := range v.ofStatuses() {
			if v.Sort == ByStatus && v.after != nil && int64(rank) != v.after.Number && (int64(rank) > v.after.Number) != v.Ascending {
				continue
			}
			list = append(list, v.branch(q, source, status, rank, limit+offset))
		}
	}
	return `SELECT id, k, created_at, 0 FROM (` + strings.Join(list, ` UNION ALL `) + `) AS branches` + v.order("k", "created_at", "id") +
		` LIMIT ` + q.arg(limit) + ` OFFSET ` + q.arg(offset)
}

// branch returns a query for the first records of one source, and of one status unless status is
// empty.
func (v *view) branch(q *statement, source cert.Source, status cert.Status, rank, limit int) string {
	terms := []string{"c.institution_id = " + q.arg(v.InstitutionID), "c.source = " + q.arg(string(source))}
	if status != "" {
		terms = append(terms, "c.status = "+q.arg(string(status)))
	}
	key, order := "c."+sortColumns[v.Sort], []string{"c.created_at", "c.id"}
	afterCursor := v.afterCursor
	switch v.Sort {
	case ByStatus:
		key = strconv.Itoa(rank)
		if v.after != nil {
			afterCursor = v.afterTime
			if v.after.Number != int64(rank) {
				afterCursor = func(*statement) []string { return nil }
			}
		}
	case ByCreated:
	default:
		order = append([]string{key}, order...)
	}
	return `SELECT id, k, created_at FROM (SELECT c.id AS id, ` + key + ` AS k, c.created_at AS created_at FROM certificates c
		WHERE ` + and(terms, v.orderTerms(q), afterCursor(q)) + v.order(order...) + ` LIMIT ` + q.arg(limit) + `) AS branch`
}

// orderTerms returns the terms that the index of the order can apply.
func (v *view) orderTerms(q *statement) []string {
	switch {
	case v.Sort == ByIssueDate:
		return v.issuedTerms(q, "c.issue_date")
	case v.Sort == ByGenerated:
		return v.generatedTerms(q, "c.generated_at")
	case v.Sort == ByCreated && v.GeneratedBefore != 0:
		// generated_at is never before created_at.
		return []string{"c.created_at < " + q.arg(v.GeneratedBefore)}
	default:
		return nil
	}
}

// scan returns a query that finds the page among the first records of the order. records is the number of
// these records.
func (v *view) scan(q *statement, records int) string {
	return `SELECT scan.id, scan.k, scan.created_at, 0 FROM (` + v.branches(q, records, 0) + `) AS scan CROSS JOIN certificates c
		WHERE c.id = scan.id AND ` + and(v.filters(q)) + v.order("scan.k", "scan.created_at", "scan.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// sorted returns a query that sorts all matches and selects the page. The sort key is written so that no
// index matches it. Otherwise the database may scan the index of the order, although the matches may be at
// the end of this index.
func (v *view) sorted(q *statement, from string) string {
	key := v.key(q) + " + 0"
	if v.textual() {
		key = v.key(q) + " || ''"
	}
	return `SELECT c.id, ` + key + ` AS k, c.created_at, 0 FROM ` + from + v.order("k", "c.created_at", "c.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// matches returns a query for the page and the number of matches. If there are more than
// bounds.count matches, the page has arbitrary matches.
func (s *Service) matches(q *statement, v *view, by index) string {
	return `WITH matches AS MATERIALIZED (` + s.bounded(q, v, by, `c.id AS id, `+v.key(q)+` AS k, c.created_at AS created_at`) + `)
		SELECT id, k, created_at, (SELECT count(*) FROM matches) FROM matches` + v.order("k", "created_at", "id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// bounded returns a query for arbitrary matches, at most bounds.count + 1.
func (s *Service) bounded(q *statement, v *view, by index, columns string) string {
	limit := ` LIMIT ` + q.arg(s.bounds.count+1)
	if by == searchIndex && s.db.Dialect == db.PostgreSQL {
		with, from := v.foundMaterialized(q)
		return with + `SELECT ` + columns + ` FROM ` + from + limit
	}
	return `SELECT ` + columns + ` FROM ` + s.candidates(q, v, by) + limit
}

// dayRange is a range of the days in a column. A bound may be "".
type dayRange struct{ column, from, to string }

// terms returns the terms of the range.
func (d dayRange) terms(q *statement) (terms []string) {
	if d.from != "" {
		terms = append(terms, d.column+" >= "+q.arg(d.from))
	}
	if d.to != "" {
		terms = append(terms, d.column+" <= "+q.arg(d.to))
	}
	return terms
}

// firstPerDay returns a query for the page of a range of days in the order of creation. An index has the
// records of each day in this order, but no index has the records of several days in this order. There
// are few days even if there are many certificates. The query therefore finds the first record of each
// day, and reads only the days whose first records come first in the order. All records of the page are
// of these days.
func (v *view) firstPerDay(q *statement, days dayRange) string {
	first, from, all := "max", " >= ", "0"
	if v.Ascending {
		first, from, all = "min", " <= ", "9223372036854775807"
	}
	institution := "c.institution_id = " + q.arg(v.InstitutionID)
	terms := []string{institution, in(q, "c.source", v.ofSources())}
	var statuses []string
	if len(v.Statuses) > 0 {
		statuses = []string{in(q, "c.status || ''", v.Statuses)}
	}
	// extreme returns a query for the minimum or the maximum of a column. For one source, the database
	// reads one entry of the index. For a condition on several sources, it would read all entries.
	extreme := func(f, column string, conditions ...[]string) string {
		var list []string
		for _, source := range v.ofSources() {
			own := []string{institution, "c.source = " + q.arg(string(source))}
			list = append(list, `SELECT `+f+`(`+column+`) AS value FROM certificates c WHERE `+and(append([][]string{own, statuses}, conditions...)...))
		}
		if len(list) == 1 {
			return list[0]
		}
		return `SELECT ` + f + `(value) FROM (` + strings.Join(list, ` UNION ALL `) + `) AS extremes`
	}
	afterCursor := v.afterCursor(q)
	// For a column of an index, SQLite uses only one upper bound. The query below has the bound days.day,
	// so this range has no upper bound.
	later := dayRange{column: days.column, from: days.from}
	want := q.arg(v.offset + v.limit + 1)
	return `WITH RECURSIVE days (day) AS (
			` + extreme("max", days.column, days.terms(q)) + `
			UNION ALL
			SELECT (` + extreme("max", days.column, later.terms(q), []string{days.column + " < days.day"}) + `)
			FROM days WHERE days.day IS NOT NULL
		), firsts (day, at) AS MATERIALIZED (
			SELECT day, (` + extreme(first, "c.created_at", []string{days.column + " = days.day"}, afterCursor) + `)
			FROM days WHERE day IS NOT NULL
		), edge (at) AS MATERIALIZED (
			SELECT coalesce((SELECT at FROM firsts WHERE at IS NOT NULL` + v.order("at") + ` LIMIT 1 OFFSET ` + want + ` - 1), ` + all + `)
		)
		SELECT c.id, c.created_at AS k, c.created_at, 0 FROM edge CROSS JOIN firsts CROSS JOIN certificates c
		WHERE firsts.at` + from + `edge.at AND ` + and(terms, statuses, []string{days.column + " = firsts.day", "c.created_at" + from + "edge.at"}, afterCursor) +
		v.order("c.created_at", "c.id") + ` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}
