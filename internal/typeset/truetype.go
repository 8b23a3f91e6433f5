package typeset

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Flags of a composite glyph (OpenType, glyf).
const (
	argsAreWords     = 0x0001
	argsAreOffsets   = 0x0002
	haveScale        = 0x0008
	moreComponents   = 0x0020
	haveScales       = 0x0040
	haveMatrix       = 0x0080
	haveInstructions = 0x0100
	useMyMetrics     = 0x0200
	glyphHeader      = 10 // bytes: number of contours and box
)

// trueType returns the subset as a TrueType font without hints. Glyph n is character id n; the
// components of composite glyphs follow.
func (s *subset) trueType() []byte {
	f := s.face
	w := &glyfWriter{face: f, uses: slices.Clone(s.uses), at: map[uint16]int{}}
	var loca, hmtx []byte
	for i := 0; i < len(w.uses); i++ { //nolint:intrange // it grows
		u := w.uses[i]
		loca = binary.BigEndian.AppendUint32(loca, uint32(len(w.glyf))) //nolint:gosec // smaller than the font
		var data []byte
		if len(u.parts) == 1 && u.parts[0].x == 0 && u.parts[0].y == 0 {
			data = w.outline(u.parts[0].glyph)
		} else {
			data = w.composite(u.parts)
		}
		bearing := uint16(0)
		if len(data) >= glyphHeader { // FreeType moves a glyph by the difference to its xMin
			bearing = be16(data, 2)
		}
		hmtx = binary.BigEndian.AppendUint16(hmtx, uint16(max(0, min(math.MaxUint16, u.advance))))
		hmtx = binary.BigEndian.AppendUint16(hmtx, bearing)
		w.glyf = append(w.glyf, data...)
		w.glyf = append(w.glyf, make([]byte, -len(data)&3)...)
	}
	loca = binary.BigEndian.AppendUint32(loca, uint32(len(w.glyf))) //nolint:gosec // smaller than the font
	n := uint16(len(w.uses))                                        //nolint:gosec // at most the glyphs of the font
	head, hhea, maxp := slices.Clone(f.head), slices.Clone(f.hhea), slices.Clone(f.maxp)
	const adjustment, long = 8, 1
	binary.BigEndian.PutUint32(head[adjustment:], 0)
	binary.BigEndian.PutUint16(head[headLocaFormat:], long)
	binary.BigEndian.PutUint16(hhea[hheaMetrics:], n)
	binary.BigEndian.PutUint16(maxp[maxpGlyphs:], n)
	w.limits(maxp)
	out, headAt := sfnt([]table{{"glyf", w.glyf}, {"head", head}, {"hhea", hhea}, {"hmtx", hmtx}, {"loca", loca}, {"maxp", maxp}})
	binary.BigEndian.PutUint32(out[headAt+adjustment:], 0xB1B0AFBA-checksum(out))
	return out
}

// glyfWriter writes the glyphs of a subset.
type glyfWriter struct {
	face *face
	uses []use          // by glyph; components are appended
	at   map[uint16]int // by glyph of the face: the component
	glyf []byte

	points, contours, components int // of the largest composite of a cluster
}

// component returns the glyph of the subset that is a glyph of the face.
func (w *glyfWriter) component(glyph uint16) uint16 {
	if w.at[glyph] == 0 {
		w.at[glyph] = len(w.uses)
		w.uses = append(w.uses, use{parts: []part{{glyph: glyph}}})
	}
	return uint16(w.at[glyph]) //nolint:gosec // at most the glyphs of the font
}

// glyph returns the data of a glyph of the face, or nil if it has no outline.
func (f *face) glyph(glyph uint16) []byte {
	if int(glyph)+1 >= len(f.loca) {
		return nil
	}
	data := f.glyf[f.loca[glyph]:f.loca[glyph+1]]
	if len(data) < glyphHeader {
		return nil
	}
	return data
}

// outline returns the outline of a glyph without instructions and with the components of the subset.
// A damaged outline is empty.
func (w *glyfWriter) outline(glyph uint16) []byte {
	data := slices.Clone(w.face.glyph(glyph))
	if data == nil {
		return nil
	}
	if n := int(int16(be16(data, 0))); n >= 0 { //nolint:gosec // a signed number
		k := glyphHeader + 2*n
		if k+2 > len(data) {
			return nil
		}
		length := int(be16(data, k))
		if k+2+length > len(data) {
			return nil
		}
		data = append(data[:k+2], data[k+2+length:]...)
		binary.BigEndian.PutUint16(data[k:], 0)
		return data
	}
	for k := glyphHeader; ; {
		if k+4 > len(data) {
			return nil
		}
		flags := be16(data, k)
		binary.BigEndian.PutUint16(data[k:], flags&^(haveInstructions|useMyMetrics))
		binary.BigEndian.PutUint16(data[k+2:], w.component(be16(data, k+2)))
		if k += componentLength(flags); k > len(data) {
			return nil
		}
		if flags&moreComponents == 0 {
			return data[:k]
		}
	}
}

