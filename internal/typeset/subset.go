package typeset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"

	"github.com/go-text/typesetting/font"

	"github.com/certvault/certvault/internal/pdf"
)

// Subsets collects the glyphs of a file or page, one subset per face, and writes the fonts. It must
// be used by one goroutine at a time.
type Subsets struct {
	prefix string
	list   []*subset
	shared *Shared
	key    []byte
}

// NewSubsets returns an empty collection. The name of a font in the resources is the prefix and a number.
// The names of other fonts in the resources must be different.
func NewSubsets(prefix string) *Subsets { return &Subsets{prefix: prefix} }

// Adder adds an object to a PDF. It is a *pdf.Update or a *pdf.Writer.
type Adder interface {
	Add(obj pdf.Object) pdf.Ref
}

// Objects adds the fonts to a PDF and returns the dictionary for /Font of the resources. The bytes depend
// only on the glyphs that were drawn or preloaded, and on their order.
func (s *Subsets) Objects(to Adder) *pdf.Dict {
	fonts := pdf.NewDict()
	for _, sub := range s.list {
		fonts.Set(pdf.Name(sub.name), to.Add(sub.dict(to)))
	}
	return fonts
}

// subset returns the subset of a face.
func (s *Subsets) subset(f *face) *subset {
	for _, sub := range s.list {
		if sub.face.id == f.id { // a large font may have been read twice
			return sub
		}
	}
	sub := newSubset(s.prefix+strconv.Itoa(len(s.list)), f)
	s.list = append(s.list, sub)
	return sub
}

// subset contains the glyphs of a face that a file uses. A character id stands for the glyphs of a cluster
// and its text. So a glyph that is used for two texts has two ids, and readers extract both texts.
type subset struct {
	name string // in the resources
	face *face
	ids  map[string]int
	uses []use // by character id; 0 is .notdef
}

// use is what a character id of a subset stands for.
type use struct {
	parts   []part
	wide    int16 // kerning that is a part of advance
	text    string
	advance int // in font units
}

func newSubset(name string, f *face) *subset {
	s := &subset{name: name, face: f, ids: map[string]int{}}
	notdef := &cluster{parts: []part{{}}, advance: float64(f.advance(0)) / f.upem}
	s.add(appendKey(nil, notdef.parts, 0, notdef.text), notdef)
	return s
}

// appendKey appends the key of a cluster, which identifies it within its face.
func appendKey(key []byte, parts []part, wide int16, text string) []byte {
	for _, p := range parts {
		key = binary.BigEndian.AppendUint16(key, p.glyph)
		key = binary.BigEndian.AppendUint16(key, uint16(p.x)) //nolint:gosec // only a key
		key = binary.BigEndian.AppendUint16(key, uint16(p.y)) //nolint:gosec // only a key
	}
	if wide != 0 {
		key = binary.BigEndian.AppendUint16(append(key, 0xFE), uint16(wide)) //nolint:gosec // only a key
	}
	return append(append(key, 0xFF), text...) // text is UTF-8, which has no byte 0xFF
}

// char is a character id of a font of the PDF, with its width in thousandths of an em.
type char struct {
	font  string
	id    int
	width float64
}

// char returns the character id of a cluster in a shared font, or else in a subset.
func (s *Subsets) char(c *cluster) char {
	s.key = appendKey(s.key[:0], c.parts, c.wide, c.text)
	if s.shared != nil {
		if found, ok := s.shared.char(c.face.id, s.key); ok {
			return found
		}
	}
	sub := s.subset(c.face)
	id := sub.add(s.key, c)
	return char{sub.name, id, sub.width(id)}
}

// add returns the character id of a cluster. It adds the cluster if the key is not in the subset.
func (s *subset) add(key []byte, c *cluster) int {
	if id, ok := s.ids[string(key)]; ok {
		return id
	}
	id := len(s.uses)
	s.ids[string(key)] = id
	u := use{parts: c.parts, wide: c.wide, text: c.text, advance: int(math.Round(c.advance * s.face.upem))}
	if len(c.parts) == 1 { // without tracking and small kerning, so that the width is the same in every file
		u.advance = s.face.advance(c.parts[0].glyph) + int(c.wide)
	}
	s.uses = append(s.uses, u)
	return id
}

// width returns the width of a character id in thousandths of an em, rounded as in the PDF.
func (s *subset) width(id int) float64 { return thousandths(s.uses[id].advance, s.face.upem) }

func thousandths(advance int, upem float64) float64 {
	return math.Round(float64(advance) * 1000 / upem)
}

