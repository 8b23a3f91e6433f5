package typeset

import (
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/go-text/typesetting/language"
)

// Fonts is a set of fonts. Each font is read when it is first needed. A Fonts can be used by several
// goroutines.
type Fonts struct {
	entries []*entry
	cache   *cache
	shapers sync.Pool
}

// cache has the large fonts that are in memory. A Fonts and those that With derives from it share one
// cache.
type cache struct {
	mu     sync.Mutex
	large  []*entry // the most recently used font is last
	forgot int      // number of large fonts that were removed from memory
}

// entry is a font that can be read.
type entry struct {
	name, family string
	weight       int
	italic       bool
	category     Category
	script       language.Script // 0 for every script
	region       string          // of a font for Han: SC, TC, HK, JP or KR
	preferred    bool            // used only by styles that name its family
	optional     bool            // from a folder or uploaded; false for an embedded font
	uploaded     bool
	large        bool
	index        int // in a collection
	instance     int // of a variable font, from 1; 0 for a font that is not variable
	read         func() ([]byte, error)

	mu   sync.Mutex
	face *face
	err  error
}

// maxLarge is the maximum number of large fonts in memory. A font for Han needs 30 to 45 MB.
const maxLarge = 2

// New returns the embedded fonts, and the fonts with known names in the folders. It reads only the names
// and the sizes of the files. In a binary without fonts, New returns ErrUnavailable.
func New(folders ...fs.FS) (*Fonts, error) {
	f := &Fonts{cache: &cache{}}
	if _, err := embedded.Open("fonts/" + embeddedFonts[0].file + ".zst"); err != nil {
		return nil, ErrUnavailable
	}
	for _, e := range embeddedFonts {
		f.entries = append(f.entries, &entry{
			name: strings.TrimSuffix(e.file, ".ttf"), family: e.family, weight: e.weight, italic: strings.HasSuffix(e.file, "_Italic.ttf"),
			category: e.category, script: e.script, preferred: e.preferred,
			read: func() ([]byte, error) { return readEmbedded(e.file) },
		})
	}
	for _, folder := range folders {
		f.entries = append(f.entries, scan(folder)...)
	}
	return f, nil
}

// load returns the face of an entry, and reads its font if necessary.
func (f *Fonts) load(e *entry) (*face, error) {
	e.mu.Lock()
	if e.face == nil && e.err == nil {
		data, err := e.read()
		if err == nil {
			e.face, err = readFace(data, e.index, e.instance, e.name)
		}
		e.err = err
	}
	loaded, err := e.face, e.err
	if e.uploaded {
		e.err = nil // the next load reads the file again, because it may have been restored
	}
	e.mu.Unlock()
	if err == nil && e.large {
		f.cache.remember(e)
	}
	return loaded, err
}

// remember records the use of a large font. If more than maxLarge fonts are in memory, it removes the least
// recently used one.
func (c *cache) remember(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.large, e); i >= 0 {
		c.large = slices.Delete(c.large, i, i+1)
	}
	c.large = append(c.large, e)
	if len(c.large) <= maxLarge {
		return
	}
	old := c.large[0]
	c.large = slices.Delete(c.large, 0, 1)
	c.forgot++
	old.mu.Lock()
	old.face = nil
	old.mu.Unlock()
}

// preferred returns the entry of the font of a style. It prefers the faces of the family with the same
// slant, and of these the nearest weight. Of equally near faces, it returns the last uploaded one, or else
// the first one.
func (f *Fonts) preferred(want Font) *entry {
	weight := want.Weight
	if weight == 0 {
		weight = 400
	}
	const otherSlant, otherFamily = 1000, 10_000
	best, distance := f.entries[0], math.MaxInt // Inter, if the family is unknown
	for _, e := range f.entries {
		if e.family != want.Family && e.family != Inter {
			continue
		}
		d := max(e.weight-weight, weight-e.weight)
		if e.italic != want.Italic {
			d += otherSlant
		}
		if e.family != want.Family {
			d += otherFamily
		}
		if d < distance || d == distance && e.uploaded {
			best, distance = e, d
		}
	}
	return best
}

