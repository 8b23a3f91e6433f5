package seal

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"sync"

	"golang.org/x/image/vector"

	"github.com/certvault/certvault/internal/typeset"
)

// emUnits is the number of units of an outline in one em. Outlines are in whole units, so that equal
// glyphs have equal operators, which compress well. At the usual size of a stamp, a unit is about
// a seventieth of a millimetre.
const emUnits = 160

// segment is a part of an outline: 'm' moves to a point, 'l' is a line to a point, and 'c' a cubic
// Bézier curve with two control points and an end point (ISO 32000-2, 8.5.2). Coordinates are in
// units of the outline, y points upwards.
type segment struct {
	op     byte
	points [6]int
}

// glyph is an outline and its place on a line, in units of the outline.
type glyph struct {
	outline []segment
	x, y    int
}

// line is a line of text as outlines.
type line struct {
	glyphs []glyph
	width  int // in units of the outline
}

// label is a line of text on a stamp, with the left end of its baseline and the size of an em, in
// modules.
type label struct {
	line
	x, y, size float64
}

// wide returns the width of the line if an em has the given size.
func (l *line) wide(size float64) float64 { return float64(l.width) / emUnits * size }

// join returns a line that consists of the parts, one after the other.
func join(parts ...line) line {
	var out line
	for _, p := range parts {
		for _, g := range p.glyphs {
			g.x += out.width
			out.glyphs = append(out.glyphs, g)
		}
		out.width += p.width
	}
	return out
}

// operators writes the operators that fill the label. The origin moves from glyph to glyph, so that
// equal glyphs have equal operators.
func (l *label) operators(b *bytes.Buffer) {
	b.WriteString("q ")
	for _, v := range []float64{l.size / emUnits, 0, 0, l.size / emUnits, l.x, l.y} {
		writePrecise(b, v)
		b.WriteByte(' ')
	}
	b.WriteString("cm\n")
	x, y := 0, 0
	for _, g := range l.glyphs {
		if len(g.outline) == 0 {
			continue
		}
		if g.x != x || g.y != y {
			b.WriteString("1 0 0 1 " + strconv.Itoa(g.x-x) + " " + strconv.Itoa(g.y-y) + " cm\n")
			x, y = g.x, g.y
		}
		for _, s := range g.outline {
			n := 2
			if s.op == 'c' {
				n = 6
			}
			for _, v := range s.points[:n] {
				b.WriteString(strconv.Itoa(v))
				b.WriteByte(' ')
			}
			b.WriteByte(s.op)
			b.WriteByte('\n')
		}
		b.WriteString("f\n")
	}
	b.WriteString("Q\n")
}

// writePrecise writes a number with up to five decimal places. A scale needs this precision.
func writePrecise(b *bytes.Buffer, v float64) {
	b.WriteString(strconv.FormatFloat(math.Round(v*1e5)/1e5, 'f', -1, 64))
}

// draw adds the label to a rasterizer. left and bottom are the position of the figure's origin in
// pixels, and px and py the width and height of a module in pixels.
func (l *label) draw(r *vector.Rasterizer, left, bottom, px, py float64) {
	for _, g := range l.glyphs {
		at := func(s *segment, i int) (x, y float32) {
			u := l.x + float64(g.x+s.points[i])/emUnits*l.size
			v := l.y + float64(g.y+s.points[i+1])/emUnits*l.size
			return float32(left + u*px), float32(bottom - v*py)
		}
		for i := range g.outline {
			s := &g.outline[i]
			switch s.op {
			case 'm':
				if i > 0 {
					r.ClosePath()
				}
				r.MoveTo(at(s, 0))
			case 'l':
				r.LineTo(at(s, 0))
			default:
				x1, y1 := at(s, 0)
				x2, y2 := at(s, 2)
				x3, y3 := at(s, 4)
				r.CubeTo(x1, y1, x2, y2, x3, y3)
			}
		}
		if len(g.outline) > 0 {
			r.ClosePath()
		}
	}
}

// lettering converts the texts of stamps to outlines. It keeps the outlines of the texts that are the same
// on most stamps of an institution.
type lettering struct {
	fonts *typeset.Fonts

	mu   sync.Mutex
	kept map[lettered]line
}

// lettered is a text in a font.
type lettered struct {
	text string
	font typeset.Font
}

// maxKept is the maximum number of outlines that a lettering keeps.
const maxKept = 256

// keep is like outline, and keeps the result.
func (w *lettering) keep(text string, font typeset.Font) (line, error) {
	key := lettered{text, font}
	w.mu.Lock()
	l, ok := w.kept[key]
	w.mu.Unlock()
	if ok {
		return l, nil
	}
	l, err := w.outline(text, font)
	if err != nil {
		return l, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil || len(w.kept) >= maxKept {
		w.kept = map[lettered]line{}
	}
	w.kept[key] = l
	return l, nil
}

// outline returns the outlines of a text.
func (w *lettering) outline(text string, font typeset.Font) (line, error) {
	block, err := w.fonts.Layout(text, typeset.Style{Font: font, Size: 1}, math.Inf(1))
	if err != nil {
		return line{}, fmt.Errorf("setting the text of the stamp: %w", err)
	}
	unit := func(v float64) int { return int(math.Round(v * emUnits)) }
	l := line{width: unit(block.Width)}
	for o := range block.Outlines() {
		g := glyph{x: unit(o.X), y: unit(o.Y), outline: make([]segment, 0, len(o.Segments))}
		x, y := 0, 0
		for _, s := range o.Segments {
			at := func(i int) (int, int) { return unit(s.Points[i][0]), unit(s.Points[i][1]) }
			x0, y0 := x, y
			var next segment
			switch s.Op {
			case 'M', 'L':
				x, y = at(0)
				next = segment{op: 'l', points: [6]int{x, y}}
				if s.Op == 'M' {
					next.op = 'm'
				}
			case 'Q':
				// PDF has no quadratic curves, so convert the curve to a cubic one.
				u, v := at(0)
				x, y = at(1)
				next = segment{op: 'c', points: [6]int{(x0 + 2*u) / 3, (y0 + 2*v) / 3, (x + 2*u) / 3, (y + 2*v) / 3, x, y}}
			default:
				x1, y1 := at(0)
				x2, y2 := at(1)
				x, y = at(2)
				next = segment{op: 'c', points: [6]int{x1, y1, x2, y2, x, y}}
			}
			g.outline = append(g.outline, next)
		}
		l.glyphs = append(l.glyphs, g)
	}
	return l, nil
}
