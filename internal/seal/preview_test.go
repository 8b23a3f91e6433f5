package seal

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// TestPreviewMatchesSeal checks that the stamp is at the place that Preview returned.
func TestPreviewMatchesSeal(t *testing.T) {
	t.Parallel()
	blank := pagePDF{}.bytes()
	first, _ := mustSeal(t, "a.pdf", blank, Placement{Mode: TopLeft})
	bottom := fullPage() + " 1 g 0 0 595 200 re f" // only the bottom is blank
	bottomOnly := pagePDF{content: bottom}.bytes()
	narrow := fullPage() + " 1 g 0 0 595 46 re f" // too low for a stamp of the usual size
	for name, tc := range map[string]struct {
		data      []byte
		placement Placement
	}{
		"auto":          {blank, Placement{}},
		"remembered":    {blank, Placement{EarlierLayouts: []Layout{first.Layout}}},
		"another size":  {blank, Placement{EarlierLayouts: []Layout{{Width: 100, Height: 100, Box: first.Layout.Box}}}},
		"corner":        {blank, Placement{Mode: TopLeft}},
		"exact place":   {blank, Placement{Mode: Exact, Box: Box{0.4, 0.4, 0.6, 0.5}}},
		"strip":         {blank, Placement{Mode: Strip}},
		"appended page": {blank, Placement{Mode: Appended}},
		"signed":        {signedPDF(0, ""), Placement{}},
		"signed, full":  {signedPDF(0, fullPage()), Placement{}},
		"certified":     {signedPDF(1, ""), Placement{}},

		"corner, not blank":                {bottomOnly, Placement{Mode: TopLeft}},
		"box outside the page":             {blank, Placement{Mode: Exact, Box: Box{0.9, 0.9, 1.2, 1.2}}},
		"signed, corner":                   {signedPDF(0, ""), Placement{Mode: TopLeft}},
		"signed, corner not blank":         {signedPDF(0, bottom), Placement{Mode: TopLeft}},
		"signed, strip":                    {signedPDF(0, ""), Placement{Mode: Strip}},
		"signed, room for a smaller stamp": {signedPDF(0, narrow), Placement{}},
	} {
		o := Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(tc.data), Size: int64(len(tc.data))}
		stamp := testStamp()
		stamp.Placement = tc.placement
		p, err := sealer(t).Preview(t.Context(), o, stamp)
		if err != nil {
			t.Fatalf("%s: Preview: error = %v", name, err)
		}
		v, _ := mustSeal(t, "a.pdf", tc.data, tc.placement)
		if p.Chosen.Remembered != (name == "remembered") {
			t.Errorf("%s: Remembered = %t, want %t", name, p.Chosen.Remembered, name == "remembered")
		}
		if v.Placement == Annotation {
			v.Placement = Auto // Preview does not distinguish annotations from page content
			if tc.placement.Mode == TopLeft {
				v.Placement = TopLeft
			}
		}
		noticed := slices.ContainsFunc(p.Notices, func(n Notice) bool { return n.Code == "box_not_usable" })
		if noticed != (name == "box outside the page") {
			t.Errorf("%s: the notices are %v, want box_not_usable: %t", name, p.Notices, !noticed)
		}
		if p.Chosen.Mode != v.Placement || p.Page != 1 || p.Pages != 1 || p.Width < 100 {
			t.Errorf("%s: preview = %+v, want page 1 of 1 with the placement %s of Seal", name, p, v.Placement)
		}
		if p.Chosen.Box == nil {
			continue
		}
		for i, at := range p.Chosen.Box {
			if math.Abs(at-v.Box[i]) > 0.01 {
				t.Errorf("%s: Preview returned the box %v, but the stamp is at %v", name, *p.Chosen.Box, v.Box)
				break
			}
		}
		if len(p.Candidates) != 6 && !p.Signed {
			t.Errorf("%s: got %d candidates, want 6: %+v", name, len(p.Candidates), p.Candidates)
		}
	}
}

// TestPreviewOfAnotherPage checks the preview of a signed file whose first page has no blank place.
func TestPreviewOfAnotherPage(t *testing.T) {
	t.Parallel()
	data := pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R/AcroForm<</SigFlags 3/Fields[6 0 R]>>>>",
		"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2/MediaBox[0 0 595 842]/Resources<<>>>>",
		"<</Type/Page/Parent 2 0 R/Contents 5 0 R/Annots[6 0 R]>>",
		"<</Type/Page/Parent 2 0 R>>",
		pdftest.Stream("", fullPage()),
		"<</Type/Annot/Subtype/Widget/FT/Sig/T(Signature1)/V 7 0 R/F 132/Rect[0 0 0 0]/P 3 0 R>>",
		"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/adbe.pkcs7.detached/ByteRange[0 10 20 10]/Contents<00>>>",
	)
	o := Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(data), Size: int64(len(data))}
	p, err := sealer(t).Preview(t.Context(), o, testStamp())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := mustSeal(t, "a.pdf", data, Placement{})
	if v.Placement != Annotation || v.Page != 2 || p.Chosen.Mode != Auto || p.Chosen.Box != nil || p.Page != 1 {
		t.Errorf("Preview: page %d, chosen = %+v; Seal: %s on page %d; want Auto without a box for an annotation on page 2", p.Page, p.Chosen, v.Placement, v.Page)
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	data := pagePDF{}.bytes()
	raw, err := sealer(t).Picture(t.Context(), Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(data), Size: int64(len(data))}, 1)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil || max(picture.Bounds().Dx(), picture.Bounds().Dy()) != previewSide {
		t.Errorf("error = %v, want a PNG with a longer side of %d pixels", err, previewSide)
	}
	broken := []byte("%PDF-1.7 broken")
	_, err = sealer(t).Picture(t.Context(), Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(broken), Size: int64(len(broken))}, 1)
	if _, ok := errors.AsType[*Refusal](err); !ok {
		t.Errorf("Picture of a broken file: error = %v, want a refusal", err)
	}
}
