package typeset

import (
	"iter"

	"github.com/go-text/typesetting/font/opentype"
)

// Outline is the outline of a glyph and its origin in the block. Lengths are in ems, and y points upwards.
// The origin of the block is on its first baseline, at the left edge of the layout.
type Outline struct {
	X, Y float64
	// Segments are closed paths. Each path begins with 'M'. The slice is valid until the next outline.
	Segments []Segment
}

// Segment is a part of a path: Op is 'M' for the start, 'L' for a line, 'Q' for a quadratic and 'C'
// for a cubic Bézier curve. 'M' and 'L' have one point, 'Q' two and 'C' three, relative to the origin of
// the glyph. The last point is the end of the segment.
type Segment struct {
	Op     byte
	Points [3][2]float64
}

// Outlines returns the outlines of the glyphs of the block that have an outline.
func (b *Block) Outlines() iter.Seq[Outline] {
	return func(yield func(Outline) bool) {
		var segments []Segment
		for i := range b.lines {
			l := &b.lines[i]
			at, base := l.x, -float64(i)*b.Leading/b.Size
			for k := range l.clusters {
				c := &l.clusters[k]
				for _, p := range c.parts {
					segments = appendSegments(segments[:0], c.face.segments(p.glyph), c.face.upem)
					o := Outline{X: at + float64(p.x)/c.face.upem, Y: base + float64(p.y)/c.face.upem, Segments: segments}
					if len(segments) > 0 && !yield(o) {
						return
					}
				}
				at += c.advance
			}
		}
	}
}

func appendSegments(out []Segment, segments []opentype.Segment, upem float64) []Segment {
	for _, s := range segments {
		next := Segment{Op: "MLQC"[s.Op]}
		for i, a := range s.ArgsSlice() {
			next.Points[i] = [2]float64{float64(a.X) / upem, float64(a.Y) / upem}
		}
		out = append(out, next)
	}
	return out
}
