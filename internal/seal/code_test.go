package seal

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/pdfium"
)

// twoPages returns a design of two pages that are filled with a dark colour. The second page is rotated.
func twoPages() []byte {
	content := "0.2 0.3 0.6 rg 0 0 595 842 re f\n"
	return pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 5 0 R]/Count 2>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<>>/Contents 4 0 R>>", pdftest.Stream("", content),
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Rotate 90/Resources<<>>/Contents 6 0 R>>", pdftest.Stream("", content))
}

// exactBox returns the box of a square on a page of w by h points. x, y and side are in points, from the
// top left corner.
func exactBox(x, y, side, w, h float64) Box { return Box{x / w, y / h, (x + side) / w, (y + side) / h} }

func codePlacement(page int, b Box) Placement {
	return Placement{Page: page, Box: b, Figure: CodeOnly}
}

// TestCodeFillsItsBox checks that a stamp with only the QR code fills its box and is readable, with and
// without the proof, and that the page does not change outside the box.
func TestCodeFillsItsBox(t *testing.T) {
	t.Parallel()
	data := twoPages()
	before := file(t, "before.pdf", data)
	for _, tc := range []struct {
		page    int
		box     Box
		trusted bool
	}{
		{1, exactBox(400, 700, 62, 595, 842), false},
		{1, exactBox(40, 30, 100, 595, 842), true},
		{2, exactBox(700, 480, 80, 842, 595), false},
		{2, exactBox(700, 480, 57, 842, 595), true},
	} {
		t.Run(fmt.Sprintf("page %d, trusted %v", tc.page, tc.trusted), func(t *testing.T) {
			t.Parallel()
			p := codePlacement(tc.page, tc.box)
			p.Trusted = tc.trusted
			v, sealed := mustSeal(t, "design.pdf", data, p)
			if v.Page != tc.page || v.Placement != Exact || v.Whole || v.Layout.Width != 0 || len(v.Notices) != 0 {
				t.Errorf("the result is %+v, want a stamp on page %d at the exact place, without notices and without a layout", v, tc.page)
			}
			for i := range v.Box {
				if math.Abs(v.Box[i]-tc.box[i]) > 1e-9 {
					t.Fatalf("box = %v, want %v", v.Box, tc.box)
				}
			}
			after := file(t, "after.pdf", sealed)
			checkQR(t, after, v)
			checkSyntax(t, before, after)
			comparePixels(t, before, after, v)
		})
	}
}

// TestCleanPage checks that Placement.Clean does not change the verified PDF of a clean page.
func TestCleanPage(t *testing.T) {
	t.Parallel()
	p := codePlacement(1, exactBox(40, 30, 100, 595, 842))
	p.Trusted = true
	_, read := mustSeal(t, "design.pdf", twoPages(), p)
	p.Clean = true
	_, known := mustSeal(t, "design.pdf", twoPages(), p)
	if !bytes.Equal(known, read) {
		t.Error("the verified PDFs with and without Placement.Clean differ, want the same")
	}
}

// TestCodeHasItsQuietZone checks that the quiet zone of the QR code is white on a dark design.
func TestCodeHasItsQuietZone(t *testing.T) {
	t.Parallel()
	v, sealed := mustSeal(t, "design.pdf", twoPages(), codePlacement(1, exactBox(100, 100, 100, 595, 842)))
	img := draw(t, file(t, "after.pdf", sealed), v.Page, 144, image.Rect(200, 200, 400, 400))
	for _, at := range []image.Point{{3, 3}, {196, 3}, {3, 196}, {196, 196}, {100, 4}} {
		if r, g, b, _ := img.At(at.X, at.Y).RGBA(); r != 0xffff || g != 0xffff || b != 0xffff {
			t.Errorf("the pixel %v of the box is %v, want white", at, img.At(at.X, at.Y))
		}
	}
}

// TestCodeHasNoOtherPlace checks that Seal refuses a file if the QR code cannot be added or read at its
// place.
func TestCodeHasNoOtherPlace(t *testing.T) {
	t.Parallel()
	seal := func(data []byte, p Placement) error {
		stamp := testStamp()
		stamp.Placement = p
		_, err := sealer(t).Seal(t.Context(), original(t, "design.pdf", data), stamp)
		return err
	}
	for name, tc := range map[string]struct {
		data []byte
		p    Placement
		code string
	}{
		"the box is outside the page":  {twoPages(), codePlacement(1, Box{0.9, 0.9, 1.1, 1}), "code_not_on_page"},
		"the page does not exist":      {twoPages(), codePlacement(3, exactBox(10, 10, 60, 595, 842)), "code_not_on_page"},
		"an annotation covers the box": {coveredPage(), codePlacement(1, exactBox(10, 10, 60, 595, 842)), "code_not_readable"},
		"the design is signed":         {signedPDF(0, ""), codePlacement(1, exactBox(10, 10, 60, 595, 842)), "design_signed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := mustRefuse(t, seal(tc.data, tc.p)); r.Code != tc.code {
				t.Errorf("code = %s, want %s", r.Code, tc.code)
			}
		})
	}
}

// coveredPage returns a page with an opaque annotation at its top left.
func coveredPage() []byte {
	return pagePDF{
		page: "/Annots[5 0 R]",
		bodies: []string{
			"<</Type/Annot/Subtype/Stamp/Rect[0 742 100 842]/F 4/AP<</N 6 0 R>>>>",
			pdftest.Stream("/Type/XObject/Subtype/Form/BBox[0 0 100 100]/Resources<<>>", "0.5 g 0 0 100 100 re f"),
		},
	}.bytes()
}

// TestSpotChecks checks that isSpotCheck selects about one in a hundred stamps at trusted places, and
// that only these are proved.
func TestSpotChecks(t *testing.T) {
	t.Parallel()
	const n = 20_000
	checked := 0
	for i := range n {
		if isSpotCheck(fmt.Sprintf("NWU-%016X", i*7919)) {
			checked++
		}
	}
	if share := float64(checked) / n; share < 0.007 || share > 0.013 {
		t.Errorf("%d of %d stamps are proved, want about one in a hundred", checked, n)
	}
	s := New(nil, nil) // without a renderer, a proof fails
	for i := range 300 {
		stamp := testStamp()
		stamp.ReferenceID = fmt.Sprintf("NWU-%016X", i)
		stamp.Placement = codePlacement(1, exactBox(10, 10, 60, 595, 842))
		stamp.Placement.Trusted, stamp.Placement.Clean = true, true
		_, err := s.Seal(t.Context(), original(t, "design.pdf", twoPages()), stamp)
		if proved := err != nil; proved != isSpotCheck(stamp.ReferenceID) {
			t.Errorf("%s: proved = %v (error %v), want %v; a proof fails with the error %v", stamp.ReferenceID, proved, err, !proved, pdfium.ErrUnavailable)
		}
	}
}

// BenchmarkTrustedCode measures the sealing of a certificate from a template, with a signature.
func BenchmarkTrustedCode(b *testing.B) {
	o := original(b, "design.pdf", benchFiles()["70kB"])
	s := New(nil, nil)
	stamp := testStamp()
	stamp.Signature = testSignature(b)
	stamp.Placement = codePlacement(1, exactBox(400, 700, 62, 595, 842))
	stamp.Placement.Trusted, stamp.Placement.Clean = true, true
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Seal(b.Context(), o, stamp); err != nil {
			b.Fatal(err)
		}
	}
}
