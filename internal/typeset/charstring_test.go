package typeset

import (
	"math"
	"slices"
	"testing"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
)

// The charstrings of the first 30 glyphs of each embedded font have the outlines of the font.
func TestCharstrings(t *testing.T) {
	f := testFonts(t)
	entries := f.entries
	if testing.Short() {
		entries = entries[:3]
	}
	for _, e := range entries {
		loaded, err := f.load(e)
		if err != nil {
			t.Fatal(err)
		}
		s := &subset{face: loaded}
		scale := loaded.cffScale()
		quads, cubics := 0, 0
		for glyph := range uint16(30) {
			raw, ok := loaded.drawn.GlyphData(font.GID(glyph)).(font.GlyphOutline)
			if !ok {
				break
			}
			drawn := read(t, s.charstring(&use{parts: []part{{glyph: glyph}}, advance: 600}))
			for _, s := range raw.Segments {
				if s.Op == opentype.SegmentOpQuadTo {
					quads++
				}
			}
			for _, s := range drawn {
				if s.Op == opentype.SegmentOpCubeTo {
					cubics++
				}
			}
			// Joining curves may add half a unit, and the rounding of points adds the rest.
			if d := distance(sample(raw.Segments, scale, 4), sample(drawn, 1, 24)); d > 1.8 {
				t.Errorf("%s: glyph %d: a point of the font is %.2f units from the charstring, want at most 1.8", e.name, glyph, d)
			}
			if d := distance(sample(drawn, 1, 4), sample(raw.Segments, scale, 24)); d > 1.8 {
				t.Errorf("%s: glyph %d: a point of the charstring is %.2f units from the font, want at most 1.8", e.name, glyph, d)
			}
		}
		t.Logf("%s: %d cubic curves for %d quadratic curves", e.name, cubics, quads)
		if cubics > quads {
			t.Errorf("%s: %d cubic curves for %d quadratic curves, want at most as many", e.name, cubics, quads)
		}
	}
}

