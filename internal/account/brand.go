package account

import (
	"context"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
)

// Brand returns the colours of the institution's pages, or nil if the institution has no colour.
func (f *PublicProfile) Brand() *colour.Brand { return BrandOf(f.Colour) }

// BrandOf returns the colours of pages for a colour such as "#0b5d4b", or nil if the text is not a
// colour.
func BrandOf(text string) *colour.Brand {
	c, err := colour.Parse(text)
	if err != nil {
		return nil
	}
	return c.Brand()
}

// CheckColour parses the colour of an institution. It refuses a colour with too little contrast to
// white pages. For an empty text it returns nil, which means the vault's colour.
func CheckColour(text string) (*colour.Colour, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil //nolint:nilnil // nil is the vault's colour
	}
	c, err := colour.Parse(text)
	if err != nil {
		return nil, fault.OfField("colour", "The color must be a # and six digits of 0-9 and a-f, such as #0b5d4b.")
	}
	if has := colour.Contrast(c, colour.White); has < colour.Graphic {
		return nil, fault.OfField("colour", fmt.Sprintf(
			"%s is too light for a white page: its contrast is %s, and %s is required. The nearest shade that is dark enough is %s.",
			c, colour.Ratio(has), colour.Ratio(colour.Graphic), c.Darker()))
	}
	return &c, nil
}

// SetColour changes the colour of an institution's public pages and of its new mail. An empty text
// removes the colour.
func (s *Service) SetColour(ctx context.Context, id int64, text string) error {
	return s.set(ctx, id, func(c *Changes) { c.Colour = text })
}
