package batch

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// ReferencedBlobs returns those of the keys to which staged files refer. It is a
// deletion.References. The certificate of an entry refers to the same key as the staged file of the
// entry.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	condition, arg, err := d.OneOf("original_key", 1, keys)
	if err != nil {
		return nil, err
	}
	found, err := db.Column[string](d.QueryContext(ctx, referencedQuery+condition, arg))
	if err != nil {
		return nil, fmt.Errorf("finding staged files: %w", err)
	}
	return found, nil
}

const referencedQuery = `SELECT original_key FROM staged_files WHERE `

// BlobKeys calls visit for the key of each staged file, once for each key, until visit returns an
// error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	if err := db.Ascend(ctx, q, `SELECT DISTINCT original_key FROM staged_files WHERE original_key > $1 ORDER BY 1 LIMIT $2`, visit); err != nil {
		return fmt.Errorf("listing staged files: %w", err)
	}
	return nil
}
