package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Placeholders returns a list of n placeholders, the first of which is $from.
func Placeholders(from, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(from + i))
	}
	return b.String()
}

// OneOf returns the condition that a column has one of the values, with the placeholder $n, and the
// argument of the placeholder. The condition is the same for any number of values, so that the
// statement stays prepared.
func (d *DB) OneOf(column string, n int, values []string) (condition string, arg any, err error) {
	if d.Dialect == PostgreSQL {
		return fmt.Sprintf("%s = ANY($%d)", column, n), values, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the values of a column: %w", err)
	}
	return fmt.Sprintf("%s IN (SELECT value FROM json_each($%d))", column, n), string(text), nil
}

// valuesAtOnce is the number of values that Ascend reads at once.
const valuesAtOnce = 1000

// Ascend calls visit for each value of a query, until visit returns an error. It reads the values in pages:
// the query must return at most $2 values of one text column that are greater than $1, in ascending order
// and without repetition.
func Ascend(ctx context.Context, q Queryer, query string, visit func(value string) error) error {
	for after := ""; ; {
		page, err := Column[string](q.QueryContext(ctx, query, after, valuesAtOnce))
		if err != nil {
			return err
		}
		for _, value := range page {
			if err := visit(value); err != nil {
				return err
			}
		}
		if len(page) < valuesAtOnce {
			return nil
		}
		after = page[len(page)-1]
	}
}

// Column returns the values of a query with one column. Its parameters are the results of
// QueryContext.
func Column[T any](rows *sql.Rows, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return Collect(rows, func(rows *sql.Rows) (value T, err error) {
		err = rows.Scan(&value)
		return value, err
	})
}

// idsAtOnce is the number of ids in one statement of ByID.
const idsAtOnce = 500

// ByID maps the ids of rows to the values that a query returns for them. query returns the statement for a
// list of placeholders; $1 is the institution and the other placeholders are ids. An id without a row is not
// in the result.
func ByID[V any](
	ctx context.Context, q Queryer, institutionID int64, ids []int64, query func(list string) string, scan func(*sql.Rows) (int64, V, error),
) (map[int64]V, error) {
	found := map[int64]V{}
	for some := range slices.Chunk(ids, idsAtOnce) {
		args := []any{institutionID}
		for _, id := range some {
			args = append(args, id)
		}
		rows, err := q.QueryContext(ctx, query(Placeholders(len(args)-len(some)+1, len(some))), args...)
		if err != nil {
			return nil, err
		}
		if _, err := Collect(rows, func(rows *sql.Rows) (struct{}, error) {
			id, value, err := scan(rows)
			found[id] = value
			return struct{}{}, err
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ScanCount scans a row of an id and a number, for ByID.
func ScanCount(rows *sql.Rows) (id int64, n int, err error) {
	err = rows.Scan(&id, &n)
	return id, n, err
}

var likeEscape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// EscapeLike escapes the characters of a text that have a special meaning in a LIKE pattern with ESCAPE '\'.
func EscapeLike(text string) string { return likeEscape.Replace(text) }

// Collect reads all rows with scan and closes rows.
func Collect[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, rows.Err()
}
