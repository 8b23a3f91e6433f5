package seal

import (
	"bytes"
	"image"
	"testing"
)

func TestThumbnail(t *testing.T) {
	t.Parallel()
	_, data := mustSeal(t, "a.pdf", pagePDF{}.bytes(), Placement{})
	for width, want := range map[int]image.Point{200: {141, 200}, 100: {100, 142}} { // A4
		picture, err := sealer(t).Thumbnail(t.Context(), bytes.NewReader(data), int64(len(data)), width, 200)
		if err != nil {
			t.Fatalf("width %d: error = %v", width, err)
		}
		if got := picture.Bounds().Size(); got != want {
			t.Errorf("width %d: size = %v, want %v", width, got, want)
		}
	}
	if _, err := New(nil, nil).Thumbnail(t.Context(), bytes.NewReader(data), int64(len(data)), 200, 200); err == nil {
		t.Error("Thumbnail without a renderer succeeded, want an error")
	}
}
