package cert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// maxPlacementPage is the highest number of a page that can be chosen for the stamp.
	maxPlacementPage = 10_000
	// maxLayouts is the maximum number of earlier positions that are stored for an institution. Each
	// position is for another page size.
	maxLayouts = 16
)

// Placements are the modes that an institution can choose.
var Placements = []seal.Mode{
	seal.Auto, seal.TopLeft, seal.TopRight, seal.BottomLeft, seal.BottomRight, seal.Exact, seal.Strip, seal.Appended,
}

// Policy has an institution's settings for stamps and files.
type Policy struct {
	Placement seal.Mode
	// Page counts from 1. A document with fewer pages is stamped on page 1.
	Page int
	// Box is the position of the stamp for Exact, and nil for other placements.
	Box          *seal.Box
	RefuseActive bool
	// PlainStamp selects stamps without a frame, as in earlier versions of the vault.
	PlainStamp bool
}

// ReadPolicy returns an institution's policy. It returns a fault of kind NotFound if the
// institution does not exist.
func ReadPolicy(ctx context.Context, q db.Queryer, institutionID int64) (*Policy, error) {
	v, err := account.ReadSettings(ctx, q, institutionID)
	if err != nil {
		return nil, err
	}
	return PolicyOf(v), nil
}

// PolicyOf returns the policy in an institution's settings.
func PolicyOf(v *account.Settings) *Policy {
	return &Policy{Placement: seal.Mode(v.Placement), Page: v.Page, Box: (*seal.Box)(v.Box), RefuseActive: v.RefuseActive, PlainStamp: v.PlainStamp}
}

// Apply checks the policy and writes it to c, the changes of an institution's settings. It returns
// a fault of kind Invalid for a policy that is not valid. The policy applies to certificates that
// are processed after the change.
func (p *Policy) Apply(c *account.Changes) error {
	if err := p.check(); err != nil {
		return err
	}
	c.Policy = account.Policy{Placement: string(p.Placement), Page: p.Page, Box: (*[4]float64)(p.Box), RefuseActive: p.RefuseActive, PlainStamp: p.PlainStamp}
	return nil
}

// SetPolicy changes an institution's policy.
func SetPolicy(ctx context.Context, d *db.DB, institutionID int64, p *Policy) error {
	_, err := account.New(d, time.Now).Change(ctx, institutionID, p.Apply)
	return err
}

// Policy returns an institution's policy.
func (s *Service) Policy(ctx context.Context, institutionID int64) (*Policy, error) {
	return ReadPolicy(ctx, s.db, institutionID)
}

// SetPolicy changes the policy of an institution.
func (s *Service) SetPolicy(ctx context.Context, institutionID int64, p *Policy) error {
	_, err := account.New(s.db, s.now).Change(ctx, institutionID, p.Apply)
	return err
}

// placementNames returns the names of Placements.
func placementNames() []string {
	names := make([]string, len(Placements))
	for i, p := range Placements {
		names[i] = string(p)
	}
	return names
}

func (p *Policy) check() error {
	var bad fault.Fields
	if !slices.Contains(Placements, p.Placement) {
		bad.Add("placement", fmt.Sprintf("The placement must be one of %s.", strings.Join(placementNames(), ", ")))
	}
	if p.Page < 1 || p.Page > maxPlacementPage {
		bad.Add("placement_page", fmt.Sprintf("The page must be a number from 1 to %d.", maxPlacementPage))
	}
	switch b := p.Box; {
	case p.Placement == seal.Exact && b == nil:
		bad.Add("placement_box", "An exact placement needs its box: x0,y0,x1,y1 as fractions of the page, from its top left.")
	case b != nil && p.Placement != seal.Exact:
		bad.Add("placement_box", "Only an exact placement has a box.")
	case b != nil && (b[0] < 0 || b[1] < 0 || b[2] > 1 || b[3] > 1 || !(b[0] < b[2]) || !(b[1] < b[3])):
		bad.Add("placement_box", "The box must be x0,y0,x1,y1 with 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1.")
	}
	return bad.Err()
}

