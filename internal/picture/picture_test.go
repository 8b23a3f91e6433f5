package picture_test

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/certvault/certvault/internal/picture"
)

// TestDraw checks that pictures are scaled down to the limits, and that files that cannot be decoded, and
// files and pictures that are too large, are refused.
func TestDraw(t *testing.T) {
	t.Parallel()
	encode := func(width, height int, asJPEG bool) []byte {
		var b bytes.Buffer
		err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
		if asJPEG {
			b.Reset()
			err = jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	limits := picture.Limits{Bytes: 100_000, Width: 480, Height: 128}
	for _, c := range []struct {
		file          []byte
		width, height int
	}{
		{encode(960, 128, false), 480, 64}, {encode(300, 256, true), 150, 128}, {encode(10, 10, false), 10, 10}, {encode(4096, 1, false), 480, 1},
	} {
		drawn, err := picture.Draw(c.file, limits)
		if err != nil {
			t.Fatal(err)
		}
		if head, err := png.DecodeConfig(bytes.NewReader(drawn)); err != nil || head.Width != c.width || head.Height != c.height {
			t.Errorf("the picture has %d x %d pixels, want %d x %d; error %v", head.Width, head.Height, c.width, c.height, err)
		}
	}
	good := encode(10, 10, false)
	for name, file := range map[string][]byte{
		"empty": nil, "SVG": []byte("<svg/>"), "cut off": good[:len(good)-20], "wide": encode(4097, 1, false), "many pixels": encode(4000, 4000, false),
		"large file": append(good, make([]byte, 100_000)...),
	} {
		if _, err := picture.Draw(file, limits); !errors.Is(err, picture.ErrRefused) {
			t.Errorf("%s: error = %v, want ErrRefused", name, err)
		}
	}
}
