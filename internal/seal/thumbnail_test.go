package seal

import (
	"bytes"
	"testing"
)

func TestThumbnail(t *testing.T) {
	t.Parallel()
	_, data := mustSeal(t, "a.pdf", pagePDF{}.bytes(), Placement{})
	picture, err := sealer(t).Thumbnail(t.Context(), bytes.NewReader(data), int64(len(data)), 200)
	if err != nil || picture.Bounds().Dy() != 200 || picture.Bounds().Dx() >= 200 {
		t.Errorf("Thumbnail = %v, error = %v; want a portrait of 200 pixels", picture, err)
	}
	if _, err := New(nil, nil).Thumbnail(t.Context(), bytes.NewReader(data), int64(len(data)), 200); err == nil {
		t.Error("a sealer without a renderer returns a picture")
	}
}
