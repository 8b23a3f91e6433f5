package typeset

import "encoding/binary"

// glyphTable has the outlines of a TrueType font (OpenType, glyf and loca). Package font reads the
// outlines; this package only checks their limits.
type glyphTable struct {
	glyf []byte
	loca []uint32
}

// Flags of a component of a glyph, and the length of the header of a glyph (OpenType, glyf).
const (
	argsAreWords   = 0x0001
	haveScale      = 0x0008
	moreComponents = 0x0020
	haveScales     = 0x0040
	haveMatrix     = 0x0080
	glyphHeader    = 10 // bytes: the number of contours and the bounding box
)

// checkGlyphs checks that the glyphs are within the table glyf, and that no glyph has too many points. It
// returns nil if glyf is nil, because the outlines are then in another format.
func checkGlyphs(head, maxp, glyf, loca []byte) error {
	if glyf == nil {
		return nil
	}
	if len(maxp) < maxpLength {
		return errMaxp
	}
	size, scale := 4, uint32(1)
	if be16(head, headLocaFormat) == 0 {
		size, scale = 2, 2
	}
	n := int(be16(maxp, maxpGlyphs))
	if n+1 > len(loca)/size {
		return errLoca
	}
	t := &glyphTable{glyf: glyf, loca: make([]uint32, n+1)}
	for i := range t.loca {
		if size == 2 {
			t.loca[i] = scale * uint32(be16(loca, i*size))
		} else {
			t.loca[i] = binary.BigEndian.Uint32(loca[i*size:])
		}
		if int64(t.loca[i]) > int64(len(glyf)) || i > 0 && t.loca[i] < t.loca[i-1] {
			return errLoca
		}
	}
	return t.checkComponents()
}

// glyph returns the data of a glyph, or nil if it has no outline.
func (t *glyphTable) glyph(glyph uint16) []byte {
	if int(glyph)+1 >= len(t.loca) {
		return nil
	}
	data := t.glyf[t.loca[glyph]:t.loca[glyph+1]]
	if len(data) < glyphHeader {
		return nil
	}
	return data
}

// componentLength returns the length of a component record in bytes.
func componentLength(flags uint16) int {
	length := 6
	if flags&argsAreWords != 0 {
		length += 2
	}
	switch {
	case flags&haveScale != 0:
		length += 2
	case flags&haveScales != 0:
		length += 4
	case flags&haveMatrix != 0:
		length += 8
	}
	return length
}

// Limits of composite glyphs. Without them, a font of a few kilobytes could have a glyph of millions of
// points.
const (
	maxNesting = 8
	maxPoints  = 1 << 16 // of a glyph and its components
)

// checkComponents checks the limits of all glyphs.
func (t *glyphTable) checkComponents() error {
	c := &componentCounter{table: t, points: make([]int, len(t.loca))}
	for glyph := range max(0, len(t.loca)-1) {
		if c.count(uint16(glyph), 0) > maxPoints {
			return errComponents
		}
	}
	return nil
}

// componentCounter counts the points of glyphs.
type componentCounter struct {
	table  *glyphTable
	points []int // by glyph: the result of count, 0 before it is counted, or -1 while it is counted
}

// count returns the number of points of a glyph and its components, plus 1 for each glyph. It returns
// more than maxPoints if the glyph contains itself or is nested too deeply.
func (c *componentCounter) count(glyph uint16, depth int) int {
	data := c.table.glyph(glyph)
	switch {
	case data == nil:
		return 1
	case c.points[glyph] < 0 || depth > maxNesting:
		return maxPoints + 1
	case c.points[glyph] > 0:
		return c.points[glyph]
	}
	if n := int(int16(be16(data, 0))); n >= 0 { //nolint:gosec // a signed number
		c.points[glyph] = simplePoints(data, n) + 1
		return c.points[glyph]
	}
	c.points[glyph] = -1
	total := 1
	for k := glyphHeader; k+4 <= len(data) && total <= maxPoints; {
		flags := be16(data, k)
		total += c.count(be16(data, k+2), depth+1)
		if k += componentLength(flags); flags&moreComponents == 0 {
			break
		}
	}
	c.points[glyph] = total
	return total
}

// simplePoints returns the number of points of a glyph without components.
func simplePoints(data []byte, contours int) int {
	if k := glyphHeader + 2*(contours-1); contours > 0 && k+2 <= len(data) {
		return int(be16(data, k)) + 1
	}
	return 0
}