// candidates returns the entries to try for a script, the best first: the preferred font, the fonts of the
// script, and the fonts for every script. If the preferred font is for every script and is not a sans
// serif, sansRank is the order of the other fonts for every script.
func (f *Fonts) candidates(want Font, script language.Script, tag string) []*entry {
	first := f.preferred(want)
	out := []*entry{first}
	if script.Strong() {
		from := len(out)
		for _, e := range f.entries {
			if e != first && (e.script == script || e.script == language.Han && isHan(script)) {
				out = append(out, e)
			}
		}
		if region := hanRegion(script, tag); region != "" {
			slices.SortStableFunc(out[from:], func(a, b *entry) int { return hanOrder(a, region) - hanOrder(b, region) })
			out = out[:min(len(out), from+maxLarge)] // fonts for Han have nearly the same characters, and reading one takes long
		}
	}
	from := len(out)
	for _, e := range f.entries {
		if e != first && e.script == 0 && !e.preferred {
			out = append(out, e)
		}
	}
	if first.category != SansSerif && first.script == 0 {
		slices.SortStableFunc(out[from:], func(a, b *entry) int { return sansRank(a) - sansRank(b) })
	}
	return out
}

// sansRank returns the rank of a font for the characters that a font other than a sans serif lacks: 0 for a
// font with serifs, 1 for a sans serif and 2 for an uploaded font.
func sansRank(e *entry) int {
	switch {
	case e.uploaded:
		return 2
	case e.category == SansSerif:
		return 1
	}
	return 0
}

// related returns the fonts of all scripts of a text, without those in tried. They may have characters that
// several scripts share, such as punctuation.
func (f *Fonts) related(tried []*entry, text []rune, tag string) []*entry {
	var out []*entry
	var scripts []language.Script
	for _, r := range text {
		script := language.LookupScript(r)
		switch { // characters of no script, such as punctuation, that only the fonts of one script have
		case r >= 0x0600 && r <= 0x06FF:
			script = language.Arabic
		case r == 0x0964 || r == 0x0965:
			script = language.Devanagari
		case r >= 0x3000 && r <= 0x30FF || r >= 0xFF00 && r <= 0xFFEF:
			script = language.Han
		}
		if !script.Strong() || slices.Contains(scripts, script) {
			continue
		}
		scripts = append(scripts, script)
		for _, e := range f.candidates(Font{}, script, tag) {
			if !slices.Contains(tried, e) && !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

// isHan reports whether fonts for Chinese, Japanese and Korean have the script.
func isHan(s language.Script) bool {
	return s == language.Han || s == language.Hiragana || s == language.Katakana || s == language.Hangul || s == language.Bopomofo
}

// hanRegion returns the region of the font for Han that a text of a script and a language needs, or "" for
// other scripts.
func hanRegion(s language.Script, tag string) string {
	switch {
	case s == language.Hiragana || s == language.Katakana:
		return "JP"
	case s == language.Hangul:
		return "KR"
	case s == language.Bopomofo:
		return "TC"
	case s != language.Han:
		return ""
	}
	tag = strings.ToLower(tag)
	base, rest, _ := strings.Cut(tag, "-")
	switch {
	case base == "ja":
		return "JP"
	case base == "ko":
		return "KR"
	case strings.Contains(rest, "hk") || strings.Contains(rest, "mo"):
		return "HK"
	case strings.Contains(rest, "hant") || strings.Contains(rest, "tw"):
		return "TC"
	}
	return "SC"
}

// hanOrder returns the rank of a font for a region: 0 for the same region, 1 for Traditional Chinese if the
// region is Hong Kong, and 2 for other fonts.
func hanOrder(e *entry, region string) int {
	switch {
	case e.region == region:
		return 0
	case region == "HK" && e.region == "TC":
		return 1
	}
	return 2
}
