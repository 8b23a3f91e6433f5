package seal

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"testing"
)

// TestPreviewMatchesSeal checks that the stamp is at the place that Preview returned.
func TestPreviewMatchesSeal(t *testing.T) {
	t.Parallel()
	blank := pagePDF{}.bytes()
	first, _ := mustSeal(t, "a.pdf", blank, Placement{Mode: TopLeft})
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
