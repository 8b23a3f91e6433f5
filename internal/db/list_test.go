package db_test

import (
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{"": db.Placeholders(1, 0), "$1": db.Placeholders(1, 1), "$9, $10, $11": db.Placeholders(9, 3)} {
		if got != want {
			t.Errorf("Placeholders = %q, want %q", got, want)
		}
	}
}

func TestColumn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		numbers, err := db.Column[int64](d.QueryContext(t.Context(), `SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 ORDER BY n`))
		if err != nil || !slices.Equal(numbers, []int64{1, 2, 3}) {
			t.Errorf("Column = %v, %v, want [1 2 3]", numbers, err)
		}
		texts, err := db.Column[string](d.QueryContext(t.Context(), `SELECT 'a' WHERE 1 = 2`))
		if err != nil || len(texts) != 0 {
			t.Errorf("Column of an empty result = %v, %v, want no values", texts, err)
		}
		if _, err := db.Column[int64](d.QueryContext(t.Context(), `SELECT 'a'`)); err == nil {
			t.Error("Column[int64] of a text returned no error")
		}
		if _, err := db.Column[int64](nil, sql.ErrConnDone); !errors.Is(err, sql.ErrConnDone) {
			t.Errorf("error = %v, want the error of the query", err)
		}
	})
}
