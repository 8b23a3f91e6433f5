package typeset

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-text/typesetting/language"
)

// Shared describes the fonts of a PDF that later updates of the PDF can use. A certificate of a template is
// such an update of the base: most names need only letters that the base has.
//
// The publication of a template preloads the fonts, draws the texts that all certificates share, writes
// the fonts and stores the Shared:
//
//	subsets := typeset.NewSubsets("CV")
//	err := subsets.Preload(fonts, font, typeset.Latin) // for each font of a field
//	block.Draw(&content, subsets, 72, 700)             // texts of the template
//	refs := subsets.Objects(update)                    // for /Font of the resources
//	plan.Shared = subsets.Share()
//
// A certificate adds fonts that have only the other glyphs. The /Font of its resources has the entries of
// refs and of own:
//
//	subsets := plan.Shared.NewSubsets("CF")
//	block.Draw(&content, subsets, 72, 700)
//	own := subsets.Objects(update) // empty if the shared fonts have all glyphs
//
// A Shared is stored as JSON. It identifies a face by the digest of its font. If another version of the
// font is installed later, the shared glyphs of that font are not used, and certificates contain their own
// subsets. A Shared does not change and can be used by several goroutines.
//
// Every certificate contains the shared glyphs. So they must be a fixed set or the glyphs of the texts of
// the template. Glyphs of a list of names would reveal letters of the names of other people.
type Shared struct {
	fonts []sharedFont
	faces map[string]*sharedFont // by id
}

// sharedFont is a subset in the base.
type sharedFont struct {
	name, face string
	upem       float64
	uses       []use
	ids        map[string]int
}

// Share returns the glyphs of the subsets as they are now. Call it after the last drawing, and write
// the same subsets with Objects.
func (s *Subsets) Share() *Shared {
	out := &Shared{}
	for _, sub := range s.list {
		out.fonts = append(out.fonts, sharedFont{name: sub.name, face: sub.face.id, upem: sub.face.upem, uses: slices.Clone(sub.uses)})
	}
	out.index()
	return out
}

// NewSubsets returns an empty collection that uses the shared fonts for the glyphs they have. The
// prefix must differ from that of the shared fonts.
func (s *Shared) NewSubsets(prefix string) *Subsets { return &Subsets{prefix: prefix, shared: s} }

// index builds the maps.
func (s *Shared) index() {
	s.faces = map[string]*sharedFont{}
	for i := range s.fonts {
		f := &s.fonts[i]
		f.ids = make(map[string]int, len(f.uses))
		for id, u := range f.uses {
			f.ids[string(appendKey(nil, u.parts, u.wide, u.text))] = id
		}
		s.faces[f.face] = f
	}
}

// char returns the character id of a cluster, by its face and its key. It reports whether the shared fonts
// have the cluster.
func (s *Shared) char(face string, key []byte) (char, bool) {
	f := s.faces[face]
	if f == nil {
		return char{}, false
	}
	id, ok := f.ids[string(key)]
	if !ok {
		return char{}, false
	}
	return char{f.name, id, thousandths(f.uses[id].advance, f.upem)}, true
}

// sharedJSON is a font of Shared in JSON. Texts and Chars are by character id. An element of Chars is the
// advance, the kerning in the advance, and for each part its glyph, x and y.
type sharedJSON struct {
	Name  string   `json:"name"`
	Face  string   `json:"face"`
	Upem  float64  `json:"upem"`
	Texts []string `json:"texts"`
	Chars [][]int  `json:"chars"`
}

// MarshalJSON returns the fonts for storage.
func (s *Shared) MarshalJSON() ([]byte, error) {
	fonts := make([]sharedJSON, len(s.fonts))
	for i := range s.fonts {
		f := &s.fonts[i]
		out := sharedJSON{Name: f.name, Face: f.face, Upem: f.upem}
		for _, u := range f.uses {
			c := []int{u.advance, int(u.wide)}
			for _, p := range u.parts {
				c = append(c, int(p.glyph), int(p.x), int(p.y))
			}
			out.Texts, out.Chars = append(out.Texts, u.text), append(out.Chars, c)
		}
		fonts[i] = out
	}
	return json.Marshal(fonts) //nolint:wrapcheck // it cannot fail
}

