package typeset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
	"golang.org/x/text/unicode/norm"
)

// face is a font that was read. It does not change, except for its cache of drawings, and can be used by
// several goroutines.
type face struct {
	id   string // from faceID; the same each time the font is read
	name string // for the PDF: letters, digits and hyphens
	font *font.Font
	upem float64 // units per em

	// ascent, descent and capHeight are in ems; box is in font units.
	ascent, descent, capHeight float64
	box                        [4]int16

	// drawn returns outlines and has the coordinates of an instance. After readFace, only its methods
	// GlyphData, HorizontalAdvance and Coords are called, because only these are safe for several
	// goroutines.
	drawn    *font.Face
	variable bool

	hhea, hmtx []byte // tables with the widths of glyphs

	drawings drawings
}

// These are lengths, offsets, flags and limits of the tables of OpenType.
const (
	headLength, headBox, headLocaFormat   = 54, 36, 50
	hheaLength, hheaMetrics               = 36, 34
	maxpLength, maxpGlyphs                = 32, 4
	os2Type                               = 8
	restricted, noSubsetting, bitmapsOnly = 0x0002, 0x0100, 0x0200 // OS/2 fsType
	minUnitsPerEm, maxUnitsPerEm          = 16, 16384              // OpenType, head
)

// readFace reads a TrueType or OpenType font. index is the position of the font in a collection, or 0.
// instance is the number of an instance of a variable font, from 1, or 0 for another font.
func readFace(data []byte, index, instance int, name string) (f *face, err error) {
	defer func() { // the reader panics on some damaged fonts
		if r := recover(); r != nil {
			f, err = nil, fontError(FontDamaged, "%s is damaged: %v", name, r)
		}
	}()
	loaders, err := fontsOf(data, name)
	if err != nil {
		return nil, err
	}
	if index >= len(loaders) {
		return nil, fontError(FontDamaged, "%s has %d fonts", name, len(loaders))
	}
	l := loaders[index]
	table := func(tag string) []byte {
		t, err := l.RawTable(opentype.MustNewTag(tag))
		if err != nil {
			return nil
		}
		return t
	}
	if err := embeddable(table("OS/2"), name); err != nil {
		return nil, err
	}
	variable := l.HasTable(opentype.MustNewTag("fvar"))
	if variable && instance == 0 {
		return nil, fontError(FontFormat, "%s is a variable font", name)
	}
	f = &face{id: faceID(data, index, instance), name: postScriptName(name), hhea: table("hhea"), hmtx: table("hmtx")}
	head := table("head")
	if f.font, err = font.NewFont(l); err != nil {
		return nil, fontError(FontDamaged, "%s is damaged: %v", name, err)
	}
	f.upem = float64(f.font.Upem())
	if len(head) < headLength || len(f.hhea) < hheaLength || f.upem < minUnitsPerEm || f.upem > maxUnitsPerEm {
		return nil, fontError(FontDamaged, "%s has no metrics", name)
	}
	for i := range f.box {
		f.box[i] = int16(be16(head, headBox+2*i)) //nolint:gosec // a signed number
	}
	f.drawn = font.NewFace(f.font)
	if variable {
		list, err := instances(table("fvar"))
		if err != nil || instance > len(list) {
			return nil, fontError(FontDamaged, "%s has no instance %d", name, instance)
		}
		f.drawn.SetCoords(f.font.NormalizeVariations(list[instance-1].coordinates))
		f.variable = true
	}
	if e, ok := f.drawn.FontHExtents(); ok {
		f.ascent, f.descent = float64(e.Ascender)/f.upem, -float64(e.Descender)/f.upem
	}
	f.capHeight = float64(f.drawn.LineMetric(font.CapHeight)) / f.upem
	if f.capHeight <= 0 || f.capHeight > 1 {
		f.capHeight = 0.7
	}
	if err := checkGlyphs(head, table("maxp"), table("glyf"), table("loca")); err != nil {
		return nil, fontError(FontDamaged, "%s is damaged: %v", name, err)
	}
	return f, nil
}

// fontsOf returns the fonts of a file, after a check of their tables.
func fontsOf(data []byte, name string) ([]*opentype.Loader, error) {
	switch err := checkTables(data); {
	case errors.Is(err, errFormat):
		return nil, fontError(FontFormat, "%s is not a TrueType or OpenType font: use a file that ends in .ttf, .otf or .ttc", name)
	case err != nil:
		return nil, fontError(FontDamaged, "%s is damaged: %v", name, err)
	}
	loaders, err := opentype.NewLoaders(bytes.NewReader(data))
	if err != nil {
		return nil, fontError(FontDamaged, "%s is damaged: %v", name, err)
	}
	return loaders, nil
}

