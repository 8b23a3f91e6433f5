package typeset

import (
	"bytes"
	"math"
	"strconv"
)

// Draw appends the operators that draw the block to a content stream (ISO 32000-2, 9.4), and records
// the glyphs in subsets. The left edge of the layout is at x and the first baseline at y, in points;
// y points upwards. The colour is the current fill colour. Draw changes only the text state. It must not
// be called within a text object.
func (b *Block) Draw(content *bytes.Buffer, subsets *Subsets, x, y float64) {
	if len(b.lines) == 0 {
		return
	}
	content.WriteString("BT\n")
	for i := range b.lines {
		l := &b.lines[i]
		at := x + l.x*b.Size
		for rest := l.clusters; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].face == rest[0].face {
				n++
			}
			subsets.run(content, rest[:n], b.Size, at, y-float64(i)*b.Leading)
			for _, c := range rest[:n] {
				at += c.advance * b.Size
			}
			rest = rest[n:]
		}
	}
	content.WriteString("ET\n")
}

// run writes clusters of one face, with one operator TJ for consecutive clusters in the same font of the
// PDF. The numbers in a TJ move the pen where the shaper changed the width of a cluster.
func (s *Subsets) run(content *bytes.Buffer, clusters []cluster, size, x, y float64) {
	font := ""
	owed := 0.0 // thousandths of an em by which the pen is behind
	for i := range clusters {
		c := s.char(&clusters[i])
		if c.font != font {
			if font != "" {
				content.WriteString(">] TJ\n")
			}
			font, owed = c.font, 0
			content.WriteByte('/')
			content.WriteString(font)
			content.WriteByte(' ')
			number(content, size)
			content.WriteString(" Tf 1 0 0 1 ")
			number(content, x)
			content.WriteByte(' ')
			number(content, y)
			content.WriteString(" Tm [<")
		}
		if d := math.Round(owed); d != 0 {
			content.WriteByte('>')
			content.Write(strconv.AppendInt(content.AvailableBuffer(), int64(-d), 10))
			content.WriteByte('<')
			owed -= d
		}
		hex16(content, c.id)
		owed += clusters[i].advance*1000 - c.width
		x += clusters[i].advance * size
	}
	content.WriteString(">] TJ\n")
}

const hexDigits = "0123456789ABCDEF"

func hex16(b *bytes.Buffer, v int) {
	b.Write([]byte{hexDigits[v>>12&15], hexDigits[v>>8&15], hexDigits[v>>4&15], hexDigits[v&15]})
}

// number writes a number with at most four decimal places.
func number(b *bytes.Buffer, v float64) {
	b.Write(strconv.AppendFloat(b.AvailableBuffer(), math.Round(v*1e4)/1e4+0, 'f', -1, 64))
}
