package typeset

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// FuzzLayout sets any text in any style. The result must be a block with the whole text, ErrNoRoom or a
// MissingError. If the tracking is not negative and Lines is not Unlimited, the block must fit the width.
func FuzzLayout(f *testing.F) {
	fonts := testFonts(f)
	f.Add("José محمد (12)", 20.0, 10.0, 100.0, 2, 0.0, "en")
	f.Add("क्षितिज\u2068 שלום \u2069\nไทย", 20.0, 0.0, 60.0, Unlimited, 50.0, "ar")
	f.Add("Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a", 8.0, 8.0, 500.0, 1, 0.0, "")
	f.Add("王 ! \u202Eabc\u202C \U000E0041", math.Inf(1), math.NaN(), 1e300, -1, -1e9, "x-\x00")
	f.Add("\u202E\u202C \u00AD\u200B\uFEFF ﷽", 1e-9, 1e-300, 1e-9, 7, 1.0, "ur-Arab-PK")
	f.Fuzz(func(t *testing.T, text string, size, low, width float64, lines int, tracking float64, language string) {
		style := Style{Size: size, MinSize: low, Lines: lines, Tracking: tracking, Language: language}
		b, err := fonts.Layout(text, style, width)
		if err != nil {
			if errors.Is(err, ErrFont) || !errors.Is(err, ErrNoRoom) && !errors.As(err, new(*MissingError)) {
				t.Fatal(err)
			}
			return
		}
		if math.IsNaN(tracking) || math.Abs(tracking) > 1e4 {
			return // package design limits the tracking
		}
		got := strings.Map(visible, strings.Join(logical(b), ""))
		if want := strings.Map(visible, clean(text)); got != want {
			t.Errorf("the block has the text %+q, want %+q", got, want)
		}
		if tracking >= 0 && b.Width > max(0, width)*(1+1e-9)+2*tolerance && lines != Unlimited {
			t.Errorf("the block has the width %v, want at most %v", b.Width, width)
		}
		var content bytes.Buffer
		subsets := NewSubsets("F")
		b.Draw(&content, subsets, 1, 2)
		if strings.Contains(content.String(), "NaN") || strings.Contains(b.SVGPath(1, 2), "NaN") {
			t.Error("a position is NaN, want a number")
		}
		for _, s := range subsets.list {
			if len(s.compact()) < 12 {
				t.Error("a subset has fewer than 12 bytes, want a font")
			}
		}
	})
}

// visible returns r, or -1 if r is a space or a control, for strings.Map.
func visible(r rune) rune {
	if isControl(r) || unicode.IsSpace(r) {
		return -1
	}
	return r
}

// logical returns the text of each line in logical order.
func logical(b *Block) []string {
	var out []string
	for _, l := range b.lines {
		clusters := slices.Clone(l.clusters)
		slices.SortStableFunc(clusters, func(a, b cluster) int { return a.start - b.start })
		var s strings.Builder
		for _, c := range clusters {
			s.WriteString(c.text)
		}
		out = append(out, s.String())
	}
	return out
}

// write draws a block and writes its subsets.
func write(b *Block) {
	subsets := NewSubsets("F")
	b.Draw(&bytes.Buffer{}, subsets, 0, 0)
	b.SVGPath(0, 0)
	for _, s := range subsets.list {
		s.compact()
		s.toUnicode()
	}
}

// FuzzFont reads any bytes as a font, sets a text in it and writes the subset. An error is allowed, but no
// panic.
func FuzzFont(f *testing.F) {
	fonts := testFonts(f)
	for _, name := range []string{"NotoSansThai_400Regular.ttf", "NotoSansHebrew_400Regular.ttf"} {
		data, err := readEmbedded(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, 0)
	}
	f.Add([]byte("ttcf\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), 3)
	f.Fuzz(func(_ *testing.T, data []byte, index int) {
		if index < 0 {
			return // the package never uses a negative index
		}
		damaged := &entry{name: "Fuzz", family: "Fuzz", weight: 400, optional: true, index: index, read: func() ([]byte, error) { return data, nil }}
		set := &Fonts{entries: append(slices.Clone(fonts.entries), damaged), cache: &cache{}}
		b, err := set.Layout("ก้ำ שָׁלוֹם fi 12", Style{Font: Font{Family: "Fuzz"}, Size: 10, Lines: 3}, 500)
		if err != nil {
			return
		}
		write(b)
	})
}

// FuzzInspect uploads any file. If it is accepted, texts are set in up to three of its faces.
func FuzzInspect(f *testing.F) {
	base := testFonts(f)
	thai := embeddedFont(f, "NotoSansThai_400Regular.ttf")
	jost := embeddedFont(f, "Jost_400Regular.ttf")
	f.Add(thai)
	f.Add(jost)
	f.Add(withCFF(f, thai))
	f.Add(collected(thai, jost))
	f.Add(variableFont(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		setUploaded(t, base, data, "ก้ำ VAV ffi 12")
	})
}
