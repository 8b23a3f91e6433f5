package search

import (
	"context"

	"github.com/certvault/certvault/internal/db"
)

// index identifies the database index that finds the matches of one filter.
type index int

const (
	batchIndex index = iota
	failureIndex
	customerIndex
	emailIndex
	searchIndex
	issuedIndex
	generatedIndex
	expiresIndex
	replacedIndex
	// unexpiredIndex means that no filter has a useful index. Most certificates have not expired and were
	// not replaced, so a query finds such certificates quickly in the order of the list.
	unexpiredIndex
)

// narrowest returns the index that finds the matches of a filtered list. A batch, a failure, a customer
// and an e-mail address come first, in this order. A range of dates, or the filter of replaced
// certificates, comes before a search if it selects at most bounds.count records.
func (s *Service) narrowest(ctx context.Context, v *view) (index, error) {
	switch {
	case v.BatchID != "":
		return batchIndex, nil
	case v.FailureCode != "":
		return failureIndex, nil
	case v.CustomerID != 0:
		return customerIndex, nil
	case v.Email != "":
		return emailIndex, nil
	default:
	}
	var ranges []index
	if v.generated() {
		ranges = append(ranges, generatedIndex)
	}
	if v.issued() {
		ranges = append(ranges, issuedIndex)
	}
	if v.expires() {
		ranges = append(ranges, expiresIndex)
	}
	if v.Replaced == OnlyReplaced {
		ranges = append(ranges, replacedIndex)
	}
	if v.Search == "" && len(ranges) == 0 {
		return unexpiredIndex, nil
	}
	if v.Search == "" && len(ranges) == 1 {
		return ranges[0], nil
	}
	for _, by := range ranges {
		alone := &view{InstitutionID: v.InstitutionID, Sources: v.ofSources(), Statuses: v.Statuses, Sort: ByCreated}
		switch by {
		case generatedIndex:
			alone.GeneratedFrom, alone.GeneratedBefore = v.GeneratedFrom, v.GeneratedBefore
		case expiresIndex:
			alone.Expired, alone.ExpiresFrom, alone.ExpiresTo, alone.today = v.Expired, v.ExpiresFrom, v.ExpiresTo, v.today
		case replacedIndex:
			alone.Replaced = v.Replaced
		default:
			alone.IssuedFrom, alone.IssuedTo = v.IssuedFrom, v.IssuedTo
		}
		if n, err := s.countBy(ctx, alone, by); err != nil || n <= s.bounds.count {
			return by, err
		}
	}
	if v.Search != "" {
		return searchIndex, nil
	}
	return ranges[0], nil
}

// candidates returns the FROM and WHERE clauses that select all matches after the cursor. If the index
// does not have all columns that the query needs, the query also reads the records. CROSS JOIN makes
// SQLite read the index first.
func (s *Service) candidates(q *statement, v *view, by index) string {
	switch {
	case by == searchIndex && s.db.Dialect == db.SQLite:
		return v.foundSQLite(q)
	case by == searchIndex:
		return v.foundPostgres(q)
	case by == unexpiredIndex:
		return `certificates c WHERE ` + and(v.base(q), v.filters(q), v.afterCursor(q))
	case v.covers(by):
		return `certificates c WHERE ` + and(v.entry(q, by, "c"), v.afterCursor(q))
	default:
		return `certificates d CROSS JOIN certificates c WHERE ` + and(v.entry(q, by, "d")) +
			` AND c.id = d.id AND ` + and(v.base(q), v.filters(q), v.afterCursor(q))
	}
}

// entry returns the terms that select entries of an index. Some terms append an empty text to a
// column, which prevents the database from using another index of that column.
func (v *view) entry(q *statement, by index, table string) []string {
	terms := []string{table + ".institution_id = " + q.arg(v.InstitutionID)}
	source := func() string { return in(q, table+".source", v.ofSources()) }
	switch by {
	case batchIndex:
		return append(terms, table+".batch_id = "+q.arg(v.BatchID))
	case failureIndex:
		terms = append(terms, table+".status = 'failed'", table+".failure_code = "+q.arg(v.FailureCode), in(q, table+".source || ''", v.ofSources()))
		if len(v.Statuses) > 0 {
			terms = append(terms, in(q, table+".status || ''", v.Statuses))
		}
		return terms
	case customerIndex:
		return append(terms, table+".customer_id = "+q.arg(v.CustomerID))
	case emailIndex:
		return append(terms, source(), in(q, table+".status", v.ofStatuses()), table+".email_folded = "+q.arg(v.Email))
	case issuedIndex:
		terms = append(append(terms, source()), v.issuedTerms(q, table+".issue_date")...)
		if len(v.Statuses) > 0 || v.Sort == ByStatus {
			terms = append(terms, in(q, table+".status", v.ofStatuses()))
		}
		return terms
	case generatedIndex:
		return append(append(terms, source(), in(q, table+".status", v.ofStatuses())), v.generatedTerms(q, table+".generated_at")...)
	case expiresIndex:
		terms = append(append(terms, source()), v.expiresTerms(q, table+".expires_on")...)
		if len(v.Statuses) > 0 {
			terms = append(terms, in(q, table+".status || ''", v.Statuses))
		}
		return terms
	case replacedIndex:
		terms = append(terms, source(), table+".replaced_by IS NOT NULL")
		if len(v.Statuses) > 0 {
			terms = append(terms, in(q, table+".status || ''", v.Statuses))
		}
		return terms
	default:
		return terms
	}
}

// only reports whether the list has no filters except those of an index, and the source and the status. It
// is not for batchIndex and customerIndex.
func (v *view) only(by index) bool {
	rest := *v
	switch by {
	case failureIndex:
		rest.FailureCode = ""
	case searchIndex:
		rest.Search = ""
	case emailIndex:
		rest.Email = ""
	case issuedIndex:
		rest.IssuedFrom, rest.IssuedTo = "", ""
	case generatedIndex:
		rest.GeneratedFrom, rest.GeneratedBefore = 0, 0
	case expiresIndex, unexpiredIndex:
		rest.Expired, rest.ExpiresFrom, rest.ExpiresTo = AnyExpiry, "", ""
	case replacedIndex:
		rest.Replaced = AnyReplaced
	default:
	}
	return !rest.filtered()
}

// covers reports whether an index has all columns that the list needs. Each index in the map has the
// source, the time of creation and the id, and also the status if the list needs it.
func (v *view) covers(by index) bool {
	order, ok := map[index]Sort{failureIndex: ByCreated, emailIndex: ByEmail, issuedIndex: ByIssueDate, generatedIndex: ByGenerated, expiresIndex: ByCreated,
		replacedIndex: ByCreated}[by]
	return ok && v.only(by) && (v.Sort == ByCreated || v.Sort == ByStatus || v.Sort == order)
}
