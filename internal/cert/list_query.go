package cert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// How a part of a list is found. The databases' own planners guess by
// statistics, which know nothing of how filters and orders go together; a wrong
// guess reads a million rows. So each way is written such that there is one
// plan only:
//
//   - arms walks the index of the order, one arm for each source and status,
//     and merges them. It is all that a list without filters needs.
//   - candidates goes in through the index of the narrowest filter and finds
//     everything that is selected, which is then sorted.
//   - walked looks through the first records of the order for those selected.
//     When very many are, they are there.
//
// bounds say which way is taken; tests set them low.
type bounds struct {
	// count is how far records are counted under a filter.
	count int
	// few records can all be looked at one by one, whatever the filters.
	few int
	// walk is how many records of the order are looked through.
	walk int
	// depth is how deep into a list it pays to look through its order.
	depth int
	// days is how deep into a list it pays to go by days.
	days int
}

var usualBounds = bounds{count: 10_000, few: 30_000, walk: 2000, depth: 20_000, days: 500}

// item is a certificate and its place in the list.
type item struct {
	*Certificate

	at place
}

// part gives the records of the part that is asked for, and one more when there
// is. size is how many are selected, or more than are counted.
func (s *Service) part(ctx context.Context, v *view, size int) ([]item, error) {
	q := &statement{}
	switch want := v.offset + v.limit + 1; {
	case !v.narrowed():
		return s.fetch(ctx, v, q, v.arms(q, v.limit+1, v.offset))
	case v.few || size <= s.bounds.count:
	case v.byDays() && want <= s.bounds.days:
		return s.fetch(ctx, v, q, v.days(q, want))
	case s.db.Dialect == db.SQLite && v.Search != "" && v.Sort == ByCreated:
		return s.newest(ctx, v, want)
	case want <= s.bounds.depth:
		items, err := s.fetch(ctx, v, q, v.walked(q, s.bounds.walk))
		if err != nil || len(items) > v.limit {
			return items, err
		}
		q = &statement{}
	}
	way, err := s.way(ctx, v)
	if err != nil {
		return nil, err
	}
	return s.fetch(ctx, v, q, v.sorted(q, s.candidates(q, v, way)))
}

// fetch reads the records that inner selects as row_id, row_key and row_time.
func (s *Service) fetch(ctx context.Context, v *view, q *statement, inner string) (items []item, err error) {
	rows, err := s.db.QueryContext(ctx, `WITH page (row_id, row_key, row_time) AS (`+inner+`)
		SELECT `+columns+`, row_key FROM page CROSS JOIN certificates WHERE id = row_id`+v.order("row_key", "row_time", "row_id"), q.args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var i item
		var key any = &i.at.Number
		if v.textual() {
			key = &i.at.Text
		}
		if i.Certificate, err = scan(withKey{rows, key}); err != nil {
			return nil, err
		}
		i.at.Created, i.at.ID = db.Micros(i.CreatedAt), i.ID
		items = append(items, i)
	}
	return items, rows.Err()
}

// withKey scans one more column than a certificate has.
type withKey struct {
	row interface{ Scan(dest ...any) error }
	key any
}

// Scan implements what scan asks of a row.
func (k withKey) Scan(dest ...any) error { return k.row.Scan(append(dest, k.key)...) }

// arms writes the records in the order of the list, by the index of that order.
func (v *view) arms(q *statement, limit, offset int) string {
	var arms []string
	deep := q.arg(limit + offset)
	for _, source := range v.ofSources() {
		if (v.Sort == ByCreated || v.Sort == ByIssueDate) && len(v.Statuses) == 0 {
			arms = append(arms, v.arm(q, source, "", 0, deep))
			continue
		}
		for rank, status := range v.ofStatuses() {
			if v.Sort == ByStatus && v.after != nil && int64(rank) != v.after.Number && (int64(rank) > v.after.Number) != v.Ascending {
				continue
			}
			arms = append(arms, v.arm(q, source, status, rank, deep))
		}
	}
	return `SELECT id, k, created_at FROM (` + strings.Join(arms, ` UNION ALL `) + `) AS arms` + v.order("k", "created_at", "id") +
		` LIMIT ` + q.arg(limit) + ` OFFSET ` + q.arg(offset)
}

// arm writes the records of one source, and of one status unless it is empty.
func (v *view) arm(q *statement, source Source, status Status, rank int, deep string) string {
	terms := []string{"c.institution_id = " + q.arg(v.InstitutionID), "c.source = " + q.arg(string(source))}
	if status != "" {
		terms = append(terms, "c.status = "+q.arg(string(status)))
	}
	key, behind := "", v.behind
	order := []string{"c.created_at", "c.id"}
	switch v.Sort {
	case ByStatus:
		key = fmt.Sprint(rank)
		behind = func(q *statement) []string {
			if v.after == nil || v.after.Number != int64(rank) {
				return nil
			}
			return []string{"(c.created_at, c.id)" + v.beyond() + "(" + q.arg(v.after.Created) + ", " + q.arg(v.after.ID) + ")"}
		}
	case ByCreated:
		key = "c.created_at"
		if v.GeneratedBefore != 0 {
			// What was generated before then was created before then.
			terms = append(terms, "c.created_at < "+q.arg(v.GeneratedBefore))
		}
	default:
		key = "c." + sortColumns[v.Sort]
		order = append([]string{key}, order...)
		if v.Sort == ByIssueDate {
			terms = append(terms, v.issuedTerms(q, key)...)
		}
		if v.Sort == ByGenerated {
			terms = append(terms, v.generatedTerms(q, key)...)
		}
	}
	return `SELECT * FROM (SELECT c.id AS id, ` + key + ` AS k, c.created_at AS created_at FROM certificates c WHERE ` + and(terms, behind(q)) +
		v.order(order...) + ` LIMIT ` + deep + `) AS arm`
}

