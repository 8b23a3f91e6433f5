package typeset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
	"github.com/go-text/typesetting/font/opentype/tables"
)

// Info describes a font file. It is stored with the file as JSON.
type Info struct {
	// Family is the family of the first face.
	Family string `json:"family"`
	// Faces are the faces of the file: one, those of a collection, or the named instances of a
	// variable font.
	Faces []Face `json:"faces"`
}

// Face is a face of a font file.
type Face struct {
	Family string `json:"family"`
	Style  string `json:"style"` // such as "Semibold Italic", for people
	Weight int    `json:"weight"`
	Italic bool   `json:"italic,omitempty"`
	// Index is the position of the font in a collection. Instance is the number of the instance of a
	// variable font, from 1, or 0.
	Index    int `json:"index,omitempty"`
	Instance int `json:"instance,omitempty"`
}

// Uploaded is a font file that an institution has uploaded.
type Uploaded struct {
	// SHA256 is the digest of the file, and Size is its length in bytes.
	SHA256 [sha256.Size]byte
	Size   int64
	// Info is the result of Inspect.
	Info Info
	// Read returns the file. It is called when a text first needs a face of the file, and again after an
	// error or after the face was removed from memory.
	Read func() ([]byte, error)
}

// MaxFontSize is the maximum length of a font file in bytes.
const MaxFontSize = maxFontSize

// Limits of uploaded files.
const (
	maxFaces      = 64
	maxAxes       = 16
	maxInstances  = 1024
	maxNameLength = 100 // characters of a family or style
)

// Inspect checks an uploaded font file and returns its family and its faces. The file may be a TrueType
// or OpenType font, static or variable, or a collection of such fonts. The error is a *FontError.
func Inspect(data []byte) (info Info, err error) {
	defer func() { // the reader panics on some damaged fonts
		if r := recover(); r != nil {
			info, err = Info{}, fontError(FontDamaged, "the file is damaged: %v", r)
		}
	}()
	const name = "the file"
	if len(data) > maxFontSize {
		return Info{}, fontError(FontTooLarge, "the file has %d bytes; at most %d bytes are allowed", len(data), maxFontSize)
	}
	if _, err := fontsOf(data, name); err != nil {
		return Info{}, err
	}
	data = hideTables(data)
	loaders, err := fontsOf(data, name)
	if err != nil {
		return Info{}, err
	}
	outlines := &charstrings{}
	for i, l := range loaders {
		faces, err := facesOf(l, outlines)
		if err != nil {
			return Info{}, err
		}
		for _, face := range faces {
			face.Index = i
			same := func(have Face) bool {
				return have.Family == face.Family && have.Weight == face.Weight && have.Italic == face.Italic
			}
			if !slices.ContainsFunc(info.Faces, same) {
				info.Faces = append(info.Faces, face)
			}
		}
		if len(info.Faces) > maxFaces {
			return Info{}, fontError(FontTooLarge, "the file has more than %d faces", maxFaces)
		}
		if _, err := readFace(data, i, faces[0].Instance, name); err != nil {
			return Info{}, err
		}
	}
	if len(info.Faces) == 0 {
		return Info{}, fontError(FontDamaged, "the file has no font")
	}
	info.Family = info.Faces[0].Family
	return info, nil
}

// facesOf returns the face of a font, or the instances of a variable font.
func facesOf(l *opentype.Loader, outlines *charstrings) ([]Face, error) {
	raw := func(tag string) []byte {
		t, err := l.RawTable(opentype.MustNewTag(tag))
		if err != nil {
			return nil
		}
		return t
	}
	if err := embeddable(raw("OS/2"), "the font"); err != nil {
		return nil, err
	}
	cff := raw("CFF ")
	switch {
	case raw("CFF2") != nil:
		return nil, fontError(FontFormat, "the font is a variable font with outlines of the format CFF2: use its TrueType version (.ttf) or one of its static fonts")
	case cff == nil && raw("glyf") == nil:
		return nil, fontError(FontNoOutlines, "the font has only pictures of characters: use a font with outlines")
	case cff != nil:
		if err := outlines.check(cff); err != nil {
			return nil, fontError(FontDamaged, "the font is damaged: %v", err)
		}
	}
	if err := checkItems(l); err != nil {
		return nil, fontError(FontDamaged, "the font is damaged: %v", err)
	}
	names, _, err := tables.ParseName(raw("name"))
	if err != nil {
		return nil, fontError(FontDamaged, "the font is damaged: its table name cannot be read: %v", err)
	}
	about, _ := font.Describe(l, nil)
	const subfamily, typographicSubfamily = 2, 17
	face := Face{
		Family: readable(about.Family), Style: cmp.Or(readable(names.Name(typographicSubfamily)), readable(names.Name(subfamily)), "Regular"),
		Weight: weightOf(float64(about.Aspect.Weight)), Italic: about.Aspect.Style == font.StyleItalic,
	}
	if face.Family == "" {
		return nil, fontError(FontDamaged, "the font is damaged: it has no name")
	}
	fvar := raw("fvar")
	if fvar == nil {
		return []Face{face}, nil
	}
	list, err := instances(fvar)
	if err != nil {
		return nil, fontError(FontDamaged, "the font is damaged: %v", err)
	}
	var out []Face
	for i, instance := range list {
		if instance.other {
			continue
		}
		named := face
		named.Instance = i + 1
		named.Style = cmp.Or(readable(names.Name(tables.NameID(instance.name))), face.Style)
		if instance.weight > 0 {
			named.Weight = weightOf(instance.weight)
		}
		named.Italic = face.Italic || instance.italic
		out = append(out, named)
	}
	return out, nil
}

