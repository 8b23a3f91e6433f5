package search

import (
	"context"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/cert"
)

const (
	// minSubstring is from how many letters and digits on a search looks within
	// words and not at their beginnings alone.
	minSubstring = 3
	// fewTrigrams and maxTrigrams are how many trigrams of a search are looked up
	// in SQLite's index, the more the longer it is. Each reads the list of all
	// records that have it, and the text itself decides, so that a few are best.
	fewTrigrams, maxTrigrams = 4, 10
	// blockIDs is how many ids one block of certificates_block_idx spans.
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

// sought is the text that a search looks for: where it is short, with the space
// that begins a word.
func sought(search string) string {
	if letters(search) < minSubstring {
		return " " + search
	}
	return search
}

// like compares a column with what is sought; % and _ are plain characters.
func like(column string, q *statement, search string) string {
	return column + ` LIKE ` + q.arg(pattern(search)) + ` ESCAPE '\'`
}

func pattern(search string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(sought(search)) + "%"
}

// Pattern gives what a search for a text compares search_text with, by LIKE with
// the backslash as ESCAPE: in lists so short that they need no index.
func Pattern(text string) string { return pattern(cert.FoldText(text)) }

// foundPostgres writes FROM and WHERE of what is selected by the trigrams that
// PostgreSQL takes out of the pattern itself.
func (v *view) foundPostgres(q *statement) string {
	if v.searched() {
		return `certificate_search c WHERE ` + and(v.searchEntry(q, "c"), v.behind(q))
	}
	rest := *v
	rest.Search = ""
	return `certificate_search d CROSS JOIN certificates c WHERE ` + and(v.searchEntry(q, "d")) + ` AND c.id = d.id AND ` + and(v.base(q), rest.filters(q), v.behind(q))
}

// searched says that the table of the search holds all that is asked.
func (v *view) searched() bool {
	return v.alone(waySearch) && v.Sort == ByCreated && len(v.Statuses) == 0
}

// searchEntry selects in the search's table.
func (v *view) searchEntry(q *statement, table string) []string {
	return []string{table + ".institution_id = " + q.arg(v.InstitutionID), like(table+".text", q, v.Search), in(q, table+".source", v.ofSources())}
}

// foundSQLite writes the same by the index of trigrams, which knows which
// records have them all, and by the text of those.
func (v *view) foundSQLite(q *statement) string {
	return `certificate_search CROSS JOIN certificates c WHERE certificate_search MATCH ` + q.arg(match(v.InstitutionID, v.most, v.Search)) +
		` AND c.id = certificate_search.rowid AND ` + and(v.base(q), v.filters(q), v.behind(q))
}

// match is the query for SQLite's index of trigrams: trigrams of what is
// sought, its white space doubled, and the institution's own, as the migration
// that made the index writes it, unless nearly all records are its.
func match(institutionID int64, most bool, search string) string {
	text := []rune(strings.ReplaceAll(sought(search), " ", "  "))
	last := len(text) - 3
	n := min(last+1, maxTrigrams, fewTrigrams+last/8)
	var terms []string
	for i := range n {
		at := last
		if n > 1 {
			at = i * last / (n - 1)
		}
		terms = append(terms, string(text[at:at+3]))
	}
	if !most {
		letter := func(n int64) rune { return rune(0xA000 + n%1000) }
		terms = append(terms, string([]rune{letter(institutionID / 1_000_000), letter(institutionID / 1000), letter(institutionID)}))
	}
	for i, t := range terms {
		terms[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
	}
	return strings.Join(terms, " AND ")
}

// newest gives a part of the records that SQLite's index of trigrams finds, in
// the order of their creation. The index gives them by id, which is nearly the
// same: so the ids beyond which none can belong to the part are worked out from
// the newest and oldest of each block of ids, and what lies within is sorted.
func (s *Service) newest(ctx context.Context, v *view, want int) ([]item, error) {
	pick, direction := "min", "DESC"
	if v.Ascending {
		pick, direction = "max", "ASC"
	}
	q := &statement{}
	var n int
	var id, created int64
	if err := s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(`+pick+`(id), 0), coalesce(`+pick+`(created_at), 0) FROM (SELECT c.id, c.created_at FROM `+
		v.foundSQLite(q)+` ORDER BY certificate_search.rowid `+direction+` LIMIT `+q.arg(want)+`) AS first`, q.args...).Scan(&n, &id, &created); err != nil {
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
	items, _, err := s.fetch(ctx, v, q, v.sorted(q, from))
	return items, err
}

// lastBlock gives the block of ids farthest from where a list begins in which
// the institution still has a record as new as created, or as old when the
// oldest come first. Near is a block of which that is known.
func (s *Service) lastBlock(ctx context.Context, v *view, near, created int64) (block int64, err error) {
	query := `WITH RECURSIVE block (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM block WHERE n < $1)
		SELECT coalesce(min(n), $1) FROM block
		WHERE (SELECT max(created_at) FROM certificates WHERE institution_id = $3 AND id / 1024 = n) >= $2`
	if v.Ascending {
		query = `WITH RECURSIVE block (n) AS (SELECT $1 UNION ALL SELECT n + 1 FROM block WHERE n < (SELECT max(id) / 1024 FROM certificates))
			SELECT coalesce(max(n), $1) FROM block
			WHERE (SELECT min(created_at) FROM certificates WHERE institution_id = $3 AND id / 1024 = n) <= $2`
	}
	err = s.db.QueryRowContext(ctx, query, near, created, v.InstitutionID).Scan(&block)
	return block, err
}
