package cert

import (
	"context"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
)

// ArchiveKind is the suffix of the key of an archive of originals. Only rows of package bulkimport refer
// to archives.
const ArchiveKind = "archive"

// These are the suffixes of the keys of files of templates to which certificates do not refer: designs,
// uploaded fonts and pictures.
const (
	DesignKind  = "design"
	FontKind    = "font"
	PictureKind = "picture"
)

// AttachmentKind is the suffix of the key of an attachment of an application. Only rows of package
// application refer to attachments.
const AttachmentKind = "attachment"

// otherKinds are the kinds of files to which only rows of other packages refer.
var otherKinds = []string{ArchiveKind, DesignKind, FontKind, PictureKind, AttachmentKind}

// BaseKind is the suffix of the key of the base of a template. All certificates that are made from
// one version of the template refer to its base.
const BaseKind = "base"

// blobColumns maps each kind of file to the column of certificates that has the keys of these files.
var blobColumns = map[string]string{"original": "original_key", BaseKind: "original_key", "verified": "tail_key", "image": "image_key"}

// ReferencedBlobs returns those of the keys to which certificates refer. It also returns the keys of unknown
// kinds, because a later release may have written these files. It is a deletion.References. Its look-up must
// come after the look-up of package batch, because a certificate gets the key of its staged file or batch.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	var found []string
	kinds := map[string][]string{}
	for _, key := range keys {
		kind := deletion.Kind(key)
		if slices.Contains(otherKinds, kind) {
			continue
		}
		if _, known := blobColumns[kind]; !known {
			found = append(found, key)
			continue
		}
		if kind == BaseKind {
			kind = "original" // both are in the same column
		}
		kinds[kind] = append(kinds[kind], key)
	}
	query, args, err := referencedQuery(d, kinds)
	if err != nil {
		return nil, err
	}
	referenced, err := db.Column[string](d.QueryContext(ctx, query, args...))
	if err != nil {
		return nil, fmt.Errorf("finding the certificates of files: %w", err)
	}
	return append(found, referenced...), nil
}

// referencedQuery returns the query for those keys of each kind to which certificates refer.
func referencedQuery(d *db.DB, kinds map[string][]string) (query string, args []any, err error) {
	for i, kind := range []string{"original", "verified", "image"} {
		// A nil list would be encoded as null.
		condition, arg, err := d.OneOf(blobColumns[kind], i+1, append([]string{}, kinds[kind]...))
		if err != nil {
			return "", nil, err
		}
		if i > 0 {
			query += ` UNION ALL `
		}
		query += `SELECT ` + blobColumns[kind] + ` FROM certificates WHERE ` + condition
		args = append(args, arg)
	}
	return query, args, nil
}

// BlobKeys calls visit for the key of each file to which a certificate refers, once for each key,
// until visit returns an error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	for _, kind := range []string{"original", "verified", "image"} {
		if err := db.Ascend(ctx, q, keysQuery(blobColumns[kind]), visit); err != nil {
			return fmt.Errorf("listing the files of certificates: %w", err)
		}
	}
	return nil
}

// keysQuery returns the query for the next keys in a column.
func keysQuery(column string) string {
	return `SELECT DISTINCT ` + column + ` FROM certificates WHERE ` + column + ` > $1 ORDER BY 1 LIMIT $2`
}
