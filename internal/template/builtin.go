package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// builtIn returns the built-in design of n with its layout, in the colour that accent returns. The texts
// are in the language of n. They are in English if n has no language, or if the fonts do not have all
// characters of the texts.
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
	file, layout, err := b.With(accent, cmp.Or(n.Paper, builtin.A4), cmp.Or(n.Language, english))
	if err == nil && n.Language != "" && n.Language != english && !s.canWrite(ctx, n.Institution.ID, &layout) {
		file, layout, err = b.With(accent, cmp.Or(n.Paper, builtin.A4), english)
	}
	switch {
	case errors.Is(err, builtin.ErrPaper):
		return nil, nil, fault.OfField("paper", "The paper must be a4 or letter.")
	case errors.Is(err, builtin.ErrLanguage):
		return nil, nil, fault.OfField("language", "The texts of built-in designs do not exist in this language.")
	case err != nil:
		return nil, nil, fmt.Errorf("drawing a built-in design: %w", err)
	}
	d, err := prepare(ctx, file, "")
	return d, &layout, err
}

const english = "en"

// canWrite reports whether the fonts that an institution can use have all characters of the texts of a
// layout.
func (s *Service) canWrite(ctx context.Context, institutionID int64, l *design.Layout) bool {
	shaped, err := s.Shape(ctx, institutionID, l, design.Values{})
	return err == nil && !slices.ContainsFunc(shaped, func(one design.Shaped) bool {
		return one.Problem != nil && one.Problem.Code == design.CodeMissingCharacters
	})
}

// WithoutFont returns the tags of the vault's languages for which an institution has no font: its fonts
// do not have all characters of the name of the language. Built-in designs in these languages have
// English texts.
func (s *Service) WithoutFont(ctx context.Context, institutionID int64) (list []string, err error) {
	catalog, err := locale.Load()
	if err != nil {
		return nil, err
	}
	for _, l := range catalog.Languages() {
		name := design.Field{ID: "name", Kind: design.Text, Page: 1, Text: l.Name, Box: design.Box{0, 0, 500, 50}, Font: design.Font{Family: "Inter"}, Size: 10}
		if !s.canWrite(ctx, institutionID, &design.Layout{Fields: []design.Field{name}, Language: l.Tag}) {
			list = append(list, l.Tag)
		}
	}
	return list, nil
}

// accentText returns the accent of n. If n has none, accentText returns the colour of the institution, which
// may be "".
func (s *Service) accentText(ctx context.Context, n *NewTemplate) (string, error) {
	if n.Accent != "" {
		return n.Accent, nil
	}
	settings, err := account.ReadSettings(ctx, s.db, n.Institution.ID)
	if err != nil {
		return "", err
	}
	return settings.Colour, nil
}

// accent returns the colour that accentText returns, or usual for "".
func (s *Service) accent(ctx context.Context, n *NewTemplate, usual colour.Colour) (colour.Colour, error) {
	text, err := s.accentText(ctx, n)
	if err != nil || text == "" {
		return usual, err
	}
	c, err := colour.Parse(text)
	if err != nil {
		return usual, fault.OfField("accent", "The color must be a # and six digits of 0-9 and a-f, such as #0b5d4b.")
	}
	return c, nil
}
