package recipient

import (
	"bytes"
	"image"
	"image/color"
	_ "image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/certvault/certvault/internal/mail"
)

// noise returns a picture that no format compresses well. It is the same in each run.
func noise(width, height int) image.Image {
	r := rand.New(rand.NewPCG(1, 2))
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range p.Pix {
		p.Pix[i] = uint8(r.Uint32())
	}
	return p
}

func TestPicturesFitIntoMail(t *testing.T) {
	t.Parallel()
	for _, size := range []image.Point{{364, 520}, {520, 364}, {520, 10}, {1, 1}} {
		got, err := fitJPEG(noise(size.X, size.Y), pageWidth, pageHeight, mail.MaxPage)
		if err != nil || len(got.Content) > mail.MaxPage || got.Width > pageWidth || got.Height > pageHeight || got.Width < 1 || got.Height < 1 {
			t.Fatalf("a page of %v has %d bytes and the size %d x %d, error %v, want at most MaxPage bytes and the size 1 x 1 to pageWidth x pageHeight", size, len(got.Content), got.Width, got.Height, err)
		}
	}
	for name, logo := range map[string]image.Image{"the largest logo": noise(480, 128), "a plain logo": image.NewUniform(color.Black)} {
		b := logo.Bounds()
		if b.Dx() > 480 {
			logo = image.NewGray(image.Rect(0, 0, 96, 96))
		}
		var file bytes.Buffer
		if err := png.Encode(&file, logo); err != nil {
			t.Fatal(err)
		}
		got, err := logoImage(file.Bytes())
		if err != nil || len(got.Content) > mail.MaxLogo || got.Width > logoWidth || got.Height > logoHeight {
			t.Fatalf("%s: logoImage returned %+v, error %v, want at most MaxLogo bytes and at most the size logoWidth x logoHeight", name, got, err)
		}
		if _, _, err := image.Decode(bytes.NewReader(got.Content)); err != nil {
			t.Errorf("%s: decoding the image: %v", name, err)
		}
		if large := len(file.Bytes()) > mail.MaxLogo; (got.Type == "image/jpeg") != large {
			t.Errorf("%s is a %s, want JPEG only if the file is too large", name, got.Type)
		}
	}
	sample, err := samplePage("#1a237e")
	if err != nil || len(sample.Content) > mail.MaxPage {
		t.Errorf("the sample has more than MaxPage bytes, or samplePage returned an error: %v", err)
	}
}
