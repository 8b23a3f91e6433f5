package seal

import (
	"fmt"
	"image"
	"strings"
	"testing"
)

// ornaments returns page content that draws faint squares with sides of half a point in an area. In the
// coarse picture of the search, the squares have almost the colour of the paper.
func ornaments(x0, y0, x1, y1 int) string {
	var b strings.Builder
	b.WriteString("0.9 g ")
	for y := y0; y < y1; y += 11 {
		for x := x0; x < x1; x += 13 {
			fmt.Fprintf(&b, "%d %d .5 .5 re ", x, y)
		}
	}
	return b.String() + "f"
}

// inkUnder returns the number of pixels in poppler's picture of the original that are at the place of
// the stamp and darker than 91 % of white.
func inkUnder(t *testing.T, original []byte, v *Verified) int {
	t.Helper()
	const dpi = 400
	path := file(t, "before.pdf", original)
	w, h := pageSize(t, path, v.Page)
	at := func(fraction, size float64) int { return int(fraction * size * dpi / 72) }
	img := draw(t, path, v.Page, dpi, image.Rect(at(v.Box[0], w), at(v.Box[1], h), at(v.Box[2], w), at(v.Box[3], h)))
	ink := 0
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 0xFFFF*91/100 {
				ink++
			}
		}
	}
	return ink
}

// A place with faint, fine ornaments is not blank. A stamp that covers ornaments at an exact place causes
// a notice.
func TestFaintInkIsNotCovered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		mode    Mode
	}{
		"ornaments at the bottom": {ornaments(0, 0, 842, 300), Auto},
		"ornaments everywhere":    {ornaments(0, 0, 842, 595), Strip},
		"one ornament":            {ornaments(770, 60, 771, 61), Auto},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original := pagePDF{media: "0 0 842 595", content: test.content}.bytes()
			v, data := mustSeal(t, "a.pdf", original, Placement{})
			if v.Placement != test.mode {
				t.Errorf("placement = %s, want %s", v.Placement, test.mode)
			}
			if v.Placement != Strip {
				if n := inkUnder(t, original, v); n > 0 {
					t.Errorf("the stamp covers %d pixels of ink, want 0", n)
				}
			}
			checkQR(t, file(t, "after.pdf", data), v)
			exact, _ := mustSeal(t, "a.pdf", original, Placement{Mode: Exact, Box: Box{0.88, 0.8, 0.98, 0.98}})
			if !strings.Contains(codes(exact.Notices), "covers_content") {
				t.Errorf("notices of an exact place with ornaments = %q, want covers_content", codes(exact.Notices))
			}
		})
	}
}
