package typeset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-text/typesetting/font"
	"github.com/go-text/typesetting/font/opentype"
	"github.com/go-text/typesetting/harfbuzz"
	"github.com/go-text/typesetting/language"
	"github.com/go-text/typesetting/segmenter"
	"golang.org/x/text/unicode/norm"
)

// shaper converts text to clusters. It must be used by one goroutine at a time, because the shaper of
// go-text has caches.
type shaper struct {
	fonts   *Fonts
	forgot  int // cache.forgot when it was created
	buffer  *harfbuzz.Buffer
	scaled  map[*face]*harfbuzz.Font
	breaker segmenter.Segmenter
}

// shaper returns a shaper without references to fonts that were removed from memory.
func (f *Fonts) shaper() *shaper {
	f.cache.mu.Lock()
	forgot := f.cache.forgot
	f.cache.mu.Unlock()
	if s, ok := f.shapers.Get().(*shaper); ok && s.forgot == forgot {
		return s
	}
	return &shaper{fonts: f, forgot: forgot, buffer: harfbuzz.NewBuffer(), scaled: map[*face]*harfbuzz.Font{}}
}

// paragraph is a shaped paragraph: clusters in logical order.
type paragraph struct {
	text     []rune
	level    uint8
	clusters []cluster
}

// item is a part of a paragraph with one level, script and face.
type item struct {
	start, end int
	level      uint8
	script     language.Script
	face       *face
}

// clean returns text in composed form (NFC), because some fonts have é, but not its parts. It removes
// control characters, soft hyphens, U+FEFF, and the controls of embeddings, overrides and annotations. Line
// feeds remain. Tabs and all line separators other than LF and CRLF become spaces.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return ' '
		case r == '\n':
			return r
		case unicode.Is(unicode.Cc, r) || r == '\u00AD' || r == '\uFEFF' || r >= '\u202A' && r <= '\u202E' || r >= '\uFFF9' && r <= '\uFFFB':
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
	return norm.NFC.String(s)
}

// shape shapes a paragraph. The error is ErrNoRoom, a *MissingError or an error of a font.
func (s *shaper) shape(text string, style *Style) (*paragraph, error) {
	p := &paragraph{text: []rune(text)}
	if len(p.text) > maxText {
		return nil, fmt.Errorf("%w: more than %d characters", ErrNoRoom, maxText)
	}
	levels, level := bidiLevels(p.text, style.Direction)
	p.level = level
	items, err := s.items(p.text, levels, style)
	if err != nil {
		return nil, err
	}
	p.clusters = make([]cluster, 0, len(p.text))
	for _, it := range items {
		p.clusters = s.run(p.clusters, p.text, it, style)
	}
	for i := range p.clusters {
		if p.clusters[i].leavesLine() {
			return nil, ErrNoRoom
		}
	}
	s.breaks(p)
	return p, nil
}

// These are the limits of a cluster. PDF readers extract up to 60 characters of a glyph. In real texts, a
// cluster has up to 10 characters, and its parts are up to 1.5 ems from the baseline.
const (
	maxCluster = 30  // characters
	maxParts   = 100 // glyphs; damaged fonts have thousands
	maxRise    = 2.0 // ems from the baseline
)

// leavesLine reports whether a cluster has so many marks that they are drawn over other lines, or that its
// text cannot be extracted.
func (c *cluster) leavesLine() bool {
	return utf8.RuneCountInString(c.text) > maxCluster || len(c.parts) > maxParts || slices.ContainsFunc(c.parts, func(p part) bool {
		return math.Abs(float64(p.y)) > maxRise*c.face.upem
	})
}

// maxText is the maximum length of a paragraph in characters.
const maxText = 1 << 14

