package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// countLimit is the maximum number of entries that are counted for each term, to find the most
// selective field of a filter.
const countLimit = 20_000

// PartialEntries is the maximum number of entries that are searched for a part of a name. These are the
// newest entries of the log between the times of the filter. No index contains the parts of names, so the
// number bounds the work of a page. A whole name, an id and a type are found in the whole log.
const PartialEntries = 20_000

// bound returns an SQL condition that limits a search to the newest entries. The condition begins with AND,
// and is "" if the search is not limited.
type bound func(q *statement) string

// term is a column and a value that a filter matches. Each column has an index. If part
// is set, the value is a part of the column, and no index of the column is used.
type term struct {
	column, value string
	part          bool
}

// condition returns the SQL condition that an entry matches the term. If indexed is false, the condition has
// a form for which the database cannot use an index.
func (t term) condition(q *statement, newest bound, indexed bool) string {
	switch {
	case t.part:
		return t.column + " LIKE " + q.arg("%"+db.EscapeLike(t.value)+"%") + ` ESCAPE '\'` + newest(q)
	case indexed:
		return t.column + " = " + q.arg(t.value)
	}
	return t.column + " || '' = " + q.arg(t.value)
}

// conditions returns the terms of each of the fields Subject, Action and Actor that is set. An entry
// matches a field if it matches any of the field's terms.
func (f *Filter) conditions() (list [][]term) {
	if subject := fold(f.Subject); subject != "" {
		list = append(list, []term{{"subject_id", subject, false}, {"subject_folded", subject, false}, {"subject_folded", subject, true}})
	}
	if f.Action != "" {
		terms := []term{}
		for i := range Actions {
			name := string(Actions[i].Action)
			if name == f.Action || strings.HasPrefix(name, f.Action+".") {
				terms = append(terms, term{"action", name, false})
			}
		}
		list = append(list, terms)
	}
	if actor := fold(f.Actor); actor != "" {
		list = append(list, []term{{"actor_id", actor, false}, {"actor_folded", actor, false}, {"actor_type", actor, false}, {"actor_folded", actor, true}})
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
// the indexes of the most selective field of the filter. It selects at most limit entries for each term
// of this field, and then the first limit entries of the union.
func (l *Log) filterCondition(ctx context.Context, q *statement, institutionID int64, f Filter, from *mark, back bool, limit int) (string, error) {
	conditions := f.conditions()
	newest, err := l.newest(ctx, institutionID, f, conditions)
	if err != nil {
		return "", err
	}
	selective, err := l.mostSelective(ctx, institutionID, conditions, newest)
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
			others = append(others, anyTerm(q, terms, newest))
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
		branches = append(branches, `SELECT id, at FROM (SELECT id, at FROM audit_entries WHERE `+ofInstitution(q, institutionID)+t.condition(q, newest, true)+" AND "+
			strings.Join(others, " AND ")+order+`) AS branch`)
	}
	if len(branches) == 0 {
		q.args = nil // the action does not exist
		return "1 = 0", nil
	}
	return `id IN (SELECT id FROM (` + strings.Join(branches, ` UNION `) + `) AS branches` + order + `)` + order, nil
}

// newest returns the bound for terms that match a part of a name: the newest PartialEntries entries
// between the times of the filter.
func (l *Log) newest(ctx context.Context, institutionID int64, f Filter, conditions [][]term) (bound, error) {
	none := func(*statement) string { return "" }
	if !slices.ContainsFunc(conditions, func(terms []term) bool { return slices.ContainsFunc(terms, func(t term) bool { return t.part }) }) {
		return none, nil
	}
	q := &statement{}
	query := `SELECT at, id FROM audit_entries WHERE ` + ofInstitution(q, institutionID) + f.timeBounds(q) +
		` ORDER BY at DESC, id DESC LIMIT 1 OFFSET ` + q.arg(PartialEntries)
	var first mark
	err := l.db.QueryRowContext(ctx, query, q.args...).Scan(&first.at, &first.id)
	if errors.Is(err, sql.ErrNoRows) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding the newest entries of the audit log: %w", err)
	}
	return func(q *statement) string { return " AND (at, id) > (" + q.arg(first.at) + ", " + q.arg(first.id) + ")" }, nil
}

// mostSelective returns the index of the field whose terms match the fewest entries. It counts at most
// countLimit entries for each term.
func (l *Log) mostSelective(ctx context.Context, institutionID int64, conditions [][]term, newest bound) (index int, err error) {
	if len(conditions) < 2 {
		return 0, nil
	}
	fewest := -1
	for i, terms := range conditions {
		sum := 0
		for _, t := range terms {
			q := &statement{}
			query := `SELECT count(*) FROM (SELECT 1 FROM audit_entries WHERE ` + ofInstitution(q, institutionID) + t.condition(q, newest, true) +
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

// ofInstitution returns the condition for the institution, followed by AND.
func ofInstitution(q *statement, institutionID int64) string {
	if institutionID == 0 {
		return "institution_id IS NULL AND "
	}
	return "institution_id = " + q.arg(institutionID) + " AND "
}

// anyTerm returns the condition that an entry matches one of the terms. The database cannot use an
// index for this form of the condition.
func anyTerm(q *statement, condition []term, newest bound) string {
	if len(condition) == 0 {
		return "1 = 0"
	}
	var terms []string
	for _, t := range condition {
		terms = append(terms, t.condition(q, newest, false))
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// timeBounds returns the condition for the times From and To.
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
