package typeset

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// plain returns a text in composed form, without the controls of direction that pdftotext adds and
// without spaces at its ends.
func plain(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if isControl(r) || r >= '\u202A' && r <= '\u202E' {
			return -1
		}
		return r
	}, strings.TrimSpace(s)))
}

// unmarked returns a text without marks and without U+200C. Poppler places marks before their letter in
// scripts that run from right to left.
func unmarked(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) || r == '\u200C' {
			return -1
		}
		return r
	}, s)
}

// pdftotext extracts exactly the names in all scripts, except for the marks of scripts that run from right
// to left.
func TestTextIsExtracted(t *testing.T) {
	f := testFonts(t)
	families := []string{Inter, EBGaramond, CormorantGaramond, Cinzel, PlayfairDisplay, Jost, GreatVibes, PinyonScript}
	var blocks []*Block
	var want []string
	for _, script := range slices.Sorted(maps.Keys(nameParts)) {
		for i, name := range names(script) {
			font := Font{Family: families[i%len(families)], Italic: i%3 == 0}
			blocks = append(blocks, layout(t, f, name, Style{Font: font, Size: 14}, 900))
			want = append(want, name)
		}
	}
	const perPage, distance = 10, 200
	subsets := NewSubsets("CV")
	var contents []string
	for some := range slices.Chunk(blocks, perPage) {
		var content bytes.Buffer
		for i, b := range some {
			b.Draw(&content, subsets, 50, float64(distance*(perPage-i)))
		}
		contents = append(contents, content.String())
	}
	out, err := tool(t, pages(t, 1000, distance*(perPage+1), subsets, contents), "pdftotext", "-enc", "UTF-8", "FILE", "-")
	if err != nil {
		t.Fatal(err, out)
	}
	var found []string
	for line := range strings.Lines(strings.ReplaceAll(out, "\f", "")) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	if len(found) != len(want) {
		t.Fatalf("pdftotext finds %d lines, want %d", len(found), len(want))
	}
	wrong := 0
	for i, name := range want {
		got, name := plain(found[i]), plain(clean(name))
		if blocks[i].RightToLeft {
			got, name = unmarked(got), unmarked(name)
		}
		if got != name {
			if wrong++; wrong <= 10 {
				t.Errorf("pdftotext finds %+q (%s), want %+q (%s)", got, got, name, name)
			}
		}
	}
	t.Logf("%d names, %d wrong", len(want), wrong)
}

// qpdf accepts the file, and pdffonts reports that its fonts are embedded subsets with a map to Unicode.
func TestFileIsValid(t *testing.T) {
	f := testFonts(t)
	data := document(t, specimen(t, f))
	if out, err := tool(t, data, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf: %v, want no error and no warning\n%s", err, out)
	}
	out, err := tool(t, data, "pdffonts", "FILE")
	if err != nil {
		t.Fatal(err, out)
	}
	fonts := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, "+") {
			if fonts++; !strings.Contains(line, "CID Type 0C       Identity-H       yes yes yes") { //nolint:dupword // embedded, subset, Unicode
				t.Errorf("pdffonts: want a CID Type 0C font that is embedded, is a subset and has Unicode, got %s", line)
			}
		}
	}
	if fonts < len(nameParts)-3 {
		t.Errorf("pdffonts finds %d fonts, want at least %d: %s", fonts, len(nameParts)-3, out)
	}
}

// specimen returns a block with three names of each script.
func specimen(t testing.TB, f *Fonts) *Block {
	t.Helper()
	var lines []string
	for _, script := range slices.Sorted(maps.Keys(nameParts)) {
		list := names(script)
		lines = append(lines, list[0]+", "+list[len(list)/2]+", "+list[len(list)-1])
	}
	b, err := f.Layout(strings.Join(lines, "\n"), Style{Size: 12, Lines: Unlimited, Leading: 1.1}, 500)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes of a PDF depend only on its text and the fonts, and not on texts that were set before.
func TestDeterministic(t *testing.T) {
	f := testFonts(t)
	want := document(t, specimen(t, f))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			g := f
			if other, err := New(); err == nil {
				g = other
			}
			if _, err := g.Layout("Čaj", Style{Size: 9}, 100); err != nil {
				t.Error(err)
			}
			if got := document(t, specimen(t, g)); !bytes.Equal(got, want) {
				t.Error("the same text in fonts that were read again has other bytes, want the same")
			}
			if got := document(t, specimen(t, f)); !bytes.Equal(got, want) {
				t.Error("the same text in the same fonts has other bytes, want the same")
			}
		})
	}
	group.Wait()
}

