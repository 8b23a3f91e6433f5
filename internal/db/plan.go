package db

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// listMode sends a statement without a name, so that PostgreSQL plans it for the values of this execution.
// A plan for all values estimates what a search or a range finds without knowing the values: a search took
// 320 ms with such a plan, and 1 ms with a plan for its value.
const listMode = pgx.QueryExecModeCacheDescribe

// listWords are in the texts of statements that search, sort, count or limit.
var listWords = []string{"LIKE", "BETWEEN", "ORDER BY", "GROUP BY", "LIMIT", "count(", "sum(", "min(", "max("}

// planned returns the arguments of a query outside a transaction. On PostgreSQL, those of a list begin with
// listMode. Queries for single records, and the statements of transactions, which find their rows by keys,
// keep their plans, because planning them takes longer than running them.
func (d *DB) planned(query string, args []any) []any {
	isList := func(word string) bool { return strings.Contains(query, word) }
	if d.Dialect != PostgreSQL || len(args) == 0 || !slices.ContainsFunc(listWords, isList) {
		return args
	}
	return append([]any{listMode}, args...)
}
