package template

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// blobColumns are the columns that contain keys of files.
var blobColumns = []struct{ table, column string }{
	{"template_versions", "design_key"}, {"template_versions", "base_key"}, {"institution_fonts", "font_key"}, {"template_pictures", "picture_key"},
}

// ReferencedBlobs returns those of the keys to which versions, fonts and pictures refer. It is a
// deletion.References. A batch gets the key of a base from a version, so ReferencedBlobs must be called
// before batch.ReferencedBlobs.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	query, arg, err := referencedQuery(d, keys)
	if err != nil {
		return nil, err
	}
	found, err := db.Column[string](d.QueryContext(ctx, query, arg))
	if err != nil {
		return nil, fmt.Errorf("finding the files of templates: %w", err)
	}
	return found, nil
}

func referencedQuery(d *db.DB, keys []string) (query string, arg any, err error) {
	for i, c := range blobColumns {
		condition, value, err := d.OneOf(c.column, 1, keys)
		if err != nil {
			return "", nil, err
		}
		if i > 0 {
			query += ` UNION ALL `
		}
		query, arg = query+`SELECT `+c.column+` FROM `+c.table+` WHERE `+condition, value
	}
	return query, arg, nil
}

// BlobKeys calls visit once for each key to which versions, fonts and pictures refer, until visit returns
// an error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	for _, c := range blobColumns {
		query := `SELECT DISTINCT ` + c.column + ` FROM ` + c.table + ` WHERE ` + c.column + ` > $1 ORDER BY 1 LIMIT $2`
		if err := db.Ascend(ctx, q, query, visit); err != nil {
			return fmt.Errorf("listing the files of templates: %w", err)
		}
	}
	return nil
}
