package typeset

import (
	"math"

	"github.com/go-text/typesetting/font/opentype"
)

// maxJoined is the maximum number of quadratic curves that are drawn as one cubic curve.
const maxJoined = 6

// joinCurves replaces quadratic curves with cubic curves, if possible with fewer. The outlines of TrueType
// fonts are usually designed with cubic curves and then converted. The conversion divides a cubic curve,
// at equal steps of its parameter, into n quadratic curves. The control point of the first quadratic
// curve is at 1.5/n of the way from the start to the first control point of the cubic curve. The same is
// true at the end. joinCurves inverts this where the result differs by at most tolerance. The result
// shares the memory of segments.
func joinCurves(segments []opentype.Segment, tolerance float32) []opentype.Segment {
	out := segments[:0]
	var pen opentype.SegmentPoint
	for i := 0; i < len(segments); {
		s := segments[i]
		if s.Op != opentype.SegmentOpQuadTo {
			out = append(out, s)
			pen = s.ArgsSlice()[len(s.ArgsSlice())-1]
			i++
			continue
		}
		n := 1
		for n < maxJoined && i+n < len(segments) && segments[i+n].Op == opentype.SegmentOpQuadTo {
			n++
		}
		var curve opentype.Segment
		for ; ; n-- {
			if curve = joined(pen, segments[i:i+n]); n == 1 || follows(pen, &curve, segments[i:i+n], tolerance) {
				break
			}
		}
		pen = curve.Args[2]
		out = append(out, curve)
		i += n
	}
	return out
}

// joined returns the cubic curve that begins at from and has the parts quads.
func joined(from opentype.SegmentPoint, quads []opentype.Segment) opentype.Segment {
	to := quads[len(quads)-1].Args[1]
	k := float32(len(quads)) / 1.5
	return opentype.Segment{Op: opentype.SegmentOpCubeTo, Args: [3]opentype.SegmentPoint{
		between(from, quads[0].Args[0], k), between(to, quads[len(quads)-1].Args[0], k), to,
	}}
}

// between returns the point a + k·(b - a).
func between(a, b opentype.SegmentPoint, k float32) opentype.SegmentPoint {
	return opentype.SegmentPoint{X: a.X + (b.X-a.X)*k, Y: a.Y + (b.Y-a.Y)*k}
}

// follows reports whether a cubic curve differs from quads by at most tolerance, at the end of each
// quadratic curve and at three points within it.
func follows(from opentype.SegmentPoint, curve *opentype.Segment, quads []opentype.Segment, tolerance float32) bool {
	pen, n := from, float32(len(quads))
	for i := range quads {
		q := &quads[i].Args
		for _, t := range []float32{0.25, 0.5, 0.75, 1} {
			p := between(between(pen, q[0], t), between(q[0], q[1], t), t)
			u := (float32(i) + t) / n
			a := between(curve.Args[0], curve.Args[1], u)
			b := between(between(from, curve.Args[0], u), a, u)
			c := between(b, between(a, between(curve.Args[1], curve.Args[2], u), u), u)
			if math.Hypot(float64(p.X-c.X), float64(p.Y-c.Y)) > float64(tolerance) {
				return false
			}
		}
		pen = q[1]
	}
	return true
}
