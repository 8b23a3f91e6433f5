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

// WantedOf returns the placement of a row: its own, or that of all rows; nil stands for the
// institution's default.
func (d *Draft) WantedOf(r *Row) *cert.Wanted {
	if r.Wanted != nil {
		return r.Wanted
	}
	return d.Wanted
}

// PlaceAll sets the placement of all rows without one of their own; nil stands for the
// institution's default.
func (s *Service) PlaceAll(ctx context.Context, d *Draft, w *cert.Wanted) error {
	kept, err := keptPlace(w)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "choosing a place for all rows", func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_drafts SET wanted = $1 WHERE id = $2`, kept, d.ID)
		return err
	})
}

// Place sets the placement of a row; nil stands for that of all rows.
func (s *Service) Place(ctx context.Context, d *Draft, number int, w *cert.Wanted) error {
	kept, err := keptPlace(w)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "choosing a place for a row", func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET wanted = $1 WHERE draft_id = $2 AND number = $3`, kept, d.ID, number)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errNoRow
	})
}

// keptPlace encodes a placement for the database, nil if there is none.
func keptPlace(w *cert.Wanted) (any, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // no place is a choice, and NULL in the database
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	return written(w)
}

// readPlace is the inverse of keptPlace.
func readPlace(kept sql.NullString, w **cert.Wanted) error {
	if !kept.Valid {
		return nil
	}
	*w = &cert.Wanted{}
	return readInto(kept.String, *w)
}

// File returns a file of a draft.
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

var errNoFile = fault.New(fault.NotFound, "No such file.")
