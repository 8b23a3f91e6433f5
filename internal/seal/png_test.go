package seal

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

// decodedPNG decodes an image with this package's reader.
func decodedPNG(t *testing.T, img *pngImage, data []byte) *image.NRGBA64 {
	t.Helper()
	out := image.NewNRGBA64(image.Rect(0, 0, img.width, img.height))
	y := 0
	err := img.rows(t.Context(), bytes.NewReader(data), func(row []byte, _ byte) error {
		for x := range img.width {
			out.SetNRGBA64(x, y, pngPixel(img, row, x))
		}
		y++
		return nil
	})
	if err != nil {
		t.Fatalf("decoding the rows: error = %v", err)
	}
	if y != img.height {
		t.Fatalf("decoded %d rows, want %d", y, img.height)
	}
	return out
}

func pngPixel(img *pngImage, row []byte, x int) color.NRGBA64 {
	sample := func(i int) uint16 {
		i += x * img.samples()
		switch {
		case img.depth == 16:
			return uint16(row[2*i])<<8 | uint16(row[2*i+1])
		case img.colour == pngPalette:
			return uint16(sampleAt(row, i, img.depth))
		}
		return uint16(int(sampleAt(row, i, img.depth)) * 0xFFFF / (1<<img.depth - 1))
	}
	switch img.colour {
	case pngGray, pngGrayAlpha:
		c := color.NRGBA64{sample(0), sample(0), sample(0), 0xFFFF}
		if img.colour == pngGrayAlpha {
			c.A = sample(1)
		}
		return c
	case pngPalette:
		i := 3 * int(sample(0))
		wide := func(v byte) uint16 { return uint16(v) * 0x101 }
		c := color.NRGBA64{wide(img.palette[i]), wide(img.palette[i+1]), wide(img.palette[i+2]), 0xFFFF}
		if i/3 < len(img.transparency) {
			c.A = wide(img.transparency[i/3])
		}
		return c
	default:
		c := color.NRGBA64{sample(0), sample(1), sample(2), 0xFFFF}
		if img.colour == pngRGBA {
			c.A = sample(3)
		}
		return c
	}
}

func TestPNGMatchesStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range corpus(t, "png/") {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			data := c.read(t)
			img, err := readPNG(bytes.NewReader(data), int64(len(data)))
			if c.expected == "reject" {
				if err == nil {
					err = img.rows(t.Context(), bytes.NewReader(data), func([]byte, byte) error { return nil })
				}
				mustRefuse(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			got := decodedPNG(t, img, data)
			for y := range img.height {
				for x := range img.width {
					w := color.NRGBA64Model.Convert(want.At(x, y))
					if w.(color.NRGBA64).A != 0 && got.At(x, y) != w && !img.keyed() {
						t.Fatalf("pixel %d, %d = %v, want %v", x, y, got.At(x, y), w)
					}
				}
			}
		})
	}
}

// keyed reports whether one colour is transparent. decodedPNG ignores this transparency.
func (img *pngImage) keyed() bool { return img.colour != pngPalette && len(img.transparency) > 0 }

func TestPNGIsRefused(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 20, 20))); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	damaged := bytes.Clone(whole)
	damaged[45]++ // in the first IDAT chunk
	for name, data := range map[string][]byte{
		"truncated":      whole[:len(whole)-13],
		"damaged":        damaged,
		"signature only": whole[:8],
		"empty":          nil,
	} {
		_, err := readPNG(bytes.NewReader(data), int64(len(data)))
		t.Log(name, err)
		mustRefuse(t, err)
	}
}

func FuzzPNG(f *testing.F) {
	var b bytes.Buffer
	img := image.NewPaletted(image.Rect(0, 0, 9, 7), color.Palette{color.Black, color.White, color.Transparent})
	if err := png.Encode(&b, img); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	b = bytes.Buffer{}
	if err := png.Encode(&b, image.NewNRGBA64(image.Rect(0, 0, 9, 7))); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Original{Name: "a.png", Type: PNG, R: bytes.NewReader(data), Size: int64(len(data))}
		if img, err := readPNG(o.R, o.Size); err == nil && img.width*img.height > 1<<20 {
			t.Skip("skipping a large image")
		}
		p, err := newPicture(t.Context(), o)
		if err != nil {
			mustRefuse(t, err)
			return
		}
		var out bytes.Buffer
		if err := p.writeTo(&out); err != nil {
			t.Fatal(err)
		}
	})
}
