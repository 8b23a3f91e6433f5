package typeset

import (
	"math"
	"strconv"

	"github.com/go-text/typesetting/font/opentype"
)

// SVGPath returns the outlines of the block as the data of an SVG path: the same glyphs at the same
// positions as Draw. The left edge of the layout is at x and the first baseline at y, in points; y points
// downwards. Coordinates have at most two decimal places.
func (b *Block) SVGPath(x, y float64) string {
	var out []byte
	for i := range b.lines {
		l := &b.lines[i]
		at, base := x+l.x*b.Size, y+float64(i)*b.Leading
		for k := range l.clusters {
			c := &l.clusters[k]
			scale := b.Size / c.face.upem
			for _, p := range c.parts {
				out = appendOutline(out, c.face.segments(p.glyph), scale, at+float64(p.x)*scale, base-float64(p.y)*scale)
			}
			at += c.advance * b.Size
		}
	}
	return string(out)
}

// appendOutline appends the outline of a glyph at a position.
func appendOutline(out []byte, segments []opentype.Segment, scale, x, y float64) []byte {
	for i, s := range segments {
		if s.Op == opentype.SegmentOpMoveTo && i > 0 {
			out = append(out, 'Z')
		}
		out = append(out, "MLQC"[s.Op])
		for k, a := range s.ArgsSlice() {
			if k > 0 {
				out = append(out, ' ')
			}
			out = appendDecimal(out, x+float64(a.X)*scale)
			out = append(out, ' ')
			out = appendDecimal(out, y-float64(a.Y)*scale)
		}
	}
	if len(segments) > 0 {
		out = append(out, 'Z')
	}
	return out
}

// appendDecimal appends a number with at most two decimal places.
func appendDecimal(out []byte, v float64) []byte {
	return strconv.AppendFloat(out, math.Round(v*100)/100+0, 'f', -1, 64)
}
