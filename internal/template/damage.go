package template

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

// Damage is a stored file of templates that is missing, cannot be read or differs from its digest.
type Damage struct {
	// File is the name of the file for an operator, such as "template Diploma, version 2".
	File string
	// Problem describes the damage and its effect.
	Problem string
}

// storedFile is a file with the digest that it must have. A design has no digest.
type storedFile struct {
	what, effect, key string
	digest            []byte
}

// fileQueries select the files of templates. The columns are the two arguments of the format what, the key
// and the digest.
var fileQueries = []struct{ what, effect, query string }{
	{"template %s, version %d", "certificates of this version that are not approved cannot be drawn, and those that are approved are damaged", `
		SELECT t.name, v.number, v.base_key, v.base_sha256 FROM template_versions v JOIN templates t ON t.id = v.template_id WHERE v.base_key IS NOT NULL ORDER BY v.id`},
	{"design of the template %s, version %d", "the template cannot be changed", `
		SELECT t.name, v.number, v.design_key, NULL FROM template_versions v JOIN templates t ON t.id = v.template_id WHERE v.state <> 'retired' ORDER BY v.id`},
	{"font %s of the institution %d", "certificates with this font cannot be drawn", `
		SELECT file_name, institution_id, font_key, sha256 FROM institution_fonts ORDER BY institution_id, created_at`},
	{"picture %s of the institution %d", "templates with this picture cannot be published", `
		SELECT picture_key, institution_id, picture_key, sha256 FROM template_pictures ORDER BY institution_id, created_at`},
}

// CheckFiles reads all files of templates, except the designs of retired versions, and compares them with
// their digests. It calls f for each Damage.
func CheckFiles(ctx context.Context, d *db.DB, blobs blob.Store, f func(Damage)) error {
	for _, q := range fileQueries {
		rows, err := d.QueryContext(ctx, q.query)
		if err != nil {
			return fmt.Errorf("listing the files of templates: %w", err)
		}
		list, err := db.Collect(rows, func(rows *sql.Rows) (storedFile, error) {
			var name string
			var number int64
			file := storedFile{effect: q.effect}
			err := rows.Scan(&name, &number, &file.key, &file.digest)
			file.what = fmt.Sprintf(q.what, name, number)
			return file, err
		})
		if err != nil {
			return fmt.Errorf("listing the files of templates: %w", err)
		}
		for _, file := range list {
			problem, err := file.problem(ctx, blobs)
			if err != nil {
				return fmt.Errorf("checking the files of templates: %w", err)
			}
			if problem != "" {
				f(Damage{file.what, problem + ": " + file.effect})
			}
		}
	}
	return nil
}

// problem reads the file and returns its damage, or "".
func (f *storedFile) problem(ctx context.Context, blobs blob.Store) (_ string, err error) {
	o, err := blobs.Open(ctx, f.key)
	if errors.Is(err, blob.ErrNotFound) {
		return "the file is missing", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	h := sha256.New()
	_, err = io.Copy(h, io.NewSectionReader(o, 0, o.Size()))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, blob.ErrUnavailable):
		return "", err
	case err != nil:
		return "the file cannot be read", nil // for example because of a bad block of the disk
	}
	if f.digest != nil && !bytes.Equal(h.Sum(nil), f.digest) {
		return "the file is damaged", nil
	}
	return "", nil
}
