package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Brand gives the institution's colour as it is drawn, nil where it has none.
func (f *Face) Brand() *colour.Brand { return BrandOf(f.Colour) }

// BrandOf gives a colour of an institution as it is drawn, nil where it has none.
func BrandOf(text string) *colour.Brand {
	c, err := colour.Parse(text)
	if err != nil {
		return nil
	}
	return c.Brand()
}

// CheckColour reads a colour that an institution wants to have, and refuses one
// that cannot be told from the paper of pages; nil is the vault's own.
func CheckColour(text string) (*colour.Colour, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil //nolint:nilnil // no colour is one of the choices
	}
	c, err := colour.Parse(text)
	if err != nil {
		return nil, fault.OfField("colour", "The colour must be a # and six digits of 0-9 and a-f, like #0b5d4b.")
	}
	if has := colour.Contrast(c, colour.White); has < colour.Graphic {
		return nil, fault.OfField("colour", fmt.Sprintf(
			"%s is too light: not everybody can see it on a white page (its contrast is %s, and %s is needed). The nearest shade that is dark enough is %s.",
			c, colour.Ratio(has), colour.Ratio(colour.Graphic), c.Darker()))
	}
	return &c, nil
}

// SetColour changes an institution's colour, which public pages and mail to
// recipients show from then on; an empty text takes it away.
func (s *Service) SetColour(ctx context.Context, id int64, text string) error {
	c, err := CheckColour(text)
	if err != nil {
		return err
	}
	var now string
	if c != nil {
		now = c.String()
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var was string
		err := tx.QueryRowContext(ctx, `SELECT colour FROM institutions WHERE id = $1`, id).Scan(&was)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInstitution
		}
		if err != nil || was == now {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE institutions SET colour = $1 WHERE id = $2`, now, id); err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, At: s.now(), Action: audit.InstitutionChanged, Detail: audit.Detail{"colour": map[string]string{"from": was, "to": now}},
		})
	}); err != nil {
		return fmt.Errorf("changing the colour: %w", err)
	}
	return nil
}
