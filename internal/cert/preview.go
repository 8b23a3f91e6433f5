package cert

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// RequestedPlacement is the requested position of one certificate's stamp. It overrides the policy of the
// institution.
type RequestedPlacement struct {
	Mode seal.Mode `json:"mode"`
	Page int       `json:"page"`
	// Box is the position of the stamp for Exact, and nil for other placements.
	Box *seal.Box `json:"box,omitempty"`
}

// Check returns a fault of kind Invalid for a position that is not valid.
func (w *RequestedPlacement) Check() error {
	return (&Policy{Placement: w.Mode, Page: w.Page, Box: w.Box}).check()
}

// Previewer computes the positions of stamps and draws originals. seal.Sealer implements it.
type Previewer interface {
	Preview(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Preview, error)
	Picture(ctx context.Context, o seal.Original, page int) ([]byte, error)
}

var errNoPreview = fault.New(fault.Unavailable, "This vault cannot draw previews.")

// Preview returns the position of the stamp of a certificate made from a received file, and other
// possible positions. It uses the requested position, or the institution's policy if wanted is nil.
// It returns a fault of kind Invalid for a requested position that is not valid and for a file that
// cannot be sealed.
func (s *Service) Preview(ctx context.Context, institutionID int64, f *File, wanted *RequestedPlacement) (_ *seal.Preview, err error) {
	previewer, ok := s.sealer.(Previewer)
	if !ok {
		return nil, errNoPreview
	}
	placement, err := s.placement(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	if wanted != nil {
		if err := wanted.Check(); err != nil {
			return nil, err
		}
		placement = wanted.placement()
	}
	institution, err := account.InstitutionByID(ctx, s.db, institutionID)
	if err != nil {
		return nil, err
	}
	// The reference id of the certificate is not known yet. All reference ids of an institution
	// have the same length.
	id := institution.Prefix + "-" + strings.Repeat("0", codeLen)
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	p, err := previewer.Preview(ctx, original(f, o), seal.Stamp{ReferenceID: id, VerifyURL: s.verifyURL(id), Placement: placement})
	if err != nil {
		return nil, previewError(err)
	}
	return p, nil
}

func previewError(err error) error {
	if refusal, ok := errors.AsType[*seal.Refusal](err); ok {
		return fault.Wrap(fault.Invalid, refusal.Reason, err)
	}
	return fmt.Errorf("previewing a file: %w", err)
}

// Picture draws a page of a received file as PNG. Pages count from 1.
func (s *Service) Picture(ctx context.Context, f *File, page int) (_ []byte, err error) {
	previewer, ok := s.sealer.(Previewer)
	if !ok {
		return nil, errNoPreview
	}
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	picture, err := previewer.Picture(ctx, original(f, o), page)
	if err != nil {
		return nil, previewError(err)
	}
	return picture, nil
}

func (w *RequestedPlacement) placement() seal.Placement {
	p := seal.Placement{Mode: w.Mode, Page: w.Page}
	if w.Box != nil {
		p.Box = *w.Box
	}
	return p
}

// storePlacementTx stores the requested position of a certificate's stamp. It does nothing if w is
// nil.
func storePlacementTx(ctx context.Context, tx *db.Tx, id int64, w *RequestedPlacement) error {
	if w == nil {
		return nil
	}
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encoding the requested position of a stamp: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE certificates SET wanted_placement = $1 WHERE id = $2`, string(text), id); err != nil {
		return fmt.Errorf("storing the requested position of a stamp: %w", err)
	}
	return nil
}

// placementOf returns the requested placement of the stamp of a certificate, or the placement by
// the policy if none was requested.
func (s *Service) placementOf(ctx context.Context, c *Certificate) (p seal.Placement, err error) {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, `SELECT wanted_placement FROM certificates WHERE id = $1`, c.ID).Scan(&text); err != nil {
		return p, fmt.Errorf("reading the requested position of a stamp: %w", err)
	}
	if !text.Valid {
		return s.placement(ctx, c.InstitutionID)
	}
	var w RequestedPlacement
	if err := json.Unmarshal([]byte(text.String), &w); err != nil {
		return p, fmt.Errorf("reading the requested position of a stamp: %w", err)
	}
	return w.placement(), nil
}
