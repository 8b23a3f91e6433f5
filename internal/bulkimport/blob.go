package bulkimport

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// ReferencedBlobs returns those of the keys that belong to archives that are not unpacked yet. It
// implements deletion.References.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	condition, arg, err := d.OneOf("blob_key", 2, keys)
	if err != nil {
		return nil, err
	}
	found, err := db.Column[string](d.QueryContext(ctx, referencedQuery+condition, string(unpacking), arg))
	if err != nil {
		return nil, fmt.Errorf("finding archives: %w", err)
	}
	return found, nil
}

const referencedQuery = `SELECT blob_key FROM bulk_import_archives WHERE status = $1 AND `

// BlobKeys calls visit once for each key of an archive that is not unpacked yet, until visit returns an
// error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	if err := db.Ascend(ctx, q, `
		SELECT DISTINCT blob_key FROM bulk_import_archives WHERE blob_key > $1 AND status = 'unpacking' ORDER BY 1 LIMIT $2`, visit); err != nil {
		return fmt.Errorf("listing archives: %w", err)
	}
	return nil
}
