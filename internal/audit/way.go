package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// countedWays is how far entries are counted to find the most selective of
// several filters.
const countedWays = 20_000

// term is a column and a value that a filter matches. Each column has an index
// in the order of the log.
type term struct{ column, value string }

// ways returns the terms of each filter that is set; an entry matches a filter
// if it matches any of its terms.
func (f *Filter) ways() (ways [][]term) {
	if subject := fold(f.Subject); subject != "" {
		ways = append(ways, []term{{"subject_id", subject}, {"subject_folded", subject}})
	}
	if f.Action != "" {
		way := []term{}
		for i := range Actions {
			name := string(Actions[i].Action)
			if name == f.Action || strings.HasPrefix(name, f.Action+".") {
				way = append(way, term{"action", name})
			}
		}
		ways = append(ways, way)
	}
	if actor := fold(f.Actor); actor != "" {
		ways = append(ways, []term{{"actor_id", actor}, {"actor_folded", actor}, {"actor_type", actor}})
	}
	return ways
}

// statement is SQL with its arguments.
type statement struct{ args []any }

func (q *statement) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// chosen writes the condition for the entries that match a filter. It reads the
// terms of the most selective filter, each by its own index and only as far as
// the page needs, and takes the first entries of their union.
func (l *Log) chosen(ctx context.Context, q *statement, institutionID int64, f Filter, from *mark, back bool, limit int) (string, error) {
	ways := f.ways()
	by, err := l.narrowest(ctx, institutionID, ways)
	if err != nil {
		return "", err
	}
	order, beyond := " ORDER BY at DESC, id DESC", "<"
	if back {
		order, beyond = " ORDER BY at, id", ">"
	}
	order += " LIMIT " + q.arg(limit)
	rest := []string{f.times(q)}
	for i, way := range ways {
		if i != by {
			rest = append(rest, among(q, way))
		}
	}
	if from != nil {
		rest = append(rest, "(at, id) "+beyond+" ("+q.arg(from.at)+", "+q.arg(from.id)+")")
	}
	if len(ways) == 0 {
		return of(q, institutionID) + strings.Join(rest, " AND ") + order, nil
	}
	var arms []string
	for _, t := range ways[by] {
		arms = append(arms, `SELECT id, at FROM (SELECT id, at FROM audit_entries WHERE `+of(q, institutionID)+t.column+" = "+q.arg(t.value)+" AND "+
			strings.Join(rest, " AND ")+order+`) AS arm`)
	}
	if len(arms) == 0 {
		q.args = nil // the action does not exist
		return "1 = 0", nil
	}
	return `id IN (SELECT id FROM (` + strings.Join(arms, ` UNION `) + `) AS arms` + order + `)` + order, nil
}

// narrowest returns the index of the filter that has the fewest entries.
func (l *Log) narrowest(ctx context.Context, institutionID int64, ways [][]term) (best int, err error) {
	if len(ways) < 2 {
		return 0, nil
	}
	least := -1
	for i, way := range ways {
		sum := 0
		for _, t := range way {
			q := &statement{}
			query := `SELECT count(*) FROM (SELECT 1 FROM audit_entries WHERE ` + of(q, institutionID) + t.column + " = " + q.arg(t.value) +
				` LIMIT ` + q.arg(countedWays) + `) AS counted`
			var n int
			if err := l.db.QueryRowContext(ctx, query, q.args...).Scan(&n); err != nil {
				return 0, fmt.Errorf("counting entries of the audit log: %w", err)
			}
			sum += n
		}
		if least < 0 || sum < least {
			best, least = i, sum
		}
	}
	return best, nil
}

// of writes the condition on the institution.
func of(q *statement, institutionID int64) string {
	if institutionID == 0 {
		return "institution_id IS NULL AND "
	}
	return "institution_id = " + q.arg(institutionID) + " AND "
}

// among writes the condition that an entry matches one of the terms, in a form
// for which no index is used.
func among(q *statement, way []term) string {
	if len(way) == 0 {
		return "1 = 0"
	}
	var terms []string
	for _, t := range way {
		terms = append(terms, t.column+" || '' = "+q.arg(t.value))
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// times writes the bounds of time.
func (f *Filter) times(q *statement) string {
	bounds := "1 = 1"
	if !f.From.IsZero() {
		bounds += " AND at >= " + q.arg(db.Micros(f.From))
	}
	if !f.To.IsZero() {
		bounds += " AND at < " + q.arg(db.Micros(f.To))
	}
	return bounds
}
