package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/fault"
)

// builtIn returns a built-in design with its layout, in the accent or the colour of the institution.
func (s *Service) builtIn(ctx context.Context, n *NewTemplate) (*design.Design, *design.Layout, error) {
	b, ok := builtin.Find(n.BuiltIn)
	if !ok {
		var names []string
		for _, b := range builtin.All() {
			names = append(names, b.Name)
		}
		return nil, nil, fault.OfField("built_in", "There is no built-in design with this name. The names are "+strings.Join(names, ", ")+".")
	}
	accent, err := s.accent(ctx, n, b.Accent)
	if err != nil {
		return nil, nil, err
	}
	file, layout, err := b.With(accent, cmp.Or(n.Paper, builtin.A4))
	if errors.Is(err, builtin.ErrPaper) {
		return nil, nil, fault.OfField("paper", "The paper must be a4 or letter.")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("drawing a built-in design: %w", err)
	}
	d, err := prepare(ctx, file, "")
	return d, &layout, err
}

// accent returns the colour of a built-in design.
func (s *Service) accent(ctx context.Context, n *NewTemplate, usual colour.Colour) (colour.Colour, error) {
	text := n.Accent
	if text == "" {
		settings, err := account.ReadSettings(ctx, s.db, n.Institution.ID)
		if err != nil {
			return usual, err
		}
		text = settings.Colour
	}
	if text == "" {
		return usual, nil
	}
	c, err := colour.Parse(text)
	if err != nil {
		return usual, fault.OfField("accent", "The color must be a # and six digits of 0-9 and a-f, such as #0b5d4b.")
	}
	return c, nil
}