// vaultColour is the colour of the frame of a stamp if the institution has no colour.
var vaultColour = colour.Colour{R: 0x0b, G: 0x5d, B: 0x4b}

// stamp returns the stamp of a certificate at the requested position. If wanted is nil, the policy of
// the institution determines the position.
func (s *Service) stamp(ctx context.Context, c *Certificate, wanted *RequestedPlacement) (seal.Stamp, error) {
	v, err := account.ReadSettings(ctx, s.db, c.InstitutionID)
	if err != nil {
		return seal.Stamp{}, err
	}
	stamp := seal.Stamp{
		ReferenceID: c.ReferenceID, VerifyURL: s.verifyURL(c.ReferenceID), Institution: v.Name, Colour: vaultColour, Plain: v.PlainStamp,
	}
	if own, err := colour.Parse(v.Colour); err == nil {
		stamp.Colour = own.Darker()
	}
	if s.sheet != nil {
		stamp.Sheet = func(ctx context.Context) (*seal.Sheet, error) { return s.sheet(ctx, c) }
	}
	if wanted != nil {
		stamp.Placement = wanted.placement()
		return stamp, nil
	}
	stamp.Placement, err = s.placement(ctx, c.InstitutionID, PolicyOf(v))
	return stamp, err
}

// placement returns the placement of the next stamp according to the policy of an institution. An
// automatic placement includes the latest positions of earlier stamps.
func (s *Service) placement(ctx context.Context, institutionID int64, policy *Policy) (p seal.Placement, err error) {
	p = seal.Placement{Mode: policy.Placement, Page: policy.Page}
	if policy.Box != nil {
		p.Box = *policy.Box
	}
	if p.Mode != seal.Auto {
		return p, nil
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT width, height, box FROM stamp_layouts WHERE institution_id = $1 ORDER BY updated_at DESC LIMIT $2 + 0`, institutionID, maxLayouts)
	if err != nil {
		return p, fmt.Errorf("reading earlier positions of stamps: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var l seal.Layout
		var box string
		if err := rows.Scan(&l.Width, &l.Height, &box); err != nil {
			return p, fmt.Errorf("reading earlier positions of stamps: %w", err)
		}
		if err := json.Unmarshal([]byte(box), &l.Box); err != nil {
			return p, fmt.Errorf("reading earlier positions of stamps: %w", err)
		}
		p.EarlierLayouts = append(p.EarlierLayouts, l)
	}
	return p, rows.Err()
}

// storeLayoutTx stores the position of a stamp. An automatic placement tries the stored positions first
// on pages of the same size. storeLayoutTx keeps the latest positions, and does nothing for a layout without
// a size.
func storeLayoutTx(ctx context.Context, tx *db.Tx, institutionID int64, l seal.Layout, now int64) error {
	if l.Width == 0 {
		return nil
	}
	box, err := json.Marshal(l.Box)
	if err != nil {
		return fmt.Errorf("encoding the position of a stamp: %w", err)
	}
	stored, err := tx.ExecContext(ctx, `
		INSERT INTO stamp_layouts (institution_id, width, height, box, updated_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (institution_id, width, height) DO UPDATE SET box = excluded.box, updated_at = excluded.updated_at
		WHERE stamp_layouts.box <> excluded.box`,
		institutionID, l.Width, l.Height, string(box), now)
	if err != nil {
		return fmt.Errorf("storing the position of a stamp: %w", err)
	}
	if n, err := stored.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		DELETE FROM stamp_layouts WHERE institution_id = $1 AND updated_at < (
			SELECT min(updated_at) FROM (SELECT updated_at FROM stamp_layouts WHERE institution_id = $1 ORDER BY updated_at DESC LIMIT $2 + 0) AS latest)`,
		institutionID, maxLayouts); err != nil {
		return fmt.Errorf("deleting old positions of stamps: %w", err)
	}
	return nil
}
