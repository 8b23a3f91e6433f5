package typeset

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// shareable returns subsets with the Latin letters of the fonts, and their Shared after encoding and
// decoding.
func shareable(t testing.TB, f *Fonts, fonts ...Font) (*Subsets, *Shared) {
	t.Helper()
	base := NewSubsets("CV")
	for _, font := range fonts {
		if err := base.Preload(f, font, Latin); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := json.Marshal(base.Share())
	if err != nil {
		t.Fatal(err)
	}
	shared := &Shared{}
	if err := json.Unmarshal(stored, shared); err != nil {
		t.Fatal(err)
	}
	return base, shared
}

// Names in Latin letters add no font, and a name with two other letters adds only their glyphs. pdftotext
// extracts each name before the last one. The last two names look the same as without shared fonts.
func TestShared(t *testing.T) {
	f := testFonts(t)
	for _, font := range []Font{{Family: Inter}, {Family: EBGaramond, Weight: 600}} {
		base, shared := shareable(t, f, font)
		var contents, plainContents []string
		var want []string
		own, alone := shared.NewSubsets("CF"), NewSubsets("CF")
		draw := func(name string) {
			b := layout(t, f, name, Style{Font: font, Size: 24}, 500)
			var content, plainContent bytes.Buffer
			b.Draw(&content, own, 50, 100)
			b.Draw(&plainContent, alone, 50, 100)
			contents, plainContents = append(contents, content.String()), append(plainContents, plainContent.String())
			want = append(want, name)
		}
		for _, name := range names("Latin") {
			draw(name)
		}
		if len(own.list) > 0 {
			t.Errorf("%v: the Latin names add %d fonts, the first with %d glyphs, want no font", font, len(own.list), len(own.list[0].uses))
		}
		draw("Ḥasan Ŧurna") // two letters that are not shared
		if len(own.list) != 1 || len(own.list[0].uses) > 3 {
			t.Errorf("%v: a name with two other letters adds %d fonts, want one with at most 3 glyphs", font, len(own.list))
		}
		draw("محمد Müller")
		both := func(to Adder) *pdf.Dict {
			fonts := base.Objects(to)
			for name, ref := range own.Objects(to).All() {
				fonts.Set(name, ref)
			}
			return fonts
		}
		file := pagesWith(t, 600, 200, both, contents)
		out, err := tool(t, file, "pdftotext", "-enc", "UTF-8", "FILE", "-")
		if err != nil {
			t.Fatal(err, out)
		}
		for i, got := range strings.Split(strings.TrimSuffix(out, "\f"), "\f") {
			if i < len(want)-1 && plain(got) != want[i] {
				t.Errorf("%v: pdftotext extracts %q, want %q", font, plain(got), want[i])
			}
		}
		for _, n := range []int{len(want) - 2, len(want) - 1} {
			checkSame(t, want[n], render(t, pagesWith(t, 600, 200, both, contents[n:n+1])), render(t, pagesWith(t, 600, 200, alone.Objects, plainContents[n:n+1])))
		}
	}
}

// A face with another digest does not use the shared glyphs, because they may be different characters.
func TestSharedOfOtherFont(t *testing.T) {
	f := testFonts(t)
	_, shared := shareable(t, f, Font{Family: Inter})
	for i := range shared.fonts {
		shared.fonts[i].face = "another version"
	}
	shared.index()
	own := shared.NewSubsets("CF")
	layout(t, f, "Anna", Style{Size: 24}, 500).Draw(&bytes.Buffer{}, own, 50, 100)
	if len(own.list) != 1 || len(own.list[0].uses) != 4 {
		t.Error("the shared glyphs of another font are used, want one new font with 4 glyphs")
	}
	for _, damaged := range []string{`{}`, `[{"upem":1000,"texts":["a"],"chars":[]}]`, `[{"upem":1000,"texts":["a"],"chars":[[5]]}]`, `[{"upem":0}]`} {
		if err := json.Unmarshal([]byte(damaged), &Shared{}); err == nil {
			t.Errorf("%s is accepted, want an error", damaged)
		}
	}
}

// Two publications of the same fonts write the same bytes.
func TestSharedIsDeterministic(t *testing.T) {
	f := testFonts(t)
	var files [][]byte
	for range 2 {
		base, _ := shareable(t, f, Font{Family: EBGaramond}, Font{Family: Inter, Weight: 600})
		var out bytes.Buffer
		w := pdf.NewWriter(&out)
		base.Objects(w)
		files = append(files, out.Bytes())
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("two publications of the same fonts differ")
	}
}

// A name in Latin letters adds no font to a certificate. A name in another script adds at most 4,000 bytes
// on average.
func TestSharedSizes(t *testing.T) {
	f := testFonts(t)
	font := Font{Family: CormorantGaramond, Weight: 600}
	_, shared := shareable(t, f, font)
	for _, script := range slices.Sorted(maps.Keys(nameParts)) {
		total, largest, list := 0, 0, names(script)
		for _, name := range list {
			own := shared.NewSubsets("CF")
			layout(t, f, name, Style{Font: font, Size: 24}, 1000).Draw(&bytes.Buffer{}, own, 0, 0)
			var out bytes.Buffer
			w := pdf.NewWriter(&out)
			empty := out.Len()
			if own.Objects(w).Len() == 0 {
				continue
			}
			total, largest = total+out.Len()-empty, max(largest, out.Len()-empty)
		}
		mean := total / len(list)
		t.Logf("%s: %d bytes on average, at most %d", script, mean, largest)
		if script == "Latin" && mean > 0 || mean > 4000 {
			t.Errorf("names in %s add %d bytes on average, want 0 for Latin and at most 4000 for others", script, mean)
		}
	}
}
