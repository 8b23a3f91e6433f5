package typeset

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-text/typesetting/language"
)

var update = flag.Bool("update", false, "write testdata/shaped.txt.gz with hb-shape (Debian: libharfbuzz-bin)")

const goldenFile = "testdata/shaped.txt.gz"

// The glyphs and positions of all names are those of HarfBuzz. This also detects a version of go-text that
// shapes wrongly, such as v0.3.5.
func TestShapingIsThatOfHarfBuzz(t *testing.T) {
	f := testFonts(t)
	if *update {
		writeGolden(t, f)
	}
	golden := readGolden(t)
	shaped, differ := 0, 0
	for _, e := range f.entries {
		face, err := f.load(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range scriptsOf(e, face) {
			want, ok := golden[e.name+" "+script]
			if list := names(script); !ok || len(want) != len(list) {
				t.Fatalf("%s does not have all names in %s: run the test with -update", goldenFile, script)
			}
			s := f.shaper()
			for i, name := range names(script) {
				shaped++
				if got := describe(s, face, clean(name)); got != want[i] {
					if differ++; differ <= 10 {
						t.Errorf("%s, %s:\n got %s\nwant %s", e.name, name, got, want[i])
					}
				}
			}
		}
	}
	if differ > 0 || shaped < 7_000 {
		t.Errorf("%d of %d names differ from HarfBuzz, want 0 of at least 7000", differ, shaped)
	}
}

// scriptsOf returns the scripts whose names are shaped with a font.
func scriptsOf(e *entry, f *face) []string {
	if e.script == 0 {
		var out []string
		for _, script := range []string{"Cyrillic", "Greek", "Latin"} {
			if first, _ := utf8.DecodeRuneInString(names(script)[0]); f.has(first) {
				out = append(out, script)
			}
		}
		return out
	}
	for script := range nameParts {
		if scriptNames()[script] == e.script {
			return []string{script}
		}
	}
	return nil
}

// describe shapes a text with a face and returns its clusters in visual order. A cluster is the index of
// its first character, its glyphs with their positions, and its advance in font units.
func describe(s *shaper, f *face, text string) string {
	runes := []rune(text)
	it := item{end: len(runes), face: f}
	for _, r := range runes {
		if script := language.LookupScript(r); script.Strong() {
			it.script = script
			break
		}
	}
	if it.script == language.Arabic || it.script == language.Hebrew {
		it.level = 1
	}
	clusters := s.run(nil, runes, it, &Style{})
	if it.level == 1 {
		slices.Reverse(clusters)
	}
	var b strings.Builder
	for _, c := range clusters {
		fmt.Fprintf(&b, "%d:", c.start)
		for _, p := range c.parts {
			fmt.Fprintf(&b, " %d@%d,%d", p.glyph, p.x, p.y)
		}
		fmt.Fprintf(&b, " +%.0f; ", c.advance*f.upem)
	}
	return b.String()
}

// glyphPattern matches a glyph in the output of hb-shape: id, cluster, offsets, advance.
var glyphPattern = regexp.MustCompile(`^(\d+)=(\d+)(?:@(-?\d+),(-?\d+))?\+(-?\d+)$`)

// writeGolden shapes all names with hb-shape and writes the golden file.
func writeGolden(t *testing.T, f *Fonts) {
	t.Helper()
	var out bytes.Buffer
	folder := t.TempDir()
	for _, e := range f.entries {
		data, err := e.read()
		if err != nil {
			t.Fatal(err)
		}
		font := filepath.Join(folder, e.name+".ttf")
		if err := os.WriteFile(font, data, 0o600); err != nil {
			t.Fatal(err)
		}
		face, err := f.load(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range scriptsOf(e, face) {
			list := names(script)
			for i := range list {
				list[i] = clean(list[i])
			}
			text := filepath.Join(folder, "names.txt")
			if err := os.WriteFile(text, []byte(strings.Join(list, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			shaped, err := exec.CommandContext(t.Context(), "hb-shape", "--no-glyph-names", "--language=en", "--text-file="+text, font).Output()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "# %s %s\n", e.name, script)
			for line := range strings.Lines(string(shaped)) {
				out.WriteString(clustersOf(t, strings.Trim(line, "[]\n")) + "\n")
			}
		}
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenFile, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// clustersOf converts a line of hb-shape to the format of describe.
func clustersOf(t *testing.T, line string) string {
	t.Helper()
	var b strings.Builder
	pen, last := 0, -1
	for glyph := range strings.SplitSeq(line, "|") {
		m := glyphPattern.FindStringSubmatch(glyph)
		if m == nil {
			t.Fatalf("hb-shape: unexpected glyph %q", glyph)
		}
		var v [4]int
		for i := range v {
			v[i], _ = strconv.Atoi(m[i+2])
		}
		if v[0] != last {
			if last >= 0 {
				fmt.Fprintf(&b, " +%d; ", pen)
			}
			fmt.Fprintf(&b, "%d:", v[0])
			pen, last = 0, v[0]
		}
		fmt.Fprintf(&b, " %s@%d,%d", m[1], pen+v[1], v[2])
		pen += v[3]
	}
	fmt.Fprintf(&b, " +%d; ", pen)
	return b.String()
}

// readGolden returns the lines of the golden file by font and script.
func readGolden(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	key := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			key = name
			continue
		}
		out[key] = append(out[key], line)
	}
	return out
}

// The embedded fonts have all characters of all names.
func TestNamesAreCovered(t *testing.T) {
	f := testFonts(t)
	for _, script := range slices.Sorted(maps.Keys(nameParts)) {
		for _, name := range names(script) {
			for _, family := range []string{Inter, EBGaramond} {
				if _, err := f.Layout(name, Style{Font: Font{Family: family}, Size: 20}, 2000); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
