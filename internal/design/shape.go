package design

import (
	"errors"

	"github.com/certvault/certvault/internal/typeset"
)

// Shaped is the text of a field as it will be drawn.
type Shaped struct {
	// Path is the data of an SVG path, in points from the top left of the box before its rotation.
	Path string
	// Size is the font size. Lines is the number of lines. Text is the text with its values.
	Size  float64
	Lines int
	Text  string
	// Problem is the reason why the text cannot be drawn, or nil. If the text does not fit, Path shows it in
	// one line at the smallest size, and may be wider than the box.
	Problem *Problem
}

// Shape sets the text of a field for the designer, in the same way as Draw. It returns an empty Shaped for
// a picture or the QR code.
func Shape(f *Field, l *Layout, v *Values, fonts *typeset.Fonts) Shaped {
	if !f.isText() {
		return Shaped{}
	}
	if bad := f.invalid(make([]Page, max(0, min(f.Page, maxPages)))); len(bad) > 0 {
		return Shaped{Problem: &Problem{f.ID, CodeFieldInvalid, bad[0]}}
	}
	text, missing := fill(f, parse(f.Text), l, v)
	out := Shaped{Text: text.plain}
	if len(missing) > 0 {
		out.Problem = &missing[0]
	}
	x := 0.0
	block, err := set(f, text, fonts)
	if err != nil {
		problem, ok := f.problem(err)
		if !ok {
			problem = Problem{f.ID, CodeFieldInvalid, "font"}
		}
		out.Problem = &problem
		if !errors.Is(err, typeset.ErrNoRoom) {
			return out
		}
		if block, x, err = f.overflow(text, fonts); err != nil {
			return out
		}
	}
	out.Size, out.Lines = block.Size, block.Lines()
	if out.Lines > 0 {
		out.Path = block.SVGPath(x, f.baseline(block))
	}
	return out
}

// overflow sets a text that does not fit into its box. It sets the text in one line at the smallest size, and
// returns the distance from the left side of the box to the line.
func (f *Field) overflow(text filled, fonts *typeset.Fonts) (*typeset.Block, float64, error) {
	style := f.style(text)
	style.Size, style.Lines, style.Align, style.Height = min(style.MinSize, f.Size), 1, typeset.Left, 0
	style.MinSize = 0
	block, err := fonts.Layout(text.text, style, maxCoordinate)
	if err != nil {
		return nil, 0, err
	}
	x, _ := aligned(f, block.Width, 0)
	return block, x, nil
}
