package batch

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// ReferencedBlobs returns those of the keys to which staged files or batches with queued entries refer.
// It is a deletion.References. A certificate can refer to the same key, because it has the file of its
// entry or the base of its batch.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	staged, arg, err := d.OneOf("original_key", 1, keys)
	if err != nil {
		return nil, err
	}
	based, _, err := d.OneOf("base_key", 1, keys)
	if err != nil {
		return nil, err
	}
	found, err := db.Column[string](d.QueryContext(ctx, referencedQuery(staged, based), arg))
	if err != nil {
		return nil, fmt.Errorf("finding staged files and bases: %w", err)
	}
	return found, nil
}

// referencedQuery returns the query of ReferencedBlobs. A batch from a template refers to the base
// of the template until all its certificates exist and refer to the base themselves.
func referencedQuery(staged, based string) string {
	return `SELECT original_key FROM staged_files WHERE ` + staged +
		` UNION ALL SELECT base_key FROM batches WHERE base_key IS NOT NULL AND NOT expanded AND ` + based
}

// BlobKeys calls visit for the key of each staged file, and of the base of each batch with queued
// entries, once for each key, until visit returns an error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	for _, query := range []string{
		`SELECT DISTINCT original_key FROM staged_files WHERE original_key > $1 ORDER BY 1 LIMIT $2`,
		`SELECT DISTINCT base_key FROM batches WHERE base_key > $1 AND base_key IS NOT NULL AND NOT expanded ORDER BY 1 LIMIT $2`,
	} {
		if err := db.Ascend(ctx, q, query, visit); err != nil {
			return fmt.Errorf("listing staged files and bases: %w", err)
		}
	}
	return nil
}