// A part of a cluster with an offset has the same outline, moved by the offset.
func TestCharstringOfParts(t *testing.T) {
	f := testFonts(t)
	loaded, err := f.load(f.entries[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &subset{face: loaded}
	glyph, _ := loaded.font.NominalGlyph('a')
	alone := read(t, s.charstring(&use{parts: []part{{glyph: uint16(glyph)}}}))
	both := read(t, s.charstring(&use{parts: []part{{glyph: uint16(glyph)}, {glyph: uint16(glyph), x: 2048, y: -2048}}}))
	for i := range alone {
		a, b := alone[i], both[len(alone)+i]
		for k := range a.ArgsSlice() {
			if math.Abs(float64(b.Args[k].X-a.Args[k].X-1000)) > 1 || math.Abs(float64(b.Args[k].Y-a.Args[k].Y+1000)) > 1 {
				t.Errorf("segment %d is %v, want %v moved by 1000", i, b, a)
			}
		}
	}
}

// Quadratic curves are joined only if they are parts of one cubic curve.
func TestJoinCurves(t *testing.T) {
	quad := func(x1, y1, x2, y2 float32) opentype.Segment {
		return opentype.Segment{Op: opentype.SegmentOpQuadTo, Args: [3]opentype.SegmentPoint{{X: x1, Y: y1}, {X: x2, Y: y2}}}
	}
	corner := []opentype.Segment{{Op: opentype.SegmentOpMoveTo}, quad(100, 0, 100, 100), quad(0, 100, 0, 300)}
	if got := joinCurves(slices.Clone(corner), 1); len(got) != 3 || got[1].Args[2] != corner[1].Args[1] {
		t.Errorf("a corner becomes %v, want two curves", got)
	}
	// The cubic curve from 0,0 to 300,300 with the control points 0,200 and 100,300, in two parts.
	arc := []opentype.Segment{{Op: opentype.SegmentOpMoveTo}, quad(0, 150, 75, 225), quad(150, 300, 300, 300)}
	got := joinCurves(slices.Clone(arc), 1)
	want := [3]opentype.SegmentPoint{{X: 0, Y: 200}, {X: 100, Y: 300}, {X: 300, Y: 300}}
	if len(got) != 2 || got[1].Op != opentype.SegmentOpCubeTo || got[1].Args != want {
		t.Errorf("an arc becomes %v, want one cubic curve with the points %v", got, want)
	}
}

// read interprets a charstring (Adobe Technical Note 5177).
func read(t *testing.T, data []byte) (out []opentype.Segment) {
	t.Helper()
	var stack []int
	var x, y int
	point := func(dx, dy int) opentype.SegmentPoint {
		x, y = x+dx, y+dy
		return opentype.SegmentPoint{X: float32(x), Y: float32(y)}
	}
	move := func(dx, dy int) {
		out = append(out, opentype.Segment{Op: opentype.SegmentOpMoveTo, Args: [3]opentype.SegmentPoint{point(dx, dy)}})
	}
	line := func(dx, dy int) {
		out = append(out, opentype.Segment{Op: opentype.SegmentOpLineTo, Args: [3]opentype.SegmentPoint{point(dx, dy)}})
	}
	curve := func(a, b, c, d, e, f int) {
		out = append(out, opentype.Segment{Op: opentype.SegmentOpCubeTo, Args: [3]opentype.SegmentPoint{point(a, b), point(c, d), point(e, f)}})
	}
	first := true
	for i := 0; i < len(data); i++ {
		switch b := int(data[i]); {
		case b >= 32 && b <= 246:
			stack = append(stack, b-139)
			continue
		case b >= 247 && b <= 250:
			i++
			stack = append(stack, (b-247)*256+int(data[i])+108)
			continue
		case b >= 251 && b <= 254:
			i++
			stack = append(stack, -(b-251)*256-int(data[i])-108)
			continue
		case b == 28:
			stack = append(stack, int(int16(be16(data, i+1))))
			i += 2
			continue
		}
		if len(stack) > 48 {
			t.Fatalf("an operator has %d operands, want at most 48", len(stack))
		}
		if first {
			stack, first = stack[1:], false // the width
		}
		v := stack
		switch op := data[i]; op {
		case 21:
			move(v[0], v[1])
		case 22:
			move(v[0], 0)
		case 4:
			move(0, v[0])
		case 5:
			for ; len(v) > 0; v = v[2:] {
				line(v[0], v[1])
			}
		case 6, 7:
			for vertical := op == 7; len(v) > 0; v, vertical = v[1:], !vertical {
				if vertical {
					line(0, v[0])
				} else {
					line(v[0], 0)
				}
			}
		case 8:
			for ; len(v) > 0; v = v[6:] {
				curve(v[0], v[1], v[2], v[3], v[4], v[5])
			}
		case 26, 27:
			across := 0
			if len(v)%4 == 1 {
				across, v = v[0], v[1:]
			}
			for ; len(v) > 0; v, across = v[4:], 0 {
				if op == 26 {
					curve(across, v[0], v[1], v[2], 0, v[3])
				} else {
					curve(v[0], across, v[1], v[2], v[3], 0)
				}
			}
		case 30, 31:
			for vertical := op == 30; len(v) > 0; vertical = !vertical {
				rest := 0
				if len(v) == 5 {
					rest = v[4]
				}
				if vertical {
					curve(0, v[0], v[1], v[2], v[3], rest)
				} else {
					curve(v[0], 0, v[1], v[2], rest, v[3])
				}
				if v = v[4:]; len(v) == 1 {
					v = nil
				}
			}
		case 14:
			if i != len(data)-1 {
				t.Fatal("the charstring has bytes after its end")
			}
			return out
		default:
			t.Fatalf("the charstring has the unknown operator %d", op)
		}
		stack = stack[:0]
	}
	t.Fatal("the charstring does not end")
	return nil
}

// sample returns points on an outline: for each line and curve, the given number of points.
func sample(segments []opentype.Segment, scale float64, steps int) (out [][2]float64) {
	var pen [2]float64
	for _, s := range segments {
		var p [][2]float64
		for _, a := range s.ArgsSlice() {
			p = append(p, [2]float64{float64(a.X) * scale, float64(a.Y) * scale})
		}
		if s.Op != opentype.SegmentOpMoveTo {
			for i := range steps {
				// De Casteljau's algorithm
				q := append([][2]float64{pen}, p...)
				for u := float64(i+1) / float64(steps); len(q) > 1; q = q[:len(q)-1] {
					for k := range len(q) - 1 {
						q[k] = [2]float64{q[k][0] + (q[k+1][0]-q[k][0])*u, q[k][1] + (q[k+1][1]-q[k][1])*u}
					}
				}
				out = append(out, q[0])
			}
		}
		pen = p[len(p)-1]
	}
	return out
}

// distance returns the largest distance of a point from path. The points of path are joined by straight
// lines.
func distance(points, path [][2]float64) float64 {
	largest := 0.0
	for _, p := range points {
		nearest := math.Inf(1)
		for i := 1; i < len(path); i++ {
			a, b := path[i-1], path[i]
			dx, dy := b[0]-a[0], b[1]-a[1]
			u := 0.0
			if n := dx*dx + dy*dy; n > 0 {
				u = max(0, min(1, ((p[0]-a[0])*dx+(p[1]-a[1])*dy)/n))
			}
			nearest = min(nearest, math.Hypot(p[0]-a[0]-u*dx, p[1]-a[1]-u*dy))
		}
		if !math.IsInf(nearest, 1) {
			largest = max(largest, nearest)
		}
	}
	return largest
}
