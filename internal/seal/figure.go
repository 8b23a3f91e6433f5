package seal

import (
	"bytes"
	"math"
	"strings"
)

// figure is the drawing of the stamp: the QR code on white and the reference id next to it. The
// unit is one module of the QR code; the origin is the lower left corner.
type figure struct {
	symbol        *symbol
	width, height float64
	backing       []byte // content stream operators that paint the white background
	operators     []byte // operators of the figure itself; they change the graphics state
	text          idText
}

// idText is the reference id in the figure: rows of strokes on a grid.
type idText struct {
	grid, x, y float64 // grid unit in modules, and the lower left corner
	rows       []string
}

// These are the shapes of the stamp: wide and low, or narrow and high, like the margins of a page.
const (
	idBeside = iota
	idBelow
)

// rowPitch is the distance between two rows of text in grid units, and maxGrid the largest grid
// unit in modules.
const (
	rowPitch = glyphHeight + 3
	maxGrid  = 0.8
	textEdge = 2 // modules between the text and the edge of the stamp
)

// newFigure returns the stamp of a reference id in one of the two shapes.
func newFigure(s *symbol, referenceID string, shape int) (*figure, error) {
	side := float64(s.full())
	f := &figure{symbol: s, width: side, height: side}
	t := &f.text
	if shape == idBeside {
		t.rows = idRows(referenceID, 4)
		t.grid = decimal(min(float64(s.side)/t.height(), maxGrid))
		t.x, t.y = side+strokeWidth/2, decimal((side-t.height()*t.grid)/2)
		f.width = decimal(t.x + float64(textWidth(4))*t.grid + textEdge)
	} else {
		t.rows = idRows(referenceID, 8)
		t.grid = decimal(min(float64(s.side)/float64(textWidth(8)), maxGrid))
		t.x, t.y = quietZone, textEdge
		f.height = decimal(t.y + t.height()*t.grid + strokeWidth/2 + side)
	}
	var b bytes.Buffer
	b.WriteString("1 g 0 0 ")
	writeNumber(&b, f.width)
	b.WriteByte(' ')
	writeNumber(&b, f.height)
	b.WriteString(" re f\n")
	f.backing = bytes.Clone(b.Bytes())
	b.Reset()
	b.WriteString("0 g\n")
	if _, raise := f.origin(); raise > 0 {
		b.WriteString("q 1 0 0 1 0 ")
		writeNumber(&b, raise)
		b.WriteString(" cm\n")
		s.operators(&b)
		b.WriteString("f Q\n")
	} else {
		s.operators(&b)
		b.WriteString("f\n")
	}
	for _, v := range []float64{t.grid, 0, 0, t.grid, t.x, t.y} {
		writeNumber(&b, v)
		b.WriteByte(' ')
	}
	b.WriteString("cm\n0 G 1 J 1 j ")
	writeNumber(&b, strokeWidth)
	b.WriteString(" w\n")
	for i, row := range t.rows {
		if err := textOperators(&b, row, 0, t.baseline(i)); err != nil {
			return nil, err
		}
	}
	b.WriteString("S\n")
	f.operators = b.Bytes()
	return f, nil
}

// height returns the height of all rows in grid units.
func (t *idText) height() float64 { return float64(len(t.rows)*rowPitch - 3) }

// baseline returns the baseline of row i in grid units.
func (t *idText) baseline(i int) int { return (len(t.rows) - 1 - i) * rowPitch }

// origin returns the lower left corner of the QR code with its quiet zone.
func (f *figure) origin() (x, y float64) { return 0, f.height - float64(f.symbol.full()) }

// idRows splits a reference id after its prefix and then after every n characters.
func idRows(id string, n int) []string {
	prefix, code, ok := strings.Cut(id, "-")
	if ok {
		prefix += "-"
	}
	var rows []string
	for _, part := range []string{prefix, code} {
		for len(part) > n {
			rows, part = append(rows, part[:n]), part[n:]
		}
		if part != "" {
			rows = append(rows, part)
		}
	}
	return rows
}

// decimal rounds to two decimal places.
func decimal(v float64) float64 { return math.Round(v*100) / 100 }
