package search

import (
	"context"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

const (
	// minSubstring is the minimum number of letters and digits of a search that also matches inside
	// words. A shorter search matches only beginnings of words.
	minSubstring = 3
	// SQLite looks up minTrigrams to maxTrigrams trigrams of a search, or all trigrams of a very short
	// search. For each trigram SQLite reads the list of all records that have it. The query also compares
	// the text, so a few trigrams are sufficient.
	minTrigrams, maxTrigrams = 4, 10
	// blockIDs is the number of ids in a block of certificates_block_idx.
	blockIDs = 1024
)

func letters(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// matchText returns the text that a record must contain. A short search gets a space at its
// beginning, because it matches only beginnings of words.
func matchText(search string) string {
	if letters(search) < minSubstring {
		return " " + search
	}
	return search
}

// like returns the term that selects the rows whose column contains the text of a search. The
// characters % and _ are literal.
func like(column string, q *statement, search string) string {
	return column + ` LIKE ` + q.arg(pattern(search)) + ` ESCAPE '\'`
}

func pattern(search string) string { return "%" + db.EscapeLike(matchText(search)) + "%" }

// Pattern returns the LIKE pattern for finding the text of a search in search_text. Its escape character
// is the backslash. It is for lists that are too short to need an index.
func Pattern(text string) string { return pattern(cert.FoldText(text)) }

// found returns the terms that select the matches of a search from certificate_search in PostgreSQL.
func (v *view) found(q *statement, table string) []string {
	return []string{table + ".institution_id = " + q.arg(v.InstitutionID), like(table+".text", q, v.Search), in(q, table+".source", v.ofSources())}
}

// coveredBySearch reports whether certificate_search has all columns that the list needs in PostgreSQL.
func (v *view) coveredBySearch() bool {
	return v.only(searchIndex) && v.Sort == ByCreated && len(v.Statuses) == 0
}

// foundPostgres returns the FROM and WHERE clauses of the matches of a search. PostgreSQL extracts
// the trigrams from the pattern itself.
func (v *view) foundPostgres(q *statement) string {
	if v.coveredBySearch() {
		return `certificate_search c WHERE ` + and(v.found(q, "c"), v.afterCursor(q))
	}
	return `certificate_search d CROSS JOIN certificates c WHERE ` + and(v.found(q, "d")) + ` AND c.id = d.id AND ` + and(v.base(q), v.withoutSearch(q), v.afterCursor(q))
}

// foundMaterialized returns the clauses of foundPostgres for a query with a limit, and a WITH clause that
// the query must begin with. PostgreSQL plans a materialized query as if all its rows were read. Otherwise
// the limit may cause the planner to read the table instead of the index.
func (v *view) foundMaterialized(q *statement) (with, from string) {
	const prefix = `WITH found AS MATERIALIZED (SELECT c.id, c.created_at FROM certificate_search c WHERE `
	if v.coveredBySearch() {
		return prefix + and(v.found(q, "c"), v.afterCursor(q)) + `) `, `found c`
	}
	return prefix + and(v.found(q, "c")) + `) `, `found d CROSS JOIN certificates c WHERE c.id = d.id AND ` + and(v.base(q), v.withoutSearch(q), v.afterCursor(q))
}

func (v *view) withoutSearch(q *statement) []string {
	rest := *v
	rest.Search = ""
	return rest.filters(q)
}

// foundSQLite returns the FROM and WHERE clauses of the matches of a search. SQLite's index of
// trigrams returns the records that have all trigrams. The query then compares the text of these
// records.
func (v *view) foundSQLite(q *statement) string {
	return `certificate_search CROSS JOIN certificates c WHERE certificate_search MATCH ` + q.arg(match(v.InstitutionID, v.Search)) +
		` AND c.id = certificate_search.rowid AND ` + and(v.base(q), v.filters(q), v.afterCursor(q))
}

// match returns the query for SQLite's index of trigrams. It has some trigrams of the search text with
// doubled spaces, and the trigram of the institution. The triggers of certificate_search write the index
// in the same form.
func match(institutionID int64, search string) string {
	text := []rune(strings.ReplaceAll(matchText(search), " ", "  "))
	last := len(text) - 3
	n := min(last+1, maxTrigrams, minTrigrams+last/8)
	terms := make([]string, 0, n+1)
	for i := range n {
		at := last
		if n > 1 {
			at = i * last / (n - 1)
		}
		terms = append(terms, string(text[at:at+3]))
	}
	letter := func(n int64) rune { return rune(0xA000 + n%1000) }
	terms = append(terms, string([]rune{letter(institutionID / 1_000_000), letter(institutionID / 1000), letter(institutionID)}))
	for i, t := range terms {
		terms[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
	}
	return strings.Join(terms, " AND ")
}

// firstFound returns a page of a search in the order of creation. SQLite's index of trigrams returns the
// matches by id, which is almost this order. firstFound first reads as many matches by id as the page
// needs. No record of the page comes after the last time of creation of these matches. lastBlock then
// returns the last block of ids with a record up to this time, and only the matches up to this block are
// sorted. "First", "last", "after" and "up to" refer to the order of the list, which may be descending.
func (s *Service) firstFound(ctx context.Context, v *view) (items []item, err error) {
	pick, direction := "min", "DESC"
	if v.Ascending {
		pick, direction = "max", "ASC"
	}
	want := v.offset + v.limit + 1
	q := &statement{}
	query := `SELECT count(*), coalesce(` + pick + `(id), 0), coalesce(` + pick + `(created_at), 0) FROM (SELECT c.id, c.created_at FROM ` + v.foundSQLite(q) +
		` ORDER BY certificate_search.rowid ` + direction + ` LIMIT ` + q.arg(want) + `) AS first`
	var n int
	var id, created int64
	if err := s.db.QueryRowContext(ctx, query, q.args...).Scan(&n, &id, &created); err != nil {
		return nil, err
	}
	q = &statement{}
	from := v.foundSQLite(q)
	if n == want {
		block, err := s.lastBlock(ctx, v, id/blockIDs, created)
		if err != nil {
			return nil, err
		}
		if v.Ascending {
			from += ` AND certificate_search.rowid < ` + q.arg((block+1)*blockIDs) + ` AND c.created_at <= ` + q.arg(created)
		} else {
			from += ` AND certificate_search.rowid >= ` + q.arg(block*blockIDs) + ` AND c.created_at >= ` + q.arg(created)
		}
	}
	items, _, err = s.fetch(ctx, v, q, v.sorted(q, from))
	return items, err
}

// lastBlock returns the last block of ids in which the institution has a record up to a time of creation. The
// parameter first is the first block to consider. "Last", "up to" and "after" refer to the order of the list.
func (s *Service) lastBlock(ctx context.Context, v *view, first, created int64) (block int64, err error) {
	query := `WITH RECURSIVE block (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM block WHERE n < $1)
		SELECT coalesce(min(n), $1) FROM block
		WHERE (SELECT max(created_at) FROM certificates WHERE institution_id = $3 AND id / 1024 = n) >= $2`
	if v.Ascending {
		query = `WITH RECURSIVE block (n) AS (SELECT $1 UNION ALL SELECT n + 1 FROM block WHERE n < (SELECT max(id) / 1024 FROM certificates))
			SELECT coalesce(max(n), $1) FROM block
			WHERE (SELECT min(created_at) FROM certificates WHERE institution_id = $3 AND id / 1024 = n) <= $2`
	}
	err = s.db.QueryRowContext(ctx, query, first, created, v.InstitutionID).Scan(&block)
	return block, err
}
