package typeset

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/text/unicode/norm"
)

// lineTexts returns the text of each line in visual order.
func lineTexts(b *Block) []string {
	var out []string
	for _, l := range b.lines {
		var s strings.Builder
		for _, c := range l.clusters {
			s.WriteString(c.text)
		}
		out = append(out, s.String())
	}
	return out
}

// layout sets a text that must fit.
func layout(t *testing.T, f *Fonts, text string, style Style, width float64) *Block {
	t.Helper()
	b, err := f.Layout(text, style, width)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

// A text is first reduced to fit one line, then broken into even lines, and never cut.
func TestFit(t *testing.T) {
	f := testFonts(t)
	const name = "Maximiliana Alexandrovna von Hohenlohe-Schillingsfürst"
	style := Style{Size: 40, MinSize: 12, Lines: 2}

	b := layout(t, f, name, style, 2000)
	if b.Lines() != 1 || b.Size != 40 {
		t.Errorf("with room: %d lines of size %v, want 1 of 40", b.Lines(), b.Size)
	}
	full := b.Width

	b = layout(t, f, name, style, full*0.9)
	if b.Lines() != 1 || math.Abs(b.Size-36) > 0.01 || math.Abs(b.Width-full*0.9) > 0.05 {
		t.Errorf("with 90 %% of the room: %d lines of size %v and width %v, want 1 of 36 and %v", b.Lines(), b.Size, b.Width, full*0.9)
	}

	b = layout(t, f, name, style, full*0.65)
	if b.Lines() != 2 || b.Size < 34 {
		t.Errorf("with 65 %% of the room: %d lines of size %v, want 2 of at least 34", b.Lines(), b.Size)
	}
	first, second := b.lines[0].width, b.lines[1].width
	if min(first, second) < 0.6*max(first, second) {
		t.Errorf("the lines have the widths %v and %v: %q, want even lines", first, second, lineTexts(b))
	}
	if got := strings.Join(lineTexts(b), " "); got != name {
		t.Errorf("the lines are %q, want all of %q", got, name)
	}

	if _, err := f.Layout(name, style, full*0.1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("with 10 %% of the room, the error is %v, want %v", err, ErrNoRoom)
	}
	if _, err := f.Layout(strings.Repeat("a", maxText+1), Style{Size: 10, Lines: Unlimited}, 100); !errors.Is(err, ErrNoRoom) {
		t.Errorf("with too long a text, the error is %v, want %v", err, ErrNoRoom)
	}
	style.Height = 20
	if _, err := f.Layout(name, style, full*0.25); !errors.Is(err, ErrNoRoom) {
		t.Errorf("without height for two lines, the error is %v, want %v", err, ErrNoRoom)
	}
}

// With Unlimited, a text has the full size and as many lines as it needs, and a long word is broken.
func TestParagraph(t *testing.T) {
	f := testFonts(t)
	const text = "This certificate was issued by Technische Universität München.\n\nIts digest is 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08."
	b := layout(t, f, text, Style{Size: 10, Lines: Unlimited}, 150)
	lines := lineTexts(b)
	if b.Size != 10 || len(lines) < 6 || b.Width > 150.1 {
		t.Errorf("the text has the size %v, the width %v and the lines %q, want 10, at most 150 and at least 6 lines", b.Size, b.Width, lines)
	}
	if !slices.Contains(lines, "") {
		t.Errorf("the lines are %q, want an empty line among them", lines)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	if got := squeeze(strings.Join(lines, "")); got != squeeze(text) {
		t.Errorf("the lines are %q, want all of %q", got, text)
	}
	if want := b.CapHeight + float64(len(lines)-1)*12; math.Abs(b.Height-want) > 0.001 {
		t.Errorf("the height is %v, want %v", b.Height, want)
	}
}

// Start is the only alignment that depends on the direction of the paragraph.
func TestAlign(t *testing.T) {
	f := testFonts(t)
	for _, c := range []struct {
		text  string
		align Align
		want  float64 // of the free width
	}{
		{"Anna", Left, 0}, {"Anna", Center, 0.5}, {"Anna", Right, 1}, {"Anna", Start, 0},
		{"محمد", Left, 0}, {"محمد", Right, 1}, {"محمد", Start, 1},
	} {
		b := layout(t, f, c.text, Style{Size: 10, Align: c.align}, 200)
		if got, want := b.lines[0].x*10, c.want*(200-b.Width); math.Abs(got-want) > 0.001 {
			t.Errorf("%s with alignment %d is at %v, want %v", c.text, c.align, got, want)
		}
		if b.RightToLeft != (c.text == "محمد") {
			t.Errorf("%s: RightToLeft = %v, want %v", c.text, b.RightToLeft, !b.RightToLeft)
		}
	}
}

// Layout refuses a letter with marks far above or below its line, because they would be drawn over other
// texts. It also refuses a letter with too many marks, because PDF readers could not extract it.
func TestStackedMarks(t *testing.T) {
	f := testFonts(t)
	for text, fits := range map[string]bool{
		"Z" + strings.Repeat("\u0301", 4):                   true,
		"Ọ́̀ Ṻ ẫ":                                           true,
		"Z" + strings.Repeat("\u0301", 10):                  false,
		"e" + strings.Repeat("\u0323", 20):                  false,
		"e" + strings.Repeat("\u0334", 60):                  false,
		strings.Repeat("Z"+strings.Repeat("\u0301", 4), 30): true,
		"शुभम् बिस्मिल्लाह":                                 true, "ஸ்ரீ": true, "శ్రీ స్త్ర్యం": true, "བསྒྲུབས": true,
	} {
		_, err := f.Layout(text, Style{Size: 10, Lines: 3, Font: Font{Family: "Cormorant Garamond"}}, 3000)
		if missing := (*MissingError)(nil); errors.As(err, &missing) {
			t.Logf("%+q: %v", text, err) // a script without an embedded font
			continue
		}
		if (err == nil) != fits || err != nil && !errors.Is(err, ErrNoRoom) {
			t.Errorf("%+q: err = %v, want no error: %t", text, err, fits)
		}
	}
}

// Tabs, carriage returns and line separators become spaces, other controls, overrides and soft hyphens are
// removed, and text is composed.
func TestClean(t *testing.T) {
	f := testFonts(t)
	for text, want := range map[string]string{
		"Jose\u0301":                 "José",
		"a\tb\u2028c":                "a b c",
		"user\u202Egnp.exe\u202C":    "usergnp.exe",
		"a\u00ADb\x00c\uFEFF":        "abc",
		"Ann\u200BLee":               "AnnLee",
		"  Anna  ":                   "Anna",
		"a\r\nb":                     "a b",
		"می\u200cخواهم":              "می\u200cخواهم",
		"\u2067علي\u2069 Ali":        "علي Ali",
		"e\u0301\u0301\u0301\u0301x": "é" + strings.Repeat("\u0301", 3) + "x",
	} {
		b := layout(t, f, text, Style{Size: 10, Direction: LeftToRight}, 1000)
		var got []cluster
		for _, l := range b.lines {
			got = append(got, l.clusters...)
		}
		slices.SortStableFunc(got, func(a, b cluster) int { return a.start - b.start })
		var s strings.Builder
		for _, c := range got {
			s.WriteString(c.text)
		}
		if s.String() != norm.NFC.String(want) {
			t.Errorf("%+q is set as %+q, want %+q", text, s.String(), want)
		}
	}
	for _, text := range []string{"", " \n ", "\u200B", "\u2068\u2069"} {
		b := layout(t, f, text, Style{Size: 10}, 100)
		if b.Width != 0 || b.SVGPath(0, 0) != "" {
			t.Errorf("%+q has the width %v, want 0 and no path", text, b.Width)
		}
	}
}

// All characters of a run are drawn in one face, even if the preferred font lacks only one of them.
func TestOneFacePerRun(t *testing.T) {
	f := testFonts(t)
	for text, want := range map[string]int{
		"Žaneta":            1,
		"Ba\u0331ṯẕ\u030Bx": 1, // Inter lacks a mark
		"José محمد":         2,
	} {
		b := layout(t, f, text, Style{Font: Font{Family: Inter}, Size: 10}, 1000)
		faces := map[*face]bool{}
		for _, c := range b.lines[0].clusters {
			faces[c.face] = true
		}
		if len(faces) != want {
			t.Errorf("%s is in %d faces, want %d", text, len(faces), want)
		}
	}
	regular := layout(t, f, "Anna", Style{Font: Font{Family: EBGaramond, Weight: 500}, Size: 10}, 1000)
	bold := layout(t, f, "Anna", Style{Font: Font{Family: EBGaramond, Weight: 700}, Size: 10}, 1000)
	unknown := layout(t, f, "Anna", Style{Font: Font{Family: "Comic", Weight: 600}, Size: 10}, 1000)
	for b, want := range map[*Block]string{regular: "EBGaramond-400Regular", bold: "EBGaramond-600SemiBold", unknown: "Inter-600SemiBold"} {
		if got := b.lines[0].clusters[0].face.name; got != want {
			t.Errorf("the font is %s, want %s", got, want)
		}
	}
}

// The error names each missing character once, and the package whose fonts have it.
func TestMissing(t *testing.T) {
	f := testFonts(t)
	for text, want := range map[string]struct{ runes, message string }{
		"王小王":       {"王小", "no font has 王 (U+738B), 小 (U+5C0F): install the fonts of the Debian package fonts-noto-cjk or set the folder of such fonts"},
		"Ana 😀":     {"😀", "no font has 😀 (U+1F600): write the text without it"},
		"🎓 Ana 😀":   {"🎓😀", "no font has 🎓 (U+1F393), 😀 (U+1F600): write the text without them"},
		"ଓଡ଼ Smith": {"ଓଡ\u0B3C", "no font has ଓ (U+0B13), ଡ (U+0B21), \u0B3C (U+0B3C): install the fonts of the Debian package fonts-noto-core or set the folder of such fonts"},
	} {
		_, err := f.Layout(text, Style{Size: 10}, 1000)
		missing := &MissingError{}
		if !errors.As(err, &missing) {
			t.Errorf("%s: the error is %v, want a MissingError", text, err)
			continue
		}
		if string(missing.Runes) != want.runes || missing.Error() != want.message {
			t.Errorf("%s: the error is %q for %q, want %q", text, missing, string(missing.Runes), want.message)
		}
	}
}

// A value that Isolate returns does not reorder the sentence around it.
func TestIsolate(t *testing.T) {
	f := testFonts(t)
	b := layout(t, f, "Awarded to "+Isolate("محمد (12)")+" 34", Style{Size: 10}, 1000)
	text := lineTexts(b)[0]
	if !strings.HasSuffix(text, " 34") {
		t.Errorf("the sentence is %q, want 34 at its end", text)
	}
}

// Letters that join get no tracking. Other letters get tracking, and wide tracking turns ligatures off.
func TestTracking(t *testing.T) {
	f := testFonts(t)
	width := func(text string, tracking float64) float64 {
		return layout(t, f, text, Style{Font: Font{Family: EBGaramond}, Size: 10, Tracking: tracking}, 1000).Width
	}
	if plain, wide := width("محمد", 0), width("محمد", 100); plain != wide {
		t.Errorf("Arabic has the widths %v and, with tracking, %v, want the same", plain, wide)
	}
	if plain, wide := width("HHHH", 0), width("HHHH", 100); math.Abs(wide-plain-4) > 0.001 {
		t.Errorf("tracking adds %v, want 4", wide-plain)
	}
	if b := layout(t, f, "fi", Style{Font: Font{Family: EBGaramond}, Size: 10, Tracking: 100}, 1000); len(b.lines[0].clusters) != 2 {
		t.Error("fi is a ligature, want two letters")
	}
}

// New finds only fonts with known names, and none below the maximum depth of folders.
func TestFolder(t *testing.T) {
	f := testFonts(t)
	data, err := f.entries[5].read() // any font
	if err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{
		"truetype/noto/NotoSansOriya-Regular.ttf": {Data: data},
		"NotoSansCJK-Regular.ttc":                 {Data: data},
		"NotoSerifSC-Regular.otf":                 {Data: []byte("damaged")},
		"NotoSans-Bold.ttf":                       {Data: data},
		"NotoSans[wght].ttf":                      {Data: data},
		"Other-Regular.ttf":                       {Data: data},
		"1/2/3/4/5/6/NotoSansTaiLe-Regular.ttf":   {Data: data},
		"NotoSansNko-Regular.ttf":                 {Data: data},
	}
	g, err := New(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range g.entries[len(f.entries):] {
		got = append(got, strings.TrimSpace(e.name+" "+e.script.String()+" "+e.region))
	}
	want := []string{
		"NotoSansCJK-Regular Hani JP", "NotoSansCJK-Regular Hani KR", "NotoSansCJK-Regular Hani SC", "NotoSansCJK-Regular Hani TC",
		"NotoSansCJK-Regular Hani HK", "NotoSansNko-Regular Nkoo", "NotoSansOriya-Regular Orya", "NotoSerifSC-Regular Hani SC",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the fonts are %q, want %q", got, want)
	}
	// A font that cannot be used is treated as absent.
	if _, err := g.Layout("王", Style{Size: 10}, 100); !errors.As(err, new(*MissingError)) {
		t.Errorf("the error is %v, want a MissingError", err)
	}
}

// The language of a text selects the font of Han characters.
func TestRegion(t *testing.T) {
	g, err := New(fstest.MapFS{"NotoSansCJK-Regular.ttc": {}, "NotoSansTC-Regular.otf": {}})
	if err != nil {
		skipOrFail(t, err.Error())
	}
	han := g.entries[len(embeddedFonts)].script
	for language, want := range map[string]string{"": "SC", "zh": "SC", "zh-Hans": "SC", "zh-Hant": "TC", "zh-TW": "TC", "zh-HK": "HK", "zh-Hant-HK": "HK", "ja": "JP", "ko-KR": "KR"} {
		if got := g.candidates(Font{}, han, language)[1].region; got != want {
			t.Errorf("for %q, the font is of %s, want %s", language, got, want)
		}
	}
}
