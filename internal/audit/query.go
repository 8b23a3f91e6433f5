package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// countLimit is the maximum number of entries that are counted for each term, to find the most
// selective field of a filter.
const countLimit = 20_000

// term is a column and a value that a filter matches. Each column has an index
// in the order of the log.
type term struct{ column, value string }

// conditions returns the terms of each field of the filter that is set. An entry matches a field if
// it matches any of the field's terms.
func (f *Filter) conditions() (list [][]term) {
	if subject := fold(f.Subject); subject != "" {
		list = append(list, []term{{"subject_id", subject}, {"subject_folded", subject}})
	}
	if f.Action != "" {
		terms := []term{}
		for i := range Actions {
			name := string(Actions[i].Action)
			if name == f.Action || strings.HasPrefix(name, f.Action+".") {
				terms = append(terms, term{"action", name})
			}
		}
		list = append(list, terms)
	}
	if actor := fold(f.Actor); actor != "" {
		list = append(list, []term{{"actor_id", actor}, {"actor_folded", actor}, {"actor_type", actor}})
	}
	return list
}

// statement collects the arguments of an SQL statement.
type statement struct{ args []any }

func (q *statement) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// filterCondition returns the SQL condition for the entries that match a filter. The condition uses
// the indexes of the most selective field of the filter: it reads at most as many entries as the
// page requires for each term of this field, and selects the first entries of the union.
func (l *Log) filterCondition(ctx context.Context, q *statement, institutionID int64, f Filter, from *mark, back bool, limit int) (string, error) {
	conditions := f.conditions()
	selective, err := l.mostSelective(ctx, institutionID, conditions)
	if err != nil {
		return "", err
	}
	order, comparison := " ORDER BY at DESC, id DESC", "<"
	if back {
		order, comparison = " ORDER BY at, id", ">"
	}
	order += " LIMIT " + q.arg(limit)
	others := []string{f.timeBounds(q)}
	for i, terms := range conditions {
		if i != selective {
			others = append(others, anyTerm(q, terms))
		}
	}
	if from != nil {
		others = append(others, "(at, id) "+comparison+" ("+q.arg(from.at)+", "+q.arg(from.id)+")")
	}
	if len(conditions) == 0 {
		return ofInstitution(q, institutionID) + strings.Join(others, " AND ") + order, nil
	}
	var branches []string
	for _, t := range conditions[selective] {
		branches = append(branches, `SELECT id, at FROM (SELECT id, at FROM audit_entries WHERE `+ofInstitution(q, institutionID)+t.column+" = "+q.arg(t.value)+" AND "+
			strings.Join(others, " AND ")+order+`) AS branch`)
	}
	if len(branches) == 0 {
		q.args = nil // the action does not exist
		return "1 = 0", nil
	}
	return `id IN (SELECT id FROM (` + strings.Join(branches, ` UNION `) + `) AS branches` + order + `)` + order, nil
}

// mostSelective returns the index of the field whose terms match the fewest entries.
func (l *Log) mostSelective(ctx context.Context, institutionID int64, conditions [][]term) (index int, err error) {
	if len(conditions) < 2 {
		return 0, nil
	}
	fewest := -1
	for i, terms := range conditions {
		sum := 0
		for _, t := range terms {
			q := &statement{}
			query := `SELECT count(*) FROM (SELECT 1 FROM audit_entries WHERE ` + ofInstitution(q, institutionID) + t.column + " = " + q.arg(t.value) +
				` LIMIT ` + q.arg(countLimit) + `) AS counted`
			var n int
			if err := l.db.QueryRowContext(ctx, query, q.args...).Scan(&n); err != nil {
				return 0, fmt.Errorf("counting entries of the audit log: %w", err)
			}
			sum += n
		}
		if fewest < 0 || sum < fewest {
			index, fewest = i, sum
		}
	}
	return index, nil
}

// ofInstitution returns the condition for the institution.
func ofInstitution(q *statement, institutionID int64) string {
	if institutionID == 0 {
		return "institution_id IS NULL AND "
	}
	return "institution_id = " + q.arg(institutionID) + " AND "
}

// anyTerm returns the condition that an entry matches one of the terms. The database cannot use an
// index for this form of the condition.
func anyTerm(q *statement, condition []term) string {
	if len(condition) == 0 {
		return "1 = 0"
	}
	var terms []string
	for _, t := range condition {
		terms = append(terms, t.column+" || '' = "+q.arg(t.value))
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// timeBounds returns the condition for the time.
func (f *Filter) timeBounds(q *statement) string {
	bounds := "1 = 1"
	if !f.From.IsZero() {
		bounds += " AND at >= " + q.arg(db.Micros(f.From))
	}
	if !f.To.IsZero() {
		bounds += " AND at < " + q.arg(db.Micros(f.To))
	}
	return bounds
}
