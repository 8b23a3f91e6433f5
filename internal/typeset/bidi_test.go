package typeset

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

// The direction of each character is that of x/text, which implements UAX #9 but does not return
// levels.
func TestBidiLevels(t *testing.T) {
	alphabet := []rune("abאבجد12٣٤+-,.%$ !\u0301\u064b\u200f\u200e\u2066\u2067\u2068\u2069\u2069\u200d ")
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]rune, 1+r.IntN(14))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		for dir, option := range map[Direction]bidi.Direction{LeftToRight: bidi.LeftToRight, RightToLeft: bidi.RightToLeft} {
			text := append([]rune("a"), text...)
			if dir == RightToLeft {
				text[0] = 'א'
			}
			levels, base := bidiLevels(text, Auto)
			if base != uint8(option) {
				t.Fatalf("%+q: the level of the paragraph is %d, want %d", string(text), base, option)
			}
			want := directions(t, string(text), len(text))
			for i := range trailing(text) {
				if levels[i]%2 != want[i] {
					t.Fatalf("%+q: the levels are %d, want the directions %d", string(text), levels, want)
				}
			}
		}
	}
}

// trailing returns the length of a text without the spaces and controls at its end. Their level is that
// of the paragraph (L1).
func trailing(text []rune) int {
	n := len(text)
	for n > 0 && (text[n-1] == ' ' || text[n-1] == '\u200d' || isControl(text[n-1]) && text[n-1] >= '\u2066') {
		n--
	}
	return n
}

// directions returns, for each character, 1 if x/text sets it from right to left, and 0 otherwise.
func directions(t *testing.T, text string, n int) []uint8 {
	t.Helper()
	var p bidi.Paragraph
	if _, err := p.SetString(text); err != nil {
		t.Fatal(err)
	}
	order, err := p.Order()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint8, n)
	for i := range order.NumRuns() {
		run := order.Run(i)
		from, to := run.Pos()
		if run.Direction() == bidi.RightToLeft {
			for k := from; k <= to; k++ {
				out[k] = 1
			}
		}
	}
	return out
}

// Runs are in the visual order of UAX #9. This includes a number between Arabic and Latin, which x/text
// puts at the wrong end.
func TestVisualOrder(t *testing.T) {
	f := testFonts(t)
	for _, c := range []struct{ text, want string }{
		{"Awarded to " + Isolate("محمد (12)") + ", 2024", "Awarded to (12) دمحم, 2024"},
		{"Name: محمد 12 abc", "Name: 12 دمحم abc"},
		{"أحمد Smith 3", "Smith 3 دمحأ"},
		{"Dr. أحمد Smith", "Dr. دمحأ Smith"},
		{"To " + Isolate("علي Smith محمد") + " x", "To دمحم Smith يلع x"},
		{"שנת 2024-05", "2024-05 תנש"},
		{"a (ב) c", "a (ב) c"},
		{"א (b) ג", "ג (b) א"},
	} {
		b, err := f.Layout(c.text, Style{Size: 20}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, c := range b.lines[0].clusters {
			runes := []rune(c.text)
			if c.level%2 == 1 {
				slices.Reverse(runes)
				for i, r := range runes {
					runes[i], _ = utf8.DecodeRuneInString(bidi.ReverseString(string(r)))
				}
			}
			got.WriteString(string(runes))
		}
		if got.String() != c.want {
			t.Errorf("%s: the order is %q, want %q", c.text, got.String(), c.want)
		}
	}
}