// weightOf returns a weight from 1 to 1000. Weights below 10, which some old fonts have, are multiplied by
// 100.
func weightOf(w float64) int {
	if w > 0 && w < 10 {
		w *= 100
	}
	return int(math.Round(max(1, min(1000, w))))
}

// readable returns a name without invisible characters, shortened to maxNameLength.
func readable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxNameLength {
		s = string(runes[:maxNameLength])
	}
	return strings.TrimSpace(s)
}

// hidden are the tables of uploaded fonts that are not read. They contain, for example, layout for Apple
// systems and for Graphite, pictures, and metrics of vertical text.
var hidden = []string{
	"morx", "mort", "kerx", "trak", "feat", "ankr", "ltag", "just", "bsln", "prop", "opbd", "lcar",
	"SVG ", "sbix", "CBDT", "CBLC", "EBDT", "EBLC", "EBSC", "bdat", "bloc", "bhed", "COLR", "CPAL",
	"vhea", "vmtx", "VVAR", "VORG", "BASE", "JSTF", "MATH", "Silf", "Glat", "Gloc", "Sill", "Feat",
}

// hideTables returns a copy of a font file in which the tags of the hidden tables are replaced with
// spaces, so that these tables are not read. checkTables must have accepted the file.
func hideTables(data []byte) []byte {
	const header, record = 12, 16
	data = bytes.Clone(data)
	at := []uint32{0}
	if binary.BigEndian.Uint32(data) == magicCollection {
		at = make([]uint32, binary.BigEndian.Uint32(data[8:]))
		for i := range at {
			at[i] = binary.BigEndian.Uint32(data[header+4*i:])
		}
	}
	for _, from := range at {
		list := data[from:]
		for i := range int(be16(list, 4)) {
			if tag := list[header+i*record:][:4]; slices.Contains(hidden, string(tag)) {
				copy(tag, "    ")
			}
		}
	}
	return data
}

// instance is a named instance of a variable font.
type instance struct {
	name        uint16
	coordinates []float32
	weight      float64 // 0 if the font has no axis wght
	italic      bool
	other       bool // differs from the default instance in another axis, such as the width
}

// instances returns the named instances of the table fvar. If other is true for all of them, it adds the
// default instance.
func instances(fvar []byte) ([]instance, error) {
	const header, axisSize, fixed = 16, 20, 1 << 16
	if len(fvar) < header {
		return nil, errInstances
	}
	from, axes, size := int(be16(fvar, 4)), int(be16(fvar, 8)), int(be16(fvar, 10))
	count, length := int(be16(fvar, 12)), int(be16(fvar, 14))
	if axes == 0 || axes > maxAxes || count > maxInstances || size != axisSize || length < 4+4*axes || from+axes*axisSize+count*length > len(fvar) {
		return nil, errInstances
	}
	value := func(at int) float32 {
		return float32(int32(binary.BigEndian.Uint32(fvar[at:]))) / fixed //nolint:gosec // a signed number
	}
	read := func(name uint16, coordinate func(axis int) float32) instance {
		out := instance{name: name}
		for axis := range axes {
			at := from + axis*axisSize
			v := coordinate(axis)
			out.coordinates = append(out.coordinates, v)
			switch string(fvar[at : at+4]) {
			case "wght":
				out.weight = float64(v)
			case "ital", "slnt":
				out.italic = out.italic || v != 0
			case "opsz":
			default:
				out.other = out.other || v != value(at+8)
			}
		}
		return out
	}
	var out []instance
	usable := false
	for i := range count {
		at := from + axes*axisSize + i*length
		next := read(be16(fvar, at), func(axis int) float32 { return value(at + 4 + 4*axis) })
		usable = usable || !next.other
		out = append(out, next)
	}
	if !usable {
		out = append(out, read(0, func(axis int) float32 { return value(from + axis*axisSize + 8) }))
	}
	return out, nil
}

// With returns the fonts of f and the uploaded fonts. A style selects an uploaded font by its family. If
// several faces of the family are equally near to the style, the uploaded face that is last in the list
// is used. Texts that prefer another family use uploaded fonts for characters that no other font has.
// The fonts in memory are shared with f.
func (f *Fonts) With(uploaded ...Uploaded) *Fonts {
	out := &Fonts{entries: slices.Clone(f.entries), cache: f.cache}
	for _, u := range uploaded {
		for _, face := range u.Info.Faces {
			out.entries = append(out.entries, &entry{
				name: cmp.Or(postScriptName(strings.ReplaceAll(face.Family+"-"+face.Style, " ", "")), "Font"), family: face.Family,
				weight: face.Weight, italic: face.Italic, optional: true, uploaded: true, large: u.Size >= largeFont,
				index: face.Index, instance: face.Instance, read: u.read,
			})
		}
	}
	return out
}

// read checks the digest of the file and returns the file after hideTables.
func (u *Uploaded) read() ([]byte, error) {
	data, err := u.Read()
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != u.SHA256 {
		return nil, fontError(FontDamaged, "the file of %s has changed", u.Info.Family)
	}
	if _, err := fontsOf(data, u.Info.Family); err != nil {
		return nil, err
	}
	return hideTables(data), nil
}
