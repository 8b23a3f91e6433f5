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

// twoPages returns a design of two pages with content everywhere. The second page is rotated.
func twoPages() []byte {
	content := "0.2 0.3 0.6 rg 0 0 595 842 re f\n"
	return pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 5 0 R]/Count 2>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<>>/Contents 4 0 R>>", pdftest.Stream("", content),
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Rotate 90/Resources<<>>/Contents 6 0 R>>", pdftest.Stream("", content))
}

// exactBox returns the box of a square with a side in points on a page of a size.
func exactBox(x, y, side, w, h float64) Box { return Box{x / w, y / h, (x + side) / w, (y + side) / h} }

func codePlacement(page int, b Box) Placement {
	return Placement{Page: page, Box: b, Figure: CodeOnly}
}

// A stamp with the code alone fills its box on a page full of content, and changes nothing else. It
// is readable with or without the proof.
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
				t.Errorf("the stamp is %+v, want it on page %d at the exact place, without notices and without a layout", v, tc.page)
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

// A stamp is the same if the content of its page is known to be clean.
func TestCleanPage(t *testing.T) {
	t.Parallel()
	p := codePlacement(1, exactBox(40, 30, 100, 595, 842))
	p.Trusted = true
	_, read := mustSeal(t, "design.pdf", twoPages(), p)
	p.Clean = true
	_, known := mustSeal(t, "design.pdf", twoPages(), p)
	if !bytes.Equal(known, read) {
		t.Error("the stamp on a page that is known to be clean differs")
	}
}

// The code is in a white square, including its quiet zone, even on a dark design.
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

// The file is refused if the code cannot be read at its place. The code is not placed elsewhere.
func TestCodeHasNoOtherPlace(t *testing.T) {
	t.Parallel()
	stamp := testStamp()
	seal := func(data []byte, p Placement) error {
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

// Of the stamps at trusted places, about one of a hundred is proved, and always the same ones.
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
		t.Errorf("%d of %d stamps are proved, want about one of a hundred", checked, n)
	}
	s := New(nil, nil) // without a renderer, a proof fails
	for i := range 300 {
		stamp := testStamp()
		stamp.ReferenceID = fmt.Sprintf("NWU-%016X", i)
		stamp.Placement = codePlacement(1, exactBox(10, 10, 60, 595, 842))
		stamp.Placement.Trusted, stamp.Placement.Clean = true, true
		_, err := s.Seal(t.Context(), original(t, "design.pdf", twoPages()), stamp)
		if proved := err != nil; proved != isSpotCheck(stamp.ReferenceID) {
			t.Errorf("the stamp of %s was proved: %v (error %v), want %v; a proof fails with the error %v", stamp.ReferenceID, proved, err, !proved, pdfium.ErrUnavailable)
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
