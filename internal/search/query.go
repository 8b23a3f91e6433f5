package search

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/cert"
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
	// sample is how many records are looked at to see how common a search is.
	sample int
}

var usualBounds = bounds{count: 10_000, few: 30_000, walk: 2000, depth: 20_000, days: 500, sample: 2000}

// item is a certificate and its place in the list.
type item struct {
	*cert.Certificate

	at place
}

// whole gives a part of a list without filters, and one record more when there
// is.
func (s *Service) whole(ctx context.Context, v *view) ([]item, error) {
	q := &statement{}
	items, _, err := s.fetch(ctx, v, q, v.arms(q, v.limit+1, v.offset))
	return items, err
}

// narrowed gives a part of a list with filters, and one record more when there
// is, and how many are selected, or more than are counted.
func (s *Service) narrowed(ctx context.Context, v *view) ([]item, int, error) {
	way, err := s.way(ctx, v)
	if err != nil {
		return nil, 0, err
	}
	if sure, err := s.surelyMany(ctx, v, way); err != nil {
		return nil, 0, err
	} else if sure {
		items, err := s.ofMany(ctx, v, way)
		return items, s.bounds.count + 1, err
	}
	q := &statement{}
	items, n, err := s.fetch(ctx, v, q, s.gathered(q, v, way))
	if err == nil && len(items) == 0 && v.offset > 0 {
		// Past the end there is no record that tells.
		n, err = s.countBy(ctx, v, way)
	}
	if err != nil || n <= s.bounds.count {
		return items, n, err
	}
	items, err = s.ofMany(ctx, v, way)
	return items, n, err
}

// ofMany gives a part when more are selected than are counted.
func (s *Service) ofMany(ctx context.Context, v *view, by way) (items []item, err error) {
	want := v.offset + v.limit + 1
	if s.db.Dialect == db.SQLite && by == waySearch && v.Sort == ByCreated {
		return s.newest(ctx, v, want)
	}
	if v.ordered(by) {
		q := &statement{}
		items, _, err = s.fetch(ctx, v, q, v.arms(q, v.limit+1, v.offset))
		return items, err
	}
	days := v.byDays() && want <= s.bounds.days
	records := 0
	switch {
	case want > s.bounds.depth:
		if records, err = s.reach(ctx, v, by, want); err != nil {
			return nil, err
		}
	case !days || v.IssuedTo == "":
		records = s.bounds.walk + 4*v.offset
	default:
		// The first of a range that ends early are far from the first of all.
	}
	items, err = s.walk(ctx, v, records)
	if err != nil || len(items) > v.limit {
		return items, err
	}
	q := &statement{}
	if days {
		items, _, err = s.fetch(ctx, v, q, s.days(q, v, want))
		return items, err
	}
	if records, err = s.rest(ctx, v, by, want); err != nil {
		return nil, err
	}
	items, err = s.walk(ctx, v, records)
	if err != nil || len(items) > v.limit {
		return items, err
	}
	items, _, err = s.fetch(ctx, v, q, v.sorted(q, s.candidates(q, v, by)))
	return items, err
}

// walk gives the part as far as it is among so many records of the order.
func (s *Service) walk(ctx context.Context, v *view, records int) (items []item, err error) {
	if records > 0 {
		q := &statement{}
		items, _, err = s.fetch(ctx, v, q, v.walked(q, records))
	}
	return items, err
}

// fetch reads the records that inner selects by id, key and time of creation,
// and the count that it may give beside them.
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

// withMore scans more columns than a certificate has.
type withMore struct {
	row  interface{ Scan(dest ...any) error }
	more []any
}

// Scan implements what scan asks of a row.
func (w withMore) Scan(dest ...any) error { return w.row.Scan(append(dest, w.more...)...) }

