package seal

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"testing"
)

// TestPreviewMatchesSeal checks that the stamp is at the place that Preview
// returned.
func TestPreviewMatchesSeal(t *testing.T) {
	t.Parallel()
	blank := pagePDF{}.bytes()
	before, _ := seals(t, "a.pdf", blank, Placement{Mode: TopLeft})
	for name, tc := range map[string]struct {
		data      []byte
		placement Placement
	}{
		"auto":         {blank, Placement{}},
		"remembered":   {blank, Placement{Remembered: []Layout{before.Layout}}},
		"another size": {blank, Placement{Remembered: []Layout{{Width: 100, Height: 100, Box: before.Layout.Box}}}},
		"a corner":     {blank, Placement{Mode: TopLeft}},
		"a place":      {blank, Placement{Mode: Exact, Box: Box{0.4, 0.4, 0.6, 0.5}}},
		"a strip":      {blank, Placement{Mode: Strip}},
		"its own page": {blank, Placement{Mode: Appended}},
	} {
		o := Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(tc.data), Size: int64(len(tc.data))}
		stamp := testStamp()
		stamp.Placement = tc.placement
		p, err := sealer(t).Preview(t.Context(), o, stamp)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v, _ := seals(t, "a.pdf", tc.data, tc.placement)
		if p.Chosen.Remembered != (name == "remembered") {
			t.Errorf("%s: remembered is %t", name, p.Chosen.Remembered)
		}
		if p.Chosen.Mode != v.Placement || p.Page != 1 || p.Pages != 1 || p.Width < 100 {
			t.Errorf("%s: %+v; sealed %s", name, p, v.Placement)
		}
		if p.Chosen.Box == nil {
			continue
		}
		for i, at := range p.Chosen.Box {
			if math.Abs(at-v.Box[i]) > 0.01 {
				t.Errorf("%s: shown at %v, sealed at %v", name, *p.Chosen.Box, v.Box)
				break
			}
		}
		if len(p.Candidates) != 6 {
			t.Errorf("%s: %+v", name, p.Candidates)
		}
	}
}

func TestPicturesOfOriginals(t *testing.T) {
	t.Parallel()
	data := pagePDF{}.bytes()
	raw, err := sealer(t).Picture(t.Context(), Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(data), Size: int64(len(data))}, 1)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil || max(picture.Bounds().Dx(), picture.Bounds().Dy()) != previewSide {
		t.Errorf("%v", err)
	}
	broken := []byte("%PDF-1.7 and no more")
	_, err = sealer(t).Picture(t.Context(), Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(broken), Size: int64(len(broken))}, 1)
	if _, ok := errors.AsType[*Refusal](err); !ok {
		t.Errorf("a file that is none: %v", err)
	}
}
