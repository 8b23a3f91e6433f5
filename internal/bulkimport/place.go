package bulkimport

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// WantedOf returns the placement for a row: its own placement, or the placement for all rows. nil
// means the institution's default.
func (d *Draft) WantedOf(r *Row) *cert.RequestedPlacement {
	if r.Wanted != nil {
		return r.Wanted
	}
	return d.Wanted
}

// PlaceAll sets the placement for all rows that have no placement of their own. nil means the
// institution's default.
func (s *Service) PlaceAll(ctx context.Context, d *Draft, w *cert.RequestedPlacement) error {
	encoded, err := encodePlacement(w)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "setting the placement for all rows", func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_drafts SET wanted = $1, placed = true WHERE id = $2`, encoded, d.ID)
		return err
	})
}

// Place sets the placement for a row. nil means the placement for all rows.
func (s *Service) Place(ctx context.Context, d *Draft, number int, w *cert.RequestedPlacement) error {
	encoded, err := encodePlacement(w)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "setting the placement for a row", func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET wanted = $1 WHERE draft_id = $2 AND number = $3`, encoded, d.ID, number)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errNoRow
	})
}

// encodePlacement checks a placement and encodes it for the database. The result is nil if w is
// nil.
func encodePlacement(w *cert.RequestedPlacement) (any, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // nil is a valid value, which is NULL in the database
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	return encode(w)
}

// decodePlacement is the inverse of encodePlacement.
func decodePlacement(encoded sql.NullString, w **cert.RequestedPlacement) error {
	if !encoded.Valid {
		return nil
	}
	*w = &cert.RequestedPlacement{}
	return decode(encoded.String, *w)
}

// File returns a file of a draft without its notices. The error is fault.NotFound if the draft has
// no such file.
func (s *Service) File(ctx context.Context, d *Draft, id int64) (*File, error) {
	f := &File{ID: id}
	err := s.db.QueryRowContext(ctx, `SELECT path, size, coalesce(staged_uuid, ''), problem FROM bulk_import_files WHERE id = $1 AND draft_id = $2`, id, d.ID).
		Scan(&f.Path, &f.Size, &f.StagedUUID, &f.Problem)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoFile
	}
	if err != nil {
		return nil, fmt.Errorf("reading a file of a bulk upload: %w", err)
	}
	return f, nil
}

var errNoFile = fault.New(fault.NotFound, "There is no such file.")