// arms writes the records in the order of the list, by the index of that order.
func (v *view) arms(q *statement, limit, offset int) string {
	var arms []string
	deep := limit + offset
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
	return `SELECT id, k, created_at, 0 FROM (` + strings.Join(arms, ` UNION ALL `) + `) AS arms` + v.order("k", "created_at", "id") +
		` LIMIT ` + q.arg(limit) + ` OFFSET ` + q.arg(offset)
}

// arm writes the records of one source, and of one status unless it is empty.
func (v *view) arm(q *statement, source cert.Source, status cert.Status, rank, deep int) string {
	terms := []string{"c.institution_id = " + q.arg(v.InstitutionID), "c.source = " + q.arg(string(source))}
	if status != "" {
		terms = append(terms, "c.status = "+q.arg(string(status)))
	}
	key, order := "c."+sortColumns[v.Sort], []string{"c.created_at", "c.id"}
	behind := v.behind
	switch v.Sort {
	case ByStatus:
		key = strconv.Itoa(rank)
		if v.after != nil {
			behind = v.behindTime
			if v.after.Number != int64(rank) {
				behind = nothing
			}
		}
	case ByCreated:
	default:
		order = append([]string{key}, order...)
	}
	all := `SELECT c.id AS id, ` + key + ` AS k, c.created_at AS created_at FROM certificates c WHERE ` + and(terms, v.along(q), behind(q))
	if v.merges {
		return all
	}
	return `SELECT id, k, created_at FROM (` + all + v.order(order...) + ` LIMIT ` + q.arg(deep) + `) AS arm`
}

// along narrows an arm by what the index of the order holds itself.
func (v *view) along(q *statement) []string {
	switch v.Sort {
	case ByIssueDate:
		return v.issuedTerms(q, "c.issue_date")
	case ByGenerated:
		// The index holds the date of issue too, and must not be left for that date's own.
		return append(v.generatedTerms(q, "c.generated_at"), v.issuedTerms(q, "c.issue_date || ''")...)
	case ByCreated:
		var terms []string
		if v.GeneratedBefore != 0 {
			// What was generated before then was created before then.
			terms = append(terms, "c.created_at < "+q.arg(v.GeneratedBefore))
		}
		if v.failed() {
			terms = append(terms, "c.status = 'failed'", "c.failure_code = "+q.arg(v.FailureCode))
		}
		return terms
	default:
	}
	return nil
}

