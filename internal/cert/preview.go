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

// RequestedPlacement is the requested position of the stamp of one certificate. It has precedence over the
// policy of the institution.
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
	Stamped(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Stamped, error)
	Ink(ctx context.Context, o seal.Original, stamp seal.Stamp) ([]byte, error)
}

var errNoPreview = fault.New(fault.Unavailable, "This vault cannot draw previews.")

// Preview returns the position of the stamp of a certificate made from a received file, and other
// possible positions. It uses the requested position, or the institution's policy if wanted is nil.
// If f is nil, Preview uses a blank A4 page. It returns a fault of kind Invalid for a requested position
// that is not valid, and for a file that cannot be sealed.
func (s *Service) Preview(ctx context.Context, institutionID int64, f *File, wanted *RequestedPlacement) (p *seal.Preview, err error) {
	return p, s.preview(ctx, institutionID, f, wanted, Text{}, func(v Previewer, o seal.Original, stamp seal.Stamp) (err error) {
		p, err = v.Preview(ctx, o, stamp)
		return err
	})
}

// Stamped draws the page with the stamp, as it would be in the verified PDF. An extra page shows the title,
// the name and the issue date of t, but no text that is not valid. If t has no issue date, the page shows
// today's date. The other arguments and the errors are those of Preview.
func (s *Service) Stamped(ctx context.Context, institutionID int64, f *File, wanted *RequestedPlacement, t Text) (p *seal.Stamped, err error) {
	return p, s.preview(ctx, institutionID, f, wanted, t, func(v Previewer, o seal.Original, stamp seal.Stamp) (err error) {
		p, err = v.Stamped(ctx, o, stamp)
		return err
	})
}

// Ink returns a transparent PNG that shows where a page of a received file has content. Pages count
// from 1.
func (s *Service) Ink(ctx context.Context, institutionID int64, f *File, page int) (ink []byte, err error) {
	return ink, s.preview(ctx, institutionID, f, &RequestedPlacement{Mode: seal.Auto, Page: page}, Text{}, func(v Previewer, o seal.Original, stamp seal.Stamp) (err error) {
		ink, err = v.Ink(ctx, o, stamp)
		return err
	})
}

// Picture draws a page of a received file as PNG. Pages count from 1.
func (s *Service) Picture(ctx context.Context, f *File, page int) (picture []byte, err error) {
	return picture, s.withOriginal(ctx, f, func(v Previewer, o seal.Original) (err error) {
		picture, err = v.Picture(ctx, o, page)
		return err
	})
}

// preview calls draw with a file, or a blank A4 page, and the stamp of a certificate with the texts t.
func (s *Service) preview(ctx context.Context, institutionID int64, f *File, wanted *RequestedPlacement, t Text, draw func(Previewer, seal.Original, seal.Stamp) error) error {
	if wanted != nil {
		if err := wanted.Check(); err != nil {
			return err
		}
	}
	institution, err := account.InstitutionByID(ctx, s.db, institutionID)
	if err != nil {
		return err
	}
	// The reference id of the certificate is not known yet. This id has the same length.
	c := &Certificate{InstitutionID: institutionID, ReferenceID: institution.Prefix + "-" + strings.Repeat("0", codeLen)}
	c.Title, _ = FieldTitle.Check(t.Title)
	c.FullName, _ = FieldName.Check(t.FullName)
	if c.IssueDate, _ = FieldIssueDate.Check(t.IssueDate); strings.TrimSpace(t.IssueDate) == "" {
		c.IssueDate = Today(s.now())
	}
	stamp, err := s.stamp(ctx, c, wanted)
	if err != nil {
		return err
	}
	return s.withOriginal(ctx, f, func(v Previewer, o seal.Original) error { return draw(v, o, stamp) })
}

// withOriginal calls draw with a received file, or with a blank A4 page if f is nil.
func (s *Service) withOriginal(ctx context.Context, f *File, draw func(Previewer, seal.Original) error) (err error) {
	previewer, ok := s.sealer.(Previewer)
	if !ok {
		return errNoPreview
	}
	if f == nil {
		blank, err := seal.Blank()
		if err != nil {
			return err
		}
		return previewError(draw(previewer, blank))
	}
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return fmt.Errorf("opening a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return previewError(draw(previewer, original(f, o)))
}

func previewError(err error) error {
	if err == nil {
		return nil
	}
	if refusal, ok := errors.AsType[*seal.Refusal](err); ok {
		return fault.Wrap(fault.Invalid, refusal.Reason, err)
	}
	return fmt.Errorf("previewing a file: %w", err)
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

// requestedPlacement returns the requested position of the stamp of a certificate, or nil.
func (s *Service) requestedPlacement(ctx context.Context, c *Certificate) (*RequestedPlacement, error) {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, `SELECT wanted_placement FROM certificates WHERE id = $1`, c.ID).Scan(&text); err != nil {
		return nil, fmt.Errorf("reading the requested position of a stamp: %w", err)
	}
	if !text.Valid {
		return nil, nil //nolint:nilnil // the institution's policy applies
	}
	var w RequestedPlacement
	if err := json.Unmarshal([]byte(text.String), &w); err != nil {
		return nil, fmt.Errorf("reading the requested position of a stamp: %w", err)
	}
	return &w, nil
}
