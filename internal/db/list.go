package db

import (
	"database/sql"
	"errors"
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
