package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/design"
)

// BuiltInPicture draws the first page of a built-in design with a sample as PNG, in a paper and an accent
// as in NewTemplate. The error is fault.Invalid if there is no such design, paper or color.
func (s *Service) BuiltInPicture(ctx context.Context, inst *account.Institution, name, paper, accent string, side int) ([]byte, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d, l, err := s.builtIn(ctx, &NewTemplate{Institution: inst, BuiltIn: name, Paper: paper, Accent: accent})
	if err != nil {
		return nil, err
	}
	fonts, _, err := s.institutionFonts(ctx, inst.ID)
	if err != nil {
		return nil, err
	}
	base, err := design.Publish(d, l, fonts, s.pictures(ctx, inst.ID))
	if err != nil {
		return nil, publishError(err)
	}
	t, err := design.Open(base.PDF, base.Plan, l, fonts)
	if err != nil {
		return nil, fmt.Errorf("opening a built-in design: %w", err)
	}
	values := design.Samples()[0].Values
	values.Institution, values.Title = inst.Name, cmp.Or(l.Title, values.Title)
	fields, err := t.Draw(l.Fill(values))
	if err != nil {
		return nil, publishError(err)
	}
	return s.render(ctx, slices.Concat(base.PDF, fields), 1, side)
}