// advance returns the width of a glyph in font units.
func (f *face) advance(glyph uint16) int {
	if f.variable {
		return int(math.Round(float64(f.drawn.HorizontalAdvance(font.GID(glyph)))))
	}
	n := min(int(be16(f.hhea, hheaMetrics)), len(f.hmtx)/4)
	if n == 0 {
		return 0
	}
	return int(be16(f.hmtx, 4*min(int(glyph), n-1)))
}

// dict adds the objects of a font and returns its dictionary (ISO 32000-2, 9.7.6).
func (s *subset) dict(to Adder) *pdf.Dict {
	f := s.face
	data := s.compact()
	sum := sha256.Sum256(append(data, s.toUnicode()...))
	tag := make([]byte, 6, 7+len(f.name)) // ISO 32000-2, 9.9.2
	for i := range tag {
		tag[i] = 'A' + sum[i]%26
	}
	name := pdf.Name(append(append(tag, '+'), f.name...))
	widths := make(pdf.Array, len(s.uses))
	for id := range s.uses {
		widths[id] = pdf.Number(s.width(id))
	}
	const thousand = 1000
	scale := thousand / f.upem
	box := make(pdf.Array, len(f.box))
	for i, v := range f.box {
		box[i] = pdf.Number(math.Round(float64(v) * scale))
	}
	const symbolic, stem = 4, 80 // the glyphs are not of the standard Latin set; the stem is only a hint
	descriptor := to.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("FontDescriptor")},
		pdf.Entry{Key: "FontName", Value: name},
		pdf.Entry{Key: "Flags", Value: pdf.Integer(symbolic)},
		pdf.Entry{Key: "FontBBox", Value: box},
		pdf.Entry{Key: "ItalicAngle", Value: pdf.Integer(0)},
		pdf.Entry{Key: "Ascent", Value: pdf.Number(math.Round(f.ascent * thousand))},
		pdf.Entry{Key: "Descent", Value: pdf.Number(math.Round(-f.descent * thousand))},
		pdf.Entry{Key: "CapHeight", Value: pdf.Number(math.Round(f.capHeight * thousand))},
		pdf.Entry{Key: "StemV", Value: pdf.Integer(stem)},
		pdf.Entry{Key: "FontFile3", Value: to.Add(pdf.NewStream(pdf.NewDict(pdf.Entry{Key: "Subtype", Value: pdf.Name("CIDFontType0C")}), data))},
	))
	cid := pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Font")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("CIDFontType0")},
		pdf.Entry{Key: "BaseFont", Value: name},
		pdf.Entry{Key: "CIDSystemInfo", Value: pdf.NewDict(
			pdf.Entry{Key: "Registry", Value: pdf.String("Adobe")},
			pdf.Entry{Key: "Ordering", Value: pdf.String("Identity")},
			pdf.Entry{Key: "Supplement", Value: pdf.Integer(0)},
		)},
		pdf.Entry{Key: "FontDescriptor", Value: descriptor},
		pdf.Entry{Key: "W", Value: pdf.Array{pdf.Integer(0), widths}},
	)
	return pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Font")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Type0")},
		pdf.Entry{Key: "BaseFont", Value: name},
		pdf.Entry{Key: "Encoding", Value: pdf.Name("Identity-H")},
		pdf.Entry{Key: "DescendantFonts", Value: pdf.Array{to.Add(cid)}},
		pdf.Entry{Key: "ToUnicode", Value: to.Add(pdf.NewStream(nil, s.toUnicode()))},
	)
}

// maxChars is the maximum number of entries of a section of a CMap.
const maxChars = 100

// toUnicode returns the CMap from character ids to text (ISO 32000-2, 9.10.3).
func (s *subset) toUnicode() []byte {
	var b bytes.Buffer
	// In a small subset, most bytes are in this text. So it has only the parts that 9.10.3 requires.
	b.WriteString("/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapName /CV def\n/CMapType 2 def\n" +
		"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n")
	for from := 1; from < len(s.uses); from += maxChars {
		to := min(from+maxChars, len(s.uses))
		b.WriteString(strconv.Itoa(to - from))
		b.WriteString(" beginbfchar\n")
		for id := from; id < to; id++ {
			b.WriteByte('<')
			hex16(&b, id)
			b.WriteString("> <")
			for _, v := range utf16.Encode([]rune(s.uses[id].text)) {
				hex16(&b, int(v))
			}
			b.WriteString(">\n")
		}
		b.WriteString("endbfchar\n")
	}
	b.WriteString("endcmap\nend end\n") //nolint:dupword // two dictionaries
	return b.Bytes()
}