// items splits a text by level and script, and chooses faces.
func (s *shaper) items(text []rune, levels []uint8, style *Style) ([]item, error) {
	var out []item
	var missing []rune
	for start := 0; start < len(text); {
		end, script := start, language.Common
		for ; end < len(text) && levels[end] == levels[start]; end++ {
			own := language.LookupScript(text[end])
			if !own.Strong() || own == script || isHan(own) && isHan(script) && own != language.Hangul && script != language.Hangul {
				continue // UAX #24: common characters take the script of their neighbours; kana and Han are one run
			}
			if script.Strong() {
				break
			}
			script = own
		}
		it := item{start: start, end: end, level: levels[start], script: script}
		start = end
		parts, absent, err := s.faces(text, it, style)
		if err != nil {
			return nil, err
		}
		out = append(out, parts...)
		for _, r := range absent {
			if !slices.Contains(missing, r) {
				missing = append(missing, r)
			}
		}
	}
	if len(missing) > 0 {
		return nil, &MissingError{missing}
	}
	return out, nil
}

// faces chooses the face of an item: the first face that covers all of it. If no face does, it splits the
// item between graphemes. It also returns the characters that no font has.
func (s *shaper) faces(text []rune, it item, style *Style) ([]item, []rune, error) {
	tried := s.fonts.candidates(style.Font, it.script, style.Language)
	f, faces, err := s.covering(text[it.start:it.end], tried)
	if f == nil && err == nil {
		var others []*face
		f, others, err = s.covering(text[it.start:it.end], s.fonts.related(tried, text, style.Language))
		faces = append(faces, others...)
	}
	if err != nil {
		return nil, nil, err
	}
	if f != nil {
		it.face = f
		return []item{it}, nil, nil
	}
	var out []item
	var missing []rune
	s.breaker.Init(text[it.start:it.end])
	for graphemes := s.breaker.GraphemeIterator(); graphemes.Next(); {
		g := graphemes.Grapheme()
		i := slices.IndexFunc(faces, func(f *face) bool { return f.covers(g.Text) })
		if i < 0 {
			for _, r := range g.Text {
				if !slices.ContainsFunc(faces, func(f *face) bool { return f.has(r) }) {
					missing = append(missing, r)
				}
			}
			if len(missing) == 0 { // each font has only a part of the grapheme
				missing = append(missing, g.Text...)
			}
			continue
		}
		from := it.start + g.Offset
		if n := len(out); n > 0 && out[n-1].face == faces[i] {
			out[n-1].end = from + len(g.Text)
			continue
		}
		part := it
		part.start, part.end, part.face = from, from+len(g.Text), faces[i]
		out = append(out, part)
	}
	return out, missing, nil
}

// covering returns the first face that covers a text, or all faces if none does. It skips a font of a
// folder that cannot be used. It returns the error of any other font. If it skipped an uploaded font, the
// text would look different until the file of the font is restored.
func (s *shaper) covering(text []rune, entries []*entry) (*face, []*face, error) {
	var all []*face
	for _, e := range entries {
		f, err := s.fonts.load(e)
		if err != nil && (!e.optional || e.uploaded) {
			return nil, nil, err
		}
		if err != nil {
			continue
		}
		if f.covers(text) {
			return f, nil, nil
		}
		all = append(all, f)
	}
	return nil, all, nil
}

// noLigatures turns ligatures off, for letters with wide tracking.
var noLigatures = []harfbuzz.Feature{
	{Tag: opentype.MustNewTag("liga"), Start: harfbuzz.FeatureGlobalStart, End: harfbuzz.FeatureGlobalEnd},
	{Tag: opentype.MustNewTag("clig"), Start: harfbuzz.FeatureGlobalStart, End: harfbuzz.FeatureGlobalEnd},
}

// wideTracking is the tracking in thousandths of an em above which ligatures look wrong.
const wideTracking = 20

// wideKerning is the kerning in ems above which PDF readers extract a space between two letters,
// unless the kerning is a part of the width of the first letter. Script fonts have such kerning after
// capitals.
const wideKerning = 0.07

