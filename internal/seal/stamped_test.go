package seal

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"testing"

	"github.com/certvault/certvault/internal/pdfium"
)

// TestStampedIsTheVerifiedPage compares the picture of a placement with the page of the verified PDF that
// Seal makes with the same placement.
func TestStampedIsTheVerifiedPage(t *testing.T) {
	t.Parallel()
	data := pagePDF{}.bytes()
	for name, placement := range map[string]Placement{
		"auto": {}, "corner": {Mode: TopLeft}, "exact": {Mode: Exact, Box: Box{0.4, 0.4, 0.6, 0.5}}, "strip": {Mode: Strip}, "appended": {Mode: Appended},
	} {
		o := Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(data), Size: int64(len(data))}
		stamp := testStamp()
		stamp.Placement = placement
		got, err := sealer(t).Stamped(t.Context(), o, stamp)
		if err != nil {
			t.Fatalf("%s: Stamped: error = %v", name, err)
		}
		v, sealed := mustSeal(t, "a.pdf", data, placement)
		if got.Placement != v.Placement || got.Page != v.Page || got.Box != v.Box {
			t.Errorf("%s: Stamped returned %s on page %d at %v, but Seal returned %s on page %d at %v", name, got.Placement, got.Page, got.Box, v.Placement, v.Page, v.Box)
		}
		want, err := sealer(t).draw(t.Context(), bytes.NewReader(sealed), int64(len(sealed)), pdfium.Request{Page: v.Page - 1, MaxSide: previewSide, Annotations: true})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.PNG, want) {
			t.Errorf("%s: the picture differs from the page of the verified PDF", name)
		}
		plain, err := sealer(t).Picture(t.Context(), o, 1)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got.PNG, plain) {
			t.Errorf("%s: the picture has no stamp", name)
		}
	}
}

// TestStampedOfImages checks that the picture of a stamped image has a strip below the image.
func TestStampedOfImages(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 600, 400))); err != nil {
		t.Fatal(err)
	}
	o := Original{Name: "a.png", Type: PNG, R: bytes.NewReader(b.Bytes()), Size: int64(b.Len())}
	got, err := sealer(t).Stamped(t.Context(), o, testStamp())
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(got.PNG))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); got.Placement != Strip || size.Y*600 <= size.X*400 {
		t.Errorf("placement = %s, size of the picture = %v; want a strip and a page that is higher than 600 x 400", got.Placement, size)
	}
}

// TestInk checks that the picture of the content is opaque at an edge of the content, and transparent at a
// blank place.
func TestInk(t *testing.T) {
	t.Parallel()
	data := pagePDF{content: "0 g 100 100 20 20 re f"}.bytes()
	o := Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(data), Size: int64(len(data))}
	raw, err := sealer(t).Ink(t.Context(), o, testStamp())
	if err != nil {
		t.Fatal(err)
	}
	ink, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sealer(t).Preview(t.Context(), o, testStamp())
	if err != nil {
		t.Fatal(err)
	}
	at := func(x, y float64) bool {
		_, _, _, alpha := ink.At(int(x/p.Width*float64(ink.Bounds().Dx())), int((1-y/p.Height)*float64(ink.Bounds().Dy()))).RGBA()
		return alpha > 0
	}
	if !at(100, 110) || at(300, 300) {
		t.Errorf("Ink: content at the edge of the square = %t, at a blank place = %t; want true and false", at(100, 110), at(300, 300))
	}
	broken := []byte("%PDF-1.7 broken")
	_, err = sealer(t).Ink(t.Context(), Original{Name: "a.pdf", Type: PDF, R: bytes.NewReader(broken), Size: int64(len(broken))}, testStamp())
	if _, ok := errors.AsType[*Refusal](err); !ok {
		t.Errorf("Ink of a broken file: error = %v, want a refusal", err)
	}
}

// TestBlank checks that a stamp can be placed on the blank page.
func TestBlank(t *testing.T) {
	t.Parallel()
	o, err := Blank()
	if err != nil {
		t.Fatal(err)
	}
	p, err := sealer(t).Preview(t.Context(), o, testStamp())
	if err != nil || p.Pages != 1 || p.Chosen.Mode != Auto || p.Candidates[0].NoRoom {
		t.Errorf("preview of the blank page = %+v, error = %v; want one page and a free corner", p, err)
	}
	if _, err := sealer(t).Stamped(t.Context(), o, testStamp()); err != nil {
		t.Errorf("Stamped of the blank page: error = %v", err)
	}
}
