package seal

import (
	"bytes"
	"strings"
)

// idText is the reference id of a plain stamp: rows of characters, drawn in strokes on a grid.
type idText struct {
	grid, x, y float64 // the size of a grid unit and the lower left corner, in modules
	rows       []string
}

// These are the shapes of the plain stamp: with the text beside the QR code, or below it. One is wide and
// low, the other narrow and high, so that one of them fits into a margin of a page.
const (
	idBeside = iota
	idBelow
)

// These are dimensions of the text of a plain stamp.
const (
	rowPitch = glyphHeight + 3 // distance between two rows in grid units
	maxGrid  = 0.8             // maximum size of a grid unit in modules
	textEdge = 2               // modules between the text and the edge of the stamp
)

// newPlainFigure returns a plain stamp in one of the two shapes.
func newPlainFigure(s *symbol, referenceID string, shape int) (*figure, error) {
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
	f.codeY = f.height - side
	var b bytes.Buffer
	f.drawCode(&b)
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