// walked writes the records that the filters let through of the first ones in
// the order of the list.
func (v *view) walked(q *statement, records int) string {
	return `SELECT walk.id, walk.k, walk.created_at, 0 FROM (` + v.arms(q, records, 0) + `) AS walk CROSS JOIN certificates c
		WHERE c.id = walk.id AND ` + and(v.filters(q)) + v.order("walk.k", "walk.created_at", "walk.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// sorted writes the part of the list that is asked for out of all that is
// selected. The key is written such that no index has it: the one of the order
// would else be walked for records that may be at its end.
func (v *view) sorted(q *statement, from string) string {
	key := v.key(q) + " + 0"
	if v.textual() {
		key = v.key(q) + " || ''"
	}
	return `SELECT c.id, ` + key + ` AS k, c.created_at, 0 FROM ` + from + v.order("k", "c.created_at", "c.id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// gathered writes the same, and how many are selected, when they are no more
// than are counted. When they are more, the records are any.
func (s *Service) gathered(q *statement, v *view, by way) string {
	return `WITH hits AS MATERIALIZED (` + s.bounded(q, v, by, `c.id AS id, `+v.key(q)+` AS k, c.created_at AS created_at`) + `)
		SELECT id, k, created_at, (SELECT count(*) FROM hits) FROM hits` + v.order("k", "created_at", "id") +
		` LIMIT ` + q.arg(v.limit+1) + ` OFFSET ` + q.arg(v.offset)
}

// way is the filter by whose index everything that is selected is found.
type way int

const (
	wayAll way = iota
	wayBatch
	wayFailure
	wayCustomer
	wayEmail
	waySearch
	wayIssued
	wayGenerated
)

// way chooses the narrowest filter. Of a search and ranges of dates none is
// known to be: a range is taken when it selects no more than are counted.
func (s *Service) way(ctx context.Context, v *view) (way, error) {
	switch {
	case v.few:
		return wayAll, nil
	case v.BatchID != "":
		return wayBatch, nil
	case v.FailureCode != "":
		return wayFailure, nil
	case v.CustomerID != 0:
		return wayCustomer, nil
	case v.Email != "":
		return wayEmail, nil
	default:
	}
	ways := v.ways()
	if len(ways) == 1 {
		return ways[0], nil
	}
	for _, by := range ways {
		alone := &view{InstitutionID: v.InstitutionID, Sources: v.Sources, Statuses: v.Statuses, Sort: ByCreated}
		switch by {
		case wayGenerated:
			alone.GeneratedFrom, alone.GeneratedBefore = v.GeneratedFrom, v.GeneratedBefore
		case wayIssued:
			alone.IssuedFrom, alone.IssuedTo = v.IssuedFrom, v.IssuedTo
		default:
			continue
		}
		if n, err := s.countBy(ctx, alone, by); err != nil || n <= s.bounds.count {
			return by, err
		}
	}
	return ways[0], nil
}

// ways are those of a search and of ranges of dates.
func (v *view) ways() (ways []way) {
	if v.Search != "" {
		ways = append(ways, waySearch)
	}
	if v.generated() {
		ways = append(ways, wayGenerated)
	}
	if v.issued() {
		ways = append(ways, wayIssued)
	}
	return ways
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
	case wayFailure:
		// Its index has the failed alone, and must not be left for one of source and
		// status.
		terms = append(terms, table+".status = 'failed'", table+".failure_code = "+q.arg(v.FailureCode), in(q, table+".source || ''", v.ofSources()))
		if len(v.Statuses) > 0 {
			terms = append(terms, in(q, table+".status || ''", v.Statuses))
		}
		return terms
	case wayCustomer:
		return append(terms, table+".customer_id = "+q.arg(v.CustomerID))
	case wayIssued:
		terms = append(append(terms, source()), v.issuedTerms(q, table+".issue_date")...)
		if len(v.Statuses) > 0 || v.Sort == ByStatus {
			terms = append(terms, in(q, table+".status", v.ofStatuses()))
		}
		return terms
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

// alone says that there are no filters but those that a way leads in by.
func (v *view) alone(by way) bool {
	rest := *v
	switch by {
	case wayFailure:
		rest.FailureCode = ""
	case waySearch:
		rest.Search = ""
	case wayEmail:
		rest.Email = ""
	case wayIssued:
		rest.IssuedFrom, rest.IssuedTo = "", ""
	case wayGenerated:
		rest.IssuedFrom, rest.IssuedTo, rest.GeneratedFrom, rest.GeneratedBefore = "", "", 0, 0
	default:
	}
	return !rest.narrowed()
}

// covers says that the index of a way holds all that is asked. Source, status,
// creation and id are in each of them.
func (v *view) covers(by way) bool {
	held := v.Sort == ByCreated || v.Sort == ByStatus
	switch by {
	case wayFailure:
		return v.alone(by) && held
	case wayEmail:
		return v.alone(by) && (held || v.Sort == ByEmail)
	case wayIssued:
		return v.alone(by) && (held || v.Sort == ByIssueDate)
	case wayGenerated:
		return v.alone(by) && (held || v.Sort == ByGenerated || v.Sort == ByIssueDate)
	default:
		return false
	}
}

// ordered says that the index of the order holds all that is asked, as it does
// where a range of dates is in the order of these.
func (v *view) ordered(by way) bool {
	switch by {
	case wayFailure:
		return v.Sort == ByCreated && v.alone(by) && v.failed()
	case wayIssued:
		return v.Sort == ByIssueDate && v.alone(by) || v.Sort == ByGenerated && v.alone(wayGenerated)
	case wayGenerated:
		return v.Sort == ByGenerated && v.alone(by)
	default:
		return false
	}
}