// run shapes an item and appends its clusters in logical order.
func (s *shaper) run(out []cluster, text []rune, it item, style *Style) []cluster {
	scaled, ok := s.scaled[it.face]
	if !ok {
		own := font.NewFace(it.face.font)
		own.SetCoords(it.face.drawn.Coords())
		scaled = harfbuzz.NewFont(own)
		s.scaled[it.face] = scaled
	}
	tracking := style.Tracking / 1000
	var features []harfbuzz.Feature
	if joins(it.script) {
		tracking = 0
	} else if style.Tracking > wideTracking {
		features = noLigatures
	}
	b := s.buffer
	b.Clear()
	b.AddRunes(text, it.start, it.end-it.start)
	b.Props = harfbuzz.SegmentProperties{Direction: harfbuzz.LeftToRight, Script: it.script, Language: languageOf(style)}
	if it.level%2 == 1 {
		b.Props.Direction = harfbuzz.RightToLeft
	}
	b.Shape(scaled, features)
	first := len(out)
	parts := make([]part, 0, len(b.Info))
	for i := 0; i < len(b.Info); {
		from, pen := len(parts), 0
		at := b.Info[i].Cluster
		for ; i < len(b.Info) && b.Info[i].Cluster == at; i++ {
			pos := b.Pos[i]
			parts = append(parts, part{uint16(b.Info[i].Glyph), narrow(pen + int(pos.XOffset)), narrow(int(pos.YOffset))}) //nolint:gosec // glyph ids have 16 bits
			pen += int(pos.XAdvance)
		}
		c := cluster{face: it.face, parts: parts[from:len(parts):len(parts)], advance: float64(pen) / it.face.upem, start: at, level: it.level}
		if len(c.parts) == 1 {
			if kern := pen - it.face.advance(c.parts[0].glyph); float64(kern) > wideKerning*it.face.upem {
				c.wide = narrow(kern)
			}
		}
		out = append(out, c)
	}
	if it.level%2 == 1 {
		slices.Reverse(out[first:])
	}
	kept := out[:first]
	for i := first; i < len(out); i++ {
		c := out[i]
		c.end = it.end
		if i+1 < len(out) {
			c.end = out[i+1].start
		}
		runes := text[c.start:c.end]
		if !slices.ContainsFunc(runes, func(r rune) bool { return !isControl(r) }) {
			continue // controls draw nothing, and readers must not extract them
		}
		c.text = string(slices.DeleteFunc(slices.Clone(runes), isControl))
		c.space = !slices.ContainsFunc(runes, func(r rune) bool { return !unicode.IsSpace(r) })
		c.advance += tracking
		kept = append(kept, c)
	}
	return kept
}

// isControl reports whether a character only controls direction or line breaks: isolates, marks
// of direction, the word joiner and the zero-width space.
func isControl(r rune) bool {
	return r >= '\u2066' && r <= '\u2069' || r == '\u200E' || r == '\u200F' || r == '\u061C' || r == '\u2060' || r == '\u200B'
}

func languageOf(style *Style) language.Language {
	if style.Language == "" {
		return "en"
	}
	return language.NewLanguage(style.Language)
}

// narrow returns the 16-bit number that is nearest to v.
func narrow(v int) int16 { return int16(max(math.MinInt16, min(math.MaxInt16, v))) }

// joins reports whether the letters of a script connect, so that tracking must not separate them.
func joins(s language.Script) bool {
	return slices.Contains(joining, s)
}

var joining = []language.Script{language.Arabic, language.Syriac, language.Mongolian, language.Nko, language.Devanagari, language.Bengali, language.Gurmukhi}

// breaks marks the clusters after which a line may end (UAX #14). Text in Thai, Lao, Khmer
// or Myanmar has no spaces between words. It is not broken there, because that would need a dictionary.
func (s *shaper) breaks(p *paragraph) {
	s.breaker.Init(p.text)
	k := 0
	for lines := s.breaker.LineIterator(); lines.Next(); {
		l := lines.Line()
		end := l.Offset + len(l.Text)
		for k < len(p.clusters) && p.clusters[k].end < end {
			k++
		}
		if k < len(p.clusters) && p.clusters[k].end == end {
			p.clusters[k].breakAfter = true
		} else if k > 0 && k <= len(p.clusters) && p.clusters[k-1].end <= end && (k == len(p.clusters) || p.clusters[k].start >= end) {
			p.clusters[k-1].breakAfter = true // the line ends with a control, which has no cluster
		}
	}
}