// embeddable returns an error if the licence bits of the table OS/2 do not allow a subset in a document.
func embeddable(os2 []byte, name string) error {
	if len(os2) < os2Type+2 {
		return nil
	}
	bits := be16(os2, os2Type)
	var reason string
	switch {
	case bits&restricted != 0:
		reason = "forbid the font in documents: use another font, or ask the maker of the font for a version that allows this"
	case bits&noSubsetting != 0:
		reason = "allow only the whole font in a document, and certificates contain a part of it: use another font"
	case bits&bitmapsOnly != 0:
		reason = "allow only its bitmaps in documents: use another font"
	default:
		return nil
	}
	return fontError(FontNotEmbeddable, "the license bits of %s (fsType 0x%04X) %s", name, bits, reason)
}

// faceID returns the identity of a font: the first half of the digest of its file, its index in a
// collection, and its instance.
func faceID(data []byte, index, instance int) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x.%d.%d", sum[:16], index, instance)
}

// Formats of font files (OpenType, otff), and limits.
const (
	magicTrueType   = 0x00010000
	magicApple      = 0x74727565 // true
	magicOpenType   = 0x4F54544F // OTTO
	magicCollection = 0x74746366 // ttcf
	maxCollected    = 64         // fonts of a collection
	maxTables       = 64
)

var (
	errFormat     = errors.New("it is not a TrueType or OpenType font")
	errTables     = errors.New("its list of tables is damaged")
	errMaxp       = errors.New("its table maxp is too short")
	errLoca       = errors.New("its table loca is wrong")
	errComponents = errors.New("a glyph has too many points")
	errItems      = errors.New("its tables have too many items")
	errOffsets    = errors.New("its glyphs overlap in the file")
	errInstances  = errors.New("its table fvar is wrong")
	errCFF        = errors.New("its table CFF is wrong")
	errSteps      = errors.New("the outline of a glyph is too long")
)

// checkTables checks that the tables of a font, or of all fonts of a collection, are within the file.
// The reader of go-text allocates memory for the length of a table before it reads the table.
func checkTables(data []byte) error {
	const header, record = 12, 16
	at := []uint32{0}
	if len(data) < header {
		return errFormat
	}
	if binary.BigEndian.Uint32(data) == magicCollection {
		n := binary.BigEndian.Uint32(data[8:])
		if n > maxCollected || int(n)*4+header > len(data) {
			return errTables
		}
		at = make([]uint32, n)
		for i := range at {
			at[i] = binary.BigEndian.Uint32(data[header+4*i:])
		}
	}
	for _, from := range at {
		if int64(from)+header > int64(len(data)) {
			return errTables
		}
		font := data[from:]
		if magic := binary.BigEndian.Uint32(font); magic != magicTrueType && magic != magicApple && magic != magicOpenType {
			return errFormat
		}
		n := int(be16(font, 4))
		if n > maxTables || header+n*record > len(font) {
			return errTables
		}
		for i := range n {
			entry := font[header+i*record:]
			offset, length := binary.BigEndian.Uint32(entry[8:]), binary.BigEndian.Uint32(entry[12:])
			if int64(offset)+int64(length) > int64(len(data)) {
				return errTables
			}
		}
	}
	return nil
}

func be16(b []byte, i int) uint16 { return binary.BigEndian.Uint16(b[i:]) }

// postScriptName returns the ASCII letters, digits and hyphens of a name, which need no escape in PDF. An
// underscore becomes a hyphen.
func postScriptName(name string) string {
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			out = append(out, c)
		case c == '_':
			out = append(out, '-')
		}
	}
	return string(out)
}

// covers reports whether the face has glyphs for all visible characters of text.
func (f *face) covers(text []rune) bool {
	for _, r := range text {
		if !f.has(r) {
			return false
		}
	}
	return true
}

// has reports whether the face has a glyph for a character, or glyphs for its canonical decomposition. The
// shaper uses the decomposition if the glyph is missing. Invisible characters need no glyph.
func (f *face) has(r rune) bool {
	if _, ok := f.font.NominalGlyph(r); ok || invisible(r) {
		return true
	}
	parts := []rune(norm.NFD.String(string(r)))
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		if _, ok := f.font.NominalGlyph(p); !ok {
			return false
		}
	}
	return true
}

// invisible reports whether a character needs no glyph: spaces, joiners, variation selectors and
// controls of direction, but not the number signs of Arabic, which are format characters too.
func invisible(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Variation_Selector, r) ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
