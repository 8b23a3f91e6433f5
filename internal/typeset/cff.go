package typeset

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"sync"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
)

// compact returns the subset as a CID-keyed CFF font without other tables (Adobe Technical Note 5176).
// Its charstrings are written from the outlines of the face.
func (s *subset) compact() []byte {
	glyphs := make([][]byte, len(s.uses))
	for id := range s.uses {
		glyphs[id] = s.charstring(&s.uses[id])
	}
	n := len(glyphs)
	chars := cffIndex(glyphs...)
	names := cffIndex([]byte(s.face.name))
	registry := cffIndex([]byte("Adobe"), []byte("Identity"))
	none := cffIndex()
	charset := []byte{0} // format 0, only for .notdef
	if n > 1 {
		charset = []byte{2, 0, 1, byte((n - 2) >> 8 & 0xFF), byte((n - 2) & 0xFF)} // format 2: one range from CID 1
	}
	choice := []byte{3, 0, 1, 0, 0, 0, byte(n >> 8 & 0xFF), byte(n & 0xFF)} // FDSelect: all glyphs use the font dictionary 0
	private := slices.Concat(cffInt(0), []byte{20}, cffInt(0), []byte{21})  // defaultWidthX, nominalWidthX
	// Offsets take five bytes each, so that the length of the dictionary does not depend on them.
	top := func(charset, choice, chars, fonts int) []byte {
		const firstString = 391
		b := slices.Concat(cffInt(firstString), cffInt(firstString+1), cffInt(0), []byte{12, 30}) // ROS
		if upem := s.face.upem * s.face.cffScale(); upem != maxCFFUnits {
			unit := cffReal(1 / upem)
			b = slices.Concat(b, unit, cffInt(0), cffInt(0), unit, cffInt(0), cffInt(0), []byte{12, 7}) // FontMatrix
		}
		return slices.Concat(b, cffInt(n), []byte{12, 34}, // CIDCount
			cffOffset(charset), []byte{15}, cffOffset(choice), []byte{12, 37}, cffOffset(chars), []byte{17}, cffOffset(fonts), []byte{12, 36})
	}
	header := []byte{1, 0, 4, 4}
	atCharset := len(header) + len(names) + len(cffIndex(top(0, 0, 0, 0))) + len(registry) + len(none)
	atChoice := atCharset + len(charset)
	atChars := atChoice + len(choice)
	atPrivate := atChars + len(chars)
	atFonts := atPrivate + len(private)
	fonts := cffIndex(slices.Concat(cffOffset(len(private)), cffOffset(atPrivate), []byte{18}))
	return slices.Concat(header, names, cffIndex(top(atCharset, atChoice, atChars, atFonts)), registry, none, charset, choice, chars, private, fonts)
}

// charstring returns the width and the outlines of a character id.
func (s *subset) charstring(u *use) []byte {
	return append(cffInt(int(math.Round(float64(u.advance)*s.face.cffScale()))), s.face.drawing(u.parts)...)
}

// drawings is a cache of the results of face.drawing, by the result of appendKey. The certificates of a
// batch need mostly the same letters.
type drawings struct {
	mu   sync.Mutex
	list map[string][]byte
}

// maxDrawings is the maximum number of drawings of a face. A drawing needs about 200 bytes. A full cache is
// emptied before the next drawing is added.
const maxDrawings = 1024

// drawing returns the operators that draw glyphs at their places. The caller must not change the result.
func (f *face) drawing(parts []part) []byte {
	key := appendKey(make([]byte, 0, 64), parts, 0, "")
	f.drawings.mu.Lock()
	found, ok := f.drawings.list[string(key)]
	f.drawings.mu.Unlock()
	if ok {
		return found
	}
	c := charstring{scale: f.cffScale()}
	for _, p := range parts {
		segments := f.segments(p.glyph)
		for i := range segments {
			c.segment(&segments[i], p)
		}
	}
	c.flush()
	out := slices.Clip(append(c.data, opEnd))
	f.drawings.mu.Lock()
	defer f.drawings.mu.Unlock()
	if f.drawings.list == nil || len(f.drawings.list) >= maxDrawings {
		f.drawings.list = map[string][]byte{}
	}
	f.drawings.list[string(key)] = out
	return out
}

// maxCFFUnits is the usual number of units of an em in CFF fonts. Faces with more units are scaled down to
// it, because smaller coordinates are encoded in fewer bytes.
const maxCFFUnits = 1000

// cffScale returns the number of units of the CFF font for one unit of the face.
func (f *face) cffScale() float64 { return min(1, maxCFFUnits/f.upem) }

// segments returns the outline of a glyph in font units without quadratic curves. It returns no
// segments for a damaged glyph.
func (f *face) segments(glyph uint16) (out []opentype.Segment) {
	defer func() { // the reader may panic on a damaged font
		if recover() != nil {
			out = nil
		}
	}()
	outline, ok := f.drawn.GlyphData(font.GID(glyph)).(font.GlyphOutline)
	if !ok {
		return nil
	}
	return joinCurves(slices.Clone(outline.Segments), float32(f.upem/maxCFFUnits/2))
}

// cffIndex returns an INDEX.
func cffIndex(items ...[]byte) []byte {
	if len(items) == 0 {
		return []byte{0, 0}
	}
	data := bytes.Join(items, nil)
	size := (bits.Len(uint(len(data)+1)) + 7) / 8                                   // of an offset in bytes
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(items))), byte(size)) //nolint:gosec // at most the glyphs of the font
	at := 1
	offset := func() {
		for i := size - 1; i >= 0; i-- {
			b = append(b, byte(at>>(8*i)&0xFF))
		}
	}
	offset()
	for _, item := range items {
		at += len(item)
		offset()
	}
	return append(b, data...)
}

// cffInt returns an integer operand of at most 16 bits. A larger value is replaced with the nearest one.
func cffInt(v int) []byte {
	v = int(narrow(v))
	switch {
	case v >= -107 && v <= 107:
		return []byte{byte(v + 139)}
	case v >= 108 && v <= 1131:
		v -= 108
		return []byte{byte(v>>8) + 247, byte(v & 0xFF)}
	case v >= -1131 && v <= -108:
		v = -v - 108
		return []byte{byte(v>>8) + 251, byte(v & 0xFF)}
	}
	return []byte{28, byte(v >> 8 & 0xFF), byte(v & 0xFF)}
}

// cffOffset returns an integer operand of a dictionary in five bytes.
func cffOffset(v int) []byte { return binary.BigEndian.AppendUint32([]byte{29}, uint32(v)) } //nolint:gosec // smaller than the font

// cffReal returns a real operand of a dictionary, with four bits for each digit.
func cffReal(v float64) []byte {
	const point, end = 0xA, 0xF
	var digits []byte
	for _, c := range []byte(strconv.FormatFloat(v, 'f', -1, 64)) {
		if c == '.' {
			digits = append(digits, point)
		} else {
			digits = append(digits, c-'0')
		}
	}
	digits = append(digits, end)
	if len(digits)%2 == 1 {
		digits = append(digits, end)
	}
	out := []byte{30}
	for i := 0; i < len(digits); i += 2 {
		out = append(out, digits[i]<<4|digits[i+1])
	}
	return out
}
