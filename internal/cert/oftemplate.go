package cert

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/db"
)

// SingleOfTemplates returns the numbers of certificates that were made from versions of templates and
// belong to no batch. A version without such certificates is not in the result.
func SingleOfTemplates(ctx context.Context, q db.Queryer, institutionID int64, versionIDs []int64) (map[int64]int, error) {
	const atOnce = 500
	counts := map[int64]int{}
	for some := range slices.Chunk(versionIDs, atOnce) {
		args := []any{institutionID}
		for _, id := range some {
			args = append(args, id)
		}
		rows, err := q.QueryContext(ctx, `
			SELECT template_version_id, count(*) FROM certificates WHERE institution_id = $1 AND batch_id IS NULL AND template_version_id IS NOT NULL
				AND template_version_id IN (`+db.Placeholders(2, len(some))+`) GROUP BY template_version_id`, args...)
		if err != nil {
			return nil, fmt.Errorf("counting the certificates of templates: %w", err)
		}
		if _, err := db.Collect(rows, func(rows *sql.Rows) (id int64, err error) {
			var n int
			err = rows.Scan(&id, &n)
			counts[id] = n
			return id, err
		}); err != nil {
			return nil, fmt.Errorf("counting the certificates of templates: %w", err)
		}
	}
	return counts, nil
}
