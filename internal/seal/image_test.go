package seal

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// oriented returns an image as it is displayed with an Exif orientation.
func oriented(img image.Image, orientation int) image.Image {
	b := img.Bounds()
	right, bottom := b.Max.X-1, b.Max.Y-1
	at := map[int]func(x, y int) (int, int){
		2: func(x, y int) (int, int) { return right - x, b.Min.Y + y },
		3: func(x, y int) (int, int) { return right - x, bottom - y },
		4: func(x, y int) (int, int) { return b.Min.X + x, bottom - y },
		5: func(x, y int) (int, int) { return b.Min.X + y, b.Min.Y + x },
		6: func(x, y int) (int, int) { return b.Min.X + y, bottom - x },
		7: func(x, y int) (int, int) { return right - y, bottom - x },
		8: func(x, y int) (int, int) { return right - y, b.Min.Y + x },
	}[orientation]
	if at == nil {
		return img
	}
	size := b.Size()
	if orientation >= 5 {
		size.X, size.Y = size.Y, size.X
	}
	return &turned{img, at, image.Rectangle{Max: size}}
}

// turned is a rotated or mirrored view of an image: at returns the place in the image for a place in the
// view. The pixels are not copied, because the tests compare only some of them.
type turned struct {
	image.Image

	at     func(x, y int) (int, int)
	bounds image.Rectangle
}

func (t *turned) Bounds() image.Rectangle { return t.bounds }

func (t *turned) At(x, y int) color.Color { return t.Image.At(t.at(x, y)) }

// difference returns the mean difference, 0 to 255, between an image on white and poppler's picture
// of the page, at a sample of the pixels. In the picture, the image begins at column x, and a pixel of
// the image is scale pixels wide and high.
func difference(img, page image.Image, x, scale int) float64 {
	var total, n float64
	r := img.Bounds()
	step := max(1, r.Dx()/200)
	for v := 0; v < r.Dy(); v += step {
		for u := 0; u < r.Dx(); u += step {
			ar, ag, ab, aa := img.At(r.Min.X+u, r.Min.Y+v).RGBA()
			br, bg, bb, _ := page.At(x+u*scale+scale/2, v*scale+scale/2).RGBA()
			for _, d := range [][2]uint32{{ar, br}, {ag, bg}, {ab, bb}} {
				total += math.Abs(float64(d[0]+0xFFFF-aa)-float64(d[1])) / 257
				n++
			}
		}
	}
	return total / n
}

func decoded(t *testing.T, data []byte) image.Image {
	t.Helper()
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// brightened returns an image with each component raised to exponent. A viewer with display gamma 2.2
// applies the gamma of a file in this way.
func brightened(img image.Image, exponent float64) image.Image {
	out := image.NewNRGBA64(img.Bounds())
	power := func(v uint16) uint16 { return uint16(0xFFFF * math.Pow(float64(v)/0xFFFF, exponent)) }
	for y := out.Rect.Min.Y; y < out.Rect.Max.Y; y++ {
		for x := out.Rect.Min.X; x < out.Rect.Max.X; x++ {
			c, _ := color.NRGBA64Model.Convert(img.At(x, y)).(color.NRGBA64)
			out.SetNRGBA64(x, y, color.NRGBA64{power(c.R), power(c.G), power(c.B), c.A})
		}
	}
	return out
}

// checkImage checks that poppler's picture of the page differs little from the image on average.
func checkImage(t *testing.T, name string, data []byte, want image.Image) {
	t.Helper()
	o := original(t, name, data)
	p, err := newPicture(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, sealed := mustSeal(t, name, data, Placement{})
	path := file(t, "after.pdf", sealed)
	w, _ := p.size()
	pageWidth, _ := pageSize(t, path, 1)
	limit, scale := 8.0, 1 // at scale 1 the positions do not match exactly
	if want.Bounds().Dx() < 300 {
		limit, scale = 4, 5
	}
	if img, err := readPNG(o.R, o.Size); err == nil && img.gamma != 0 {
		limit, want = 10, brightened(want, 1/(img.gamma*2.2))
	}
	dpi := float64(scale*want.Bounds().Dx()) / w * 72
	got := draw(t, path, 1, dpi, image.Rectangle{})
	x := int(math.Round((pageWidth - w) / 2 / 72 * dpi))
	if d := difference(want, got, x, scale); d > limit {
		t.Errorf("mean difference between the page and the image = %.1f of 255, want at most %.1f", d, limit)
	}
}

func TestCorpusImagesKeepTheirPixels(t *testing.T) {
	t.Parallel()
	for _, c := range append(corpus(t, "jpg/"), corpus(t, "png/")...) {
		if c.expected != "accept" {
			continue
		}
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			data := c.read(t)
			orientation := 1
			if strings.Contains(c.path, "orientation-") {
				orientation = int(c.path[strings.LastIndex(c.path, "-")+1] - '0')
			}
			checkImage(t, filepath.Base(c.path), data, oriented(decoded(t, data), orientation))
		})
	}
}

// scene returns an image without symmetry, so that each orientation looks different.
func scene(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{byte(255 * x / w), byte(255 * y / h), byte(128 + 127*(x/16+y/16)%2), 255})
		}
	}
	return img
}

func TestEveryOrientationIsUpright(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, scene(96, 64), &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	for o := 1; o <= 8; o++ {
		exif := "Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string(rune(o)) + "\x00\x00\x00\x00\x00\x00\x00"
		checkImage(t, "a.jpg", withSegment(b.Bytes(), markerAPP1, exif), oriented(decoded(t, b.Bytes()), o))
	}
}

func TestPNGColourTypes(t *testing.T) {
	t.Parallel()
	translucent := image.NewNRGBA64(image.Rect(0, 0, 40, 30))
	grey := image.NewGray16(image.Rect(0, 0, 40, 30))
	palette := image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.Black, color.White, color.NRGBA{200, 0, 0, 128}, color.Transparent})
	for y := range 30 {
		for x := range 40 {
			translucent.SetNRGBA64(x, y, color.NRGBA64{uint16(x * 1600), uint16(y * 2000), 9000, uint16(x * y * 50)})
			grey.SetGray16(x, y, color.Gray16{uint16(x * y * 50)})
			palette.SetColorIndex(x, y, byte((x/10+y/10)%4))
		}
	}
	for name, img := range map[string]image.Image{"16-bit alpha": translucent, "16-bit grey": grey, "palette": palette, "colour": scene(50, 40)} {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		checkImage(t, "a.png", b.Bytes(), img)
	}
}

func TestLargeImageGetsReadableStrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 4000, 3000)), nil); err != nil {
		t.Fatal(err)
	}
	v, data := mustSeal(t, "a.jpg", b.Bytes(), Placement{})
	if v.Placement != Strip || !v.Whole {
		t.Errorf("placement = %s, whole = %v; want a strip and true", v.Placement, v.Whole)
	}
	checkQR(t, file(t, "after.pdf", data), v)
}