// The text of the PDF and the path of the SVG look the same.
func TestSameLook(t *testing.T) {
	f := testFonts(t)
	b := specimen(t, f)
	data := document(t, b)
	text := render(t, data)
	ink := 0
	for _, v := range text.Pix {
		if v < 64 {
			ink++
		}
	}
	if ink < 4_000 {
		t.Fatalf("the page has %d dark pixels, want at least 4000", ink)
	}
	checkSame(t, "path", text, render(t, pathDocument(t, 600, 400, b.SVGPath(50, 100))))

	if out, err := tool(t, data, "qpdf", "--check", "FILE"); err != nil {
		t.Errorf("qpdf: %v\n%s", err, out)
	}
	out, err := tool(t, data, "pdftotext", "FILE", "-")
	if err != nil || !strings.Contains(out, "José García Márquez") {
		t.Errorf("pdftotext: %v, want the text José García Márquez in\n%s", err, out)
	}
}

// checkSame checks that each dark pixel of one page is at or next to a pixel of the other page that is not
// white. The pages are not exactly equal, because renderers place the glyphs of a font on whole pixels.
func checkSame(t *testing.T, name string, a, b *image.Gray) {
	t.Helper()
	if a.Rect != b.Rect {
		t.Fatalf("%s: the pages have the sizes %v and %v", name, a.Rect, b.Rect)
	}
	for _, pair := range [][2]*image.Gray{{a, b}, {b, a}} {
		missing := 0
		for i, v := range pair[0].Pix {
			if v < 64 && !inked(pair[1], i%a.Stride, i/a.Stride) {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%s: %d dark pixels are missing on the other page, want 0", name, missing)
		}
	}
}

// inked reports whether a pixel or any of its neighbours is not white.
func inked(p *image.Gray, x, y int) bool {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if p.GrayAt(x+dx, y+dy).Y < 224 {
				return true
			}
		}
	}
	return false
}

// render returns the first page of a PDF in grey.
func render(t *testing.T, data []byte) *image.Gray {
	t.Helper()
	folder := t.TempDir()
	if out, err := tool(t, data, "pdftoppm", "-r", "100", "-gray", "-singlefile", "-png", "FILE", filepath.Join(folder, "page")); err != nil {
		t.Fatal(err, out)
	}
	file, err := os.Open(filepath.Join(folder, "page.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	gray := image.NewGray(img.Bounds())
	draw.Draw(gray, gray.Rect, img, img.Bounds().Min, draw.Src)
	return gray
}

// pathDocument returns a PDF of one page with a filled SVG path.
func pathDocument(t *testing.T, width, height float64, path string) []byte {
	t.Helper()
	var content strings.Builder
	fmt.Fprintf(&content, "1 0 0 -1 0 %v cm\n", height)
	var x, y float64
	for path != "" {
		op := path[0]
		end := strings.IndexAny(path[1:], "MLQCZ") + 1
		if end == 0 {
			end = len(path)
		}
		var v []float64
		for field := range strings.FieldsSeq(path[1:end]) {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, n)
		}
		path = path[end:]
		if op == 'Q' {
			v = []float64{x + 2*(v[0]-x)/3, y + 2*(v[1]-y)/3, v[2] + 2*(v[0]-v[2])/3, v[3] + 2*(v[1]-v[3])/3, v[2], v[3]}
			op = 'C'
		}
		for _, n := range v {
			fmt.Fprintf(&content, "%.4f ", n)
		}
		content.WriteString(map[byte]string{'M': "m\n", 'L': "l\n", 'C': "c\n", 'Z': "h\n"}[op])
		if len(v) > 0 {
			x, y = v[len(v)-2], v[len(v)-1]
		}
	}
	content.WriteString("f\n")
	return page(t, width, height, content.String())
}