// UnmarshalJSON reads the result of MarshalJSON.
func (s *Shared) UnmarshalJSON(data []byte) error {
	var fonts []sharedJSON
	if err := json.Unmarshal(data, &fonts); err != nil {
		return fmt.Errorf("reading shared fonts: %w", err)
	}
	*s = Shared{}
	for _, in := range fonts {
		if len(in.Texts) != len(in.Chars) || in.Upem < minUnitsPerEm {
			return fmt.Errorf("%w: the shared font %s is damaged", ErrFont, in.Name)
		}
		f := sharedFont{name: in.Name, face: in.Face, upem: in.Upem}
		for i, c := range in.Chars {
			if len(c)%3 != 2 {
				return fmt.Errorf("%w: the shared font %s is damaged", ErrFont, in.Name)
			}
			u := use{text: in.Texts[i], advance: c[0], wide: narrow(c[1])}
			for c = c[2:]; len(c) > 0; c = c[3:] {
				u.parts = append(u.parts, part{uint16(max(0, min(math.MaxUint16, c[0]))), narrow(c[1]), narrow(c[2])})
			}
			f.uses = append(f.uses, u)
		}
		s.fonts = append(s.fonts, f)
	}
	s.index()
	return nil
}

// Latin contains the characters of most names and texts in the Latin script, for Preload: digits,
// punctuation, and the letters of the languages of Europe, of Turkish, Azerbaijani and Vietnamese.
var Latin = latin()

func latin() string {
	var b strings.Builder
	for _, span := range [][2]rune{{' ', '~'}, {'\u00A0', '\u00FF'}, {'\u0100', '\u017E'}, {'\u0218', '\u021B'}, {'\u1EA0', '\u1EF9'}} {
		for r := span[0]; r <= span[1]; r++ {
			if r != '\u00AD' { // the soft hyphen is not drawn
				b.WriteRune(r)
			}
		}
	}
	b.WriteString("ƏəƠơƯưẞ–—‘’‚“”„†‡•…‹›€№™−")
	return b.String()
}

// Preload adds the glyphs of characters in the face of a font. It also adds the ligatures and alternates
// that the face uses for pairs of ASCII letters. It skips characters that the face does not have.
func (s *Subsets) Preload(fonts *Fonts, font Font, characters string) (err error) {
	defer func() { // the shaper may panic on a damaged font
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: its tables are damaged: %v", ErrFont, r)
		}
	}()
	f, err := fonts.load(fonts.preferred(font))
	if err != nil {
		return err
	}
	sh := fonts.shaper()
	text := clean(characters)
	for _, features := range []float64{0, wideTracking + 1} { // with and without ligatures
		for _, r := range text {
			s.preload(sh, f, string(r), features)
		}
	}
	for _, pair := range pairs(text) {
		s.preload(sh, f, pair, 0)
	}
	fonts.shapers.Put(sh) // after a panic, the shaper is not used again
	return nil
}

// preload adds the glyphs of a text, if the face has all its characters.
func (s *Subsets) preload(sh *shaper, f *face, text string, tracking float64) {
	runes := []rune(text)
	if !f.covers(runes) {
		return
	}
	script := language.Common
	for _, r := range runes {
		if own := language.LookupScript(r); own.Strong() {
			script = own
		}
	}
	for _, c := range sh.run(nil, runes, item{end: len(runes), script: script, face: f}, &Style{Tracking: tracking}) {
		s.char(&c)
	}
}

// pairs returns all pairs of the ASCII letters of a text, and longer sequences for which fonts have
// ligatures. A string has the pairs with the same first letter; the last one has the longer sequences.
func pairs(text string) []string {
	var letters []rune
	for _, r := range text {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			letters = append(letters, r)
		}
	}
	out := []string{}
	for _, a := range letters {
		var b strings.Builder
		for _, c := range letters {
			b.WriteRune(a)
			b.WriteRune(c)
			b.WriteByte(' ')
		}
		out = append(out, b.String())
	}
	if len(letters) > 0 {
		out = append(out, "ffi ffl ffj fft ffb ffh ffk")
	}
	return out
}