// walked writes the records that the filters let through of the first ones in
// the order of the list.
func (v *view) walked(q *statement, records int) string {
	return `SELECT walk.id, walk.k, walk.created_at FROM (` + v.arms(q, records+4*v.offset, 0) + `) AS walk CROSS JOIN certificates c
		WHERE c.id = walk.id AND ` + and(v.filters(q)) + v.order("walk.k", "walk.created_at", "walk.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// sorted writes the part of the list that is asked for out of all that is
// selected.
func (v *view) sorted(q *statement, from string) string {
	key := v.key(q)
	return `SELECT c.id, ` + key + ` AS k, c.created_at FROM ` + from + v.order("k", "c.created_at", "c.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// way is the filter by whose index everything that is selected is found.
type way int

const (
	wayAll way = iota
	wayBatch
	wayCustomer
	wayEmail
	waySearch
	wayIssued
	wayGenerated
)

// way chooses the narrowest filter. Of two ranges of dates neither is known to
// be; that of the issue is taken when it selects no more than are counted.
func (s *Service) way(ctx context.Context, v *view) (way, error) {
	switch {
	case v.few:
		return wayAll, nil
	case v.BatchID != "":
		return wayBatch, nil
	case v.CustomerID != 0:
		return wayCustomer, nil
	case v.Email != "":
		return wayEmail, nil
	case v.Search != "":
		return waySearch, nil
	case !v.generated():
		return wayIssued, nil
	case !v.issued():
		return wayGenerated, nil
	}
	alone := &view{InstitutionID: v.InstitutionID, Sources: v.Sources, IssuedFrom: v.IssuedFrom, IssuedTo: v.IssuedTo, Sort: ByCreated}
	n, err := s.countBy(ctx, alone, wayIssued)
	if err != nil || n <= s.bounds.count {
		return wayIssued, err
	}
	return wayGenerated, nil
}

// candidates writes FROM and WHERE of everything that is selected. What the
// index of the way does not hold is asked of the record, which CROSS JOIN makes
// SQLite read second.
func (s *Service) candidates(q *statement, v *view, by way) string {
	switch {
	case by == wayAll:
		return `certificates c WHERE ` + and(v.base(q), v.filters(q), v.behind(q))
	case by == waySearch && s.db.Dialect == db.SQLite:
		return v.foundSQLite(q)
	case by == waySearch:
		return v.foundPostgres(q)
	case v.covers(by):
		return `certificates c WHERE ` + and(v.entry(q, by, "c"), v.behind(q))
	default:
		return `certificates d CROSS JOIN certificates c WHERE ` + and(v.entry(q, by, "d")) +
			` AND c.id = d.id AND ` + and(v.base(q), v.filters(q), v.behind(q))
	}
}

// entry selects in a table by nothing but what leads into the index of a way.
func (v *view) entry(q *statement, by way, table string) []string {
	terms := []string{table + ".institution_id = " + q.arg(v.InstitutionID)}
	source := func() string { return in(q, table+".source", v.ofSources()) }
	switch by {
	case wayBatch:
		return append(terms, table+".batch_id = "+q.arg(v.BatchID))
	case wayCustomer:
		return append(terms, table+".customer_id = "+q.arg(v.CustomerID))
	case wayIssued:
		return append(append(terms, source()), v.issuedTerms(q, table+".issue_date")...)
	case wayEmail:
		return append(terms, source(), in(q, table+".status", v.ofStatuses()), table+".email_folded = "+q.arg(v.Email))
	case wayGenerated:
		terms = append(append(terms, source(), in(q, table+".status", v.ofStatuses())), v.generatedTerms(q, table+".generated_at")...)
		// The index holds the date of issue too, and must not be left for that
		// date's own.
		return append(terms, v.issuedTerms(q, table+".issue_date || ''")...)
	default:
		return terms
	}
}

// covers says that the index of a way holds all that is asked.
func (v *view) covers(by way) bool {
	rest := *v
	switch by {
	case wayEmail:
		rest.Email = ""
		return !rest.narrowed() && (v.Sort == ByCreated || v.Sort == ByEmail)
	case wayIssued:
		rest.IssuedFrom, rest.IssuedTo = "", ""
		return !rest.narrowed() && (v.Sort == ByCreated || v.Sort == ByIssueDate) && len(v.Statuses) == 0
	case wayGenerated:
		rest.IssuedFrom, rest.IssuedTo, rest.GeneratedFrom, rest.GeneratedBefore = "", "", 0, 0
		return !rest.narrowed() && (v.Sort == ByCreated || v.Sort == ByGenerated || v.Sort == ByIssueDate)
	default:
		return false
	}
}
