package seal

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// lineStyle sets the colour and the width of the lines of fullPage.
const lineStyle = "0.5 G 1 w "

func fullPage() string {
	var b strings.Builder
	b.WriteString(lineStyle)
	for y := 0; y < 850; y += 6 {
		fmt.Fprintf(&b, "0 %d m 600 %d l ", y, y)
	}
	return b.String() + "S"
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	bottomFilled := "0 g 0 0 595 200 re f"
	for _, c := range []struct {
		name string
		pdf  pagePDF
		want Placement // the requested placement
		mode Mode
		page int
		x, y float64 // the middle of the box
	}{
		{"empty page", pagePDF{}, Placement{}, Auto, 1, 0.8, 0.93},
		{"only the top right is blank", pagePDF{content: fullPage() + " 1 g 300 760 295 82 re f"}, Placement{}, Auto, 1, 0.9, 0.07},
		{"full page", pagePDF{content: fullPage()}, Placement{}, Strip, 1, 0.18, 0.95},
		{"page covered by an annotation", pagePDF{page: "/Annots[<</Type/Annot/Subtype/Link/Rect[0 0 595 842]/Border[0 0 0]>>]"}, Placement{}, Strip, 1, 0.18, 0.95},
		{"requested corner", pagePDF{}, Placement{Mode: TopLeft}, TopLeft, 1, 0.2, 0.07},
		{"requested corner is not blank", pagePDF{content: fullPage()}, Placement{Mode: TopLeft}, Strip, 1, 0.18, 0.95},
		{"exact place", pagePDF{}, Placement{Mode: Exact, Box: Box{0.4, 0.4, 0.6, 0.6}}, Exact, 1, 0.5, 0.5},
		{"exact place outside the page", pagePDF{}, Placement{Mode: Exact, Box: Box{0.9, 0.9, 1.6, 1.6}}, Auto, 1, 0.8, 0.93},
		{"requested strip", pagePDF{}, Placement{Mode: Strip}, Strip, 1, 0.18, 0.95},
		{"requested page at the end", pagePDF{content: bottomFilled}, Placement{Mode: Appended}, Appended, 2, 0.5, 0.35},
		{"rotated by 90 degrees", pagePDF{page: "/Rotate 90"}, Placement{}, Auto, 1, 0.9, 0.9},
		{"rotated by 180 degrees, with an offset", pagePDF{media: "-100 -200 495 642", page: "/Rotate 180"}, Placement{}, Auto, 1, 0.8, 0.93},
		{"cropped and rotated", pagePDF{page: "/CropBox[100 100 400 500]/Rotate 270"}, Placement{}, Auto, 1, 0.71, 0.82},
		{"user unit of an inch", pagePDF{media: "0 0 8 11", page: "/UserUnit 72"}, Placement{}, Auto, 1, 0.8, 0.93},
		{"unbalanced graphics state", pagePDF{content: "0 1 -1 0 300 0 cm 2 0 0 2 0 0 cm q 1 w q BT"}, Placement{}, Auto, 1, 0.8, 0.93},
		{"missing page", pagePDF{}, Placement{Page: 7}, Auto, 1, 0.8, 0.93},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, data := mustSeal(t, "a.pdf", c.pdf.bytes(), c.want)
			x, y := (v.Box[0]+v.Box[2])/2, (v.Box[1]+v.Box[3])/2
			if v.Placement != c.mode || v.Page != c.page || math.Abs(x-c.x) > 0.08 || math.Abs(y-c.y) > 0.08 {
				t.Errorf("placement %s on page %d at %.2f, %.2f; want %s on page %d at %.2f, %.2f", v.Placement, v.Page, x, y, c.mode, c.page, c.x, c.y)
			}
			checkQR(t, file(t, "after.pdf", data), v)
		})
	}
}

