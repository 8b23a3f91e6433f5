package cert

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// SingleOfTemplates counts, for each version of a template, the certificates that were made from it and are
// not in a batch. The keys of the result are the ids of the versions. A version without such certificates is
// not in the result.
func SingleOfTemplates(ctx context.Context, q db.Queryer, institutionID int64, versionIDs []int64) (map[int64]int, error) {
	counts, err := db.ByID(ctx, q, institutionID, versionIDs, func(list string) string {
		return `SELECT template_version_id, count(*) FROM certificates WHERE institution_id = $1 AND batch_id IS NULL AND template_version_id IS NOT NULL
			AND template_version_id IN (` + list + `) GROUP BY template_version_id`
	}, db.ScanCount)
	if err != nil {
		return nil, fmt.Errorf("counting the certificates of templates: %w", err)
	}
	return counts, nil
}