// componentLength returns the length of a component record.
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

// composite returns a cluster as one glyph that consists of others.
func (w *glyfWriter) composite(parts []part) []byte {
	box := [4]int{math.MaxInt16, math.MaxInt16, math.MinInt16, math.MinInt16}
	var body []byte
	last, points, contours, components := -1, 0, 0, 0
	for _, p := range parts {
		data := w.face.glyph(p.glyph)
		if data == nil {
			continue
		}
		for i, move := range []int{int(p.x), int(p.y)} {
			box[i] = min(box[i], int(int16(be16(data, 2+2*i)))+move)     //nolint:gosec // a signed number
			box[2+i] = max(box[2+i], int(int16(be16(data, 6+2*i)))+move) //nolint:gosec // a signed number
		}
		pt, ct := w.face.measure(p.glyph, 0)
		points, contours, components = points+pt, contours+ct, components+1
		last = len(body)
		for _, v := range []uint16{argsAreWords | argsAreOffsets | moreComponents, w.component(p.glyph), uint16(p.x), uint16(p.y)} { //nolint:gosec // signed numbers
			body = binary.BigEndian.AppendUint16(body, v)
		}
	}
	if last < 0 {
		return nil
	}
	w.points, w.contours, w.components = max(w.points, points), max(w.contours, contours), max(w.components, components)
	binary.BigEndian.PutUint16(body[last:], argsAreWords|argsAreOffsets)
	data := []byte{0xFF, 0xFF}
	for _, v := range box {
		data = binary.BigEndian.AppendUint16(data, uint16(narrow(v))) //nolint:gosec // a signed number
	}
	return append(data, body...)
}

// maxNesting is the maximum depth of components that is measured.
const maxNesting = 8

// measure returns the numbers of points and contours of a glyph.
func (f *face) measure(glyph uint16, depth int) (points, contours int) {
	data := f.glyph(glyph)
	if data == nil || depth > maxNesting {
		return 0, 0
	}
	if n := int(int16(be16(data, 0))); n >= 0 { //nolint:gosec // a signed number
		if k := glyphHeader + 2*(n-1); n > 0 && k+2 <= len(data) {
			points = int(be16(data, k)) + 1
		}
		return points, n
	}
	for k := glyphHeader; k+4 <= len(data); {
		flags := be16(data, k)
		pt, ct := f.measure(be16(data, k+2), depth+1)
		points, contours = points+pt, contours+ct
		if k += componentLength(flags); flags&moreComponents == 0 {
			break
		}
	}
	return points, contours
}

// limits sets the limits of maxp: those of the face, of the composites, and none of instructions.
func (w *glyfWriter) limits(maxp []byte) {
	const points, contours, instructions, components, depth = 10, 12, 14, 28, 30
	raise := func(at, v int) {
		binary.BigEndian.PutUint16(maxp[at:], uint16(min(math.MaxUint16, max(v, int(be16(maxp, at)))))) //nolint:gosec // it fits
	}
	raise(points, w.points)
	raise(contours, w.contours)
	for at := instructions; at < components; at += 2 {
		binary.BigEndian.PutUint16(maxp[at:], 0)
	}
	binary.BigEndian.PutUint16(maxp[instructions:], 1) // maxZones
	raise(components, w.components)
	binary.BigEndian.PutUint16(maxp[depth:], be16(maxp, depth)+1)
}

type table struct {
	tag  string
	data []byte
}

// sfnt joins tables, which are in the order of their tags (OpenType, otff), and returns the position
// of head. Tables begin at multiples of four bytes, as some viewers require.
func sfnt(tables []table) (out []byte, head int) {
	const version, record, header = 0x00010000, 16, 12
	n := len(tables)
	log := bits.Len(uint(n)) - 1
	out = binary.BigEndian.AppendUint32(nil, version)
	for _, v := range []int{n, record << log, log, n*record - record<<log} {
		out = binary.BigEndian.AppendUint16(out, uint16(v)) //nolint:gosec // a few tables
	}
	var body []byte
	for _, t := range tables {
		at := header + record*n + len(body)
		if t.tag == "head" {
			head = at
		}
		data := append(slices.Clone(t.data), make([]byte, -len(t.data)&3)...)
		out = append(out, t.tag...)
		out = binary.BigEndian.AppendUint32(out, checksum(data))
		out = binary.BigEndian.AppendUint32(out, uint32(at))          //nolint:gosec // smaller than the font
		out = binary.BigEndian.AppendUint32(out, uint32(len(t.data))) //nolint:gosec // smaller than the font
		body = append(body, data...)
	}
	return append(out, body...), head
}

// checksum returns the sum of 32-bit numbers.
func checksum(data []byte) (sum uint32) {
	for ; len(data) >= 4; data = data[4:] {
		sum += binary.BigEndian.Uint32(data)
	}
	return sum
}