func TestRememberedPlaceMustBeBlank(t *testing.T) {
	t.Parallel()
	first, _ := mustSeal(t, "a.pdf", pagePDF{}.bytes(), Placement{Mode: TopLeft})
	if first.Layout.Width != 595 || first.Layout.Height != 842 {
		t.Fatalf("layout = %+v, want 595 x 842", first.Layout)
	}
	p := Placement{EarlierLayouts: []Layout{{Width: 100, Height: 100}, first.Layout}}
	near := func(a, b Box) bool { return math.Abs(a[0]-b[0]) < 0.001 && math.Abs(a[3]-b[3]) < 0.001 }
	for name, c := range map[string]struct {
		content string
		reused  bool
	}{
		"blank":          {"", true},
		"light":          {"0.95 g 0 0 595 842 re f", true},
		"line":           {"0 G 0.3 w 0 790 m 595 790 l S", false},
		"light grey bar": {"0.9 g 40 780 60 8 re f", false},
		"dark":           {"0 0 0.3 rg 0 0 595 842 re f", false},
	} {
		v, data := mustSeal(t, "a.pdf", pagePDF{content: c.content}.bytes(), p)
		if near(v.Box, first.Box) != c.reused {
			t.Errorf("%s: stamp at %v, earlier place %v; want the earlier place only on a blank or light page", name, v.Box, first.Box)
		}
		checkQR(t, file(t, "after.pdf", data), v)
	}
	annotated := pagePDF{page: "/Annots[<</Type/Annot/Subtype/Link/Rect[0 700 300 842]/Border[0 0 0]>>]"}
	if v, _ := mustSeal(t, "a.pdf", annotated.bytes(), p); near(v.Box, first.Box) {
		t.Error("the stamp is at the earlier place, which an annotation covers; want another place")
	}
}

// TestStampsDoNotShrink seals certificates as package cert does: the latest layouts are the earlier places of
// the next stamp. The widths of the reference ids differ.
func TestStampsDoNotShrink(t *testing.T) {
	t.Parallel()
	page, s := pagePDF{}.bytes(), sealer(t)
	var layouts []Layout
	heights := map[string][]float64{}
	for i := range 12 {
		stamp := testStamp()
		stamp.ReferenceID = "NWU-" + strings.Repeat([]string{"1", "M"}[i%2], 16)
		stamp.Placement.EarlierLayouts = layouts
		v, err := s.Seal(t.Context(), original(t, "a.pdf", page), stamp)
		if err != nil {
			t.Fatal(err)
		}
		if v.Layout.Width != 0 {
			layouts = append([]Layout{v.Layout}, layouts...)
		}
		heights[stamp.ReferenceID] = append(heights[stamp.ReferenceID], (v.Box[3]-v.Box[1])*842)
	}
	if len(layouts) != 1 {
		t.Errorf("%d layouts for pages of one size, want 1", len(layouts))
	}
	for id, h := range heights {
		if first, last := h[0], h[len(h)-1]; math.Abs(last-first) > 0.01 {
			t.Errorf("stamps of %s have the heights %.1f, want equal ones", id, h)
		}
	}
}

func TestExactPlaceOverContentIsReported(t *testing.T) {
	t.Parallel()
	box := Box{0.4, 0.4, 0.6, 0.6}
	for content, want := range map[string]string{"": "", fullPage(): "covers_content"} {
		v, _ := mustSeal(t, "a.pdf", pagePDF{content: content}.bytes(), Placement{Mode: Exact, Box: box})
		if v.Placement != Exact || codes(v.Notices) != want {
			t.Errorf("placement %s with notices %q, want exact with notices %q", v.Placement, codes(v.Notices), want)
		}
	}
}

func TestStampIsAtLeast18Millimetres(t *testing.T) {
	t.Parallel()
	v, _ := mustSeal(t, "a.pdf", pagePDF{}.bytes(), Placement{})
	if h := (v.Box[3] - v.Box[1]) * 842; h < 18*millimetre {
		t.Errorf("height of the stamp = %.1f mm, want at least 18", h/millimetre)
	}
}

func TestStripKeepsContentHidden(t *testing.T) {
	t.Parallel()
	// The content paints below the page, where the strip will be added.
	v, data := mustSeal(t, "a.pdf", pagePDF{content: fullPage() + " 0 g -500 -500 3000 500 re f"}.bytes(), Placement{})
	if v.Placement != Strip {
		t.Fatalf("placement = %s, want a strip", v.Placement)
	}
	checkQR(t, file(t, "after.pdf", data), v)
}
