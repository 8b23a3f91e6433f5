package design

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"strconv"
	"sync"

	"github.com/certvault/certvault/internal/pdf"
)

const (
	// maxSignatureSide is the maximum width and height of an uploaded signature in pixels.
	maxSignatureSide = 4000
	// maxSignatureWidth and maxSignatureHeight limit a stored signature in pixels. At 300 pixels per inch,
	// they are 2 inches and 1 inch.
	maxSignatureWidth, maxSignatureHeight = 600, 300
	// greyLevels is the number of levels of transparency of a stored signature.
	greyLevels = 16
	// faintest is the lowest level that crop treats as ink.
	faintest = 2
)

// SignaturePicture is the picture of a signature, black with transparency. It can be used by several
// goroutines.
type SignaturePicture struct {
	width, height int
	mask          *image.Gray
	whole, opaque func() *pdf.Stream
	alpha         func() *pdf.Stream
}

// ErrSignaturePicture means that a file cannot be used as the picture of a signature. The texts of the
// errors that wrap it are safe to show.
var ErrSignaturePicture = errors.New("the picture of a signature cannot be used")

// PrepareSignature returns an uploaded picture of a signature as it is stored: a small PNG image in black with
// at most 16 levels of transparency. The paper becomes transparent, and the margins around the ink are removed.
// The error wraps ErrSignaturePicture if the file cannot be used.
func PrepareSignature(file []byte) ([]byte, error) {
	head, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignaturePicture, err)
	}
	if head.Width > maxSignatureSide || head.Height > maxSignatureSide {
		return nil, fmt.Errorf("%w: it has %d × %d pixels, but can have at most %d on each side", ErrSignaturePicture, head.Width, head.Height, maxSignatureSide)
	}
	p, err := readPicture(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignaturePicture, err)
	}
	ink := crop(inkOf(upright(p.decoded, p.meta.orientation)))
	if ink == nil {
		return nil, fmt.Errorf("%w: it shows no ink", ErrSignaturePicture)
	}
	small := &picture{decoded: ink, width: ink.Rect.Dx(), height: ink.Rect.Dy()}
	width := int(float64(small.width) * min(1, maxSignatureWidth/float64(small.width), maxSignatureHeight/float64(small.height)))
	return encodeSignature(small.pixels(max(1, width)))
}

// inkOf returns the ink of a picture in black. The darker a pixel is, the more opaque it becomes. The paper
// becomes transparent, even if it is grey.
func inkOf(img *image.NRGBA) *image.NRGBA {
	var histogram [256]int
	for i := 0; i < len(img.Pix); i += 4 {
		histogram[darkness(img.Pix[i:i+4])]++
	}
	// The level of the paper is the most frequent level in the lighter half of the levels.
	paper := 0
	for level := range 128 {
		if histogram[level] > histogram[paper] {
			paper = level
		}
	}
	const noise = 24
	floor := min(paper+noise, 200)
	if paper == 0 {
		floor = 0
	}
	out := image.NewNRGBA(img.Rect)
	for i := 0; i < len(img.Pix); i += 4 {
		if d := int(darkness(img.Pix[i : i+4])); d > floor {
			out.Pix[i+3] = byte((d - floor) * math.MaxUint8 / (math.MaxUint8 - floor))
		}
	}
	return out
}

// darkness returns the darkness of a pixel on white paper, from 0 for white to 255 for black.
func darkness(p []byte) byte {
	const r, g, b, all = 299, 587, 114, 1000
	grey := (r*int(p[0]) + g*int(p[1]) + b*int(p[2])) / all
	return byte((math.MaxUint8 - grey) * int(p[3]) / math.MaxUint8)
}

// crop returns the smallest part of a picture that contains all ink, or nil if the picture has no ink.
func crop(img *image.NRGBA) *image.NRGBA {
	var box image.Rectangle
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			if img.Pix[img.PixOffset(x, y)+3] >= faintest*math.MaxUint8/(greyLevels-1) {
				box = box.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if box.Empty() {
		return nil
	}
	cut := image.NewNRGBA(image.Rect(0, 0, box.Dx(), box.Dy()))
	for y := range box.Dy() {
		from := img.PixOffset(box.Min.X, box.Min.Y+y)
		copy(cut.Pix[cut.PixOffset(0, y):][:4*box.Dx()], img.Pix[from:])
	}
	return cut
}

// encodeSignature writes a picture with 16 levels of transparency.
func encodeSignature(img *image.NRGBA) ([]byte, error) {
	var palette color.Palette
	for i := range greyLevels {
		palette = append(palette, color.NRGBA{A: byte(i * math.MaxUint8 / (greyLevels - 1))})
	}
	out := image.NewPaletted(img.Rect, palette)
	for i := range out.Pix {
		out.Pix[i] = byte((int(img.Pix[4*i+3])*(greyLevels-1) + math.MaxUint8/2) / math.MaxUint8)
	}
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, out); err != nil {
		return nil, fmt.Errorf("writing the picture of a signature: %w", err)
	}
	return file.Bytes(), nil
}

// OpenSignature reads a stored picture of a signature.
func OpenSignature(stored []byte) (*SignaturePicture, error) {
	img, err := png.Decode(bytes.NewReader(stored))
	if err != nil {
		return nil, fmt.Errorf("reading the picture of a signature: %w", err)
	}
	r := img.Bounds()
	mask := image.NewGray(image.Rect(0, 0, r.Dx(), r.Dy()))
	for y := range r.Dy() {
		for x := range r.Dx() {
			_, _, _, a := img.At(r.Min.X+x, r.Min.Y+y).RGBA()
			mask.Pix[mask.PixOffset(x, y)] = byte(a >> 8)
		}
	}
	return newSignature(mask), nil
}

func newSignature(mask *image.Gray) *SignaturePicture {
	s := &SignaturePicture{width: mask.Rect.Dx(), height: mask.Rect.Dy(), mask: mask}
	gray := pdf.Name("DeviceGray")
	s.alpha = sync.OnceValue(func() *pdf.Stream { return flateImage(mask, gray) })
	s.whole = sync.OnceValue(func() *pdf.Stream { return flateImage(image.NewGray(mask.Rect), gray) })
	s.opaque = sync.OnceValue(func() *pdf.Stream {
		blended := image.NewGray(mask.Rect)
		for i, a := range mask.Pix {
			blended.Pix[i] = math.MaxUint8 - a
		}
		return flateImage(blended, gray)
	})
	return s
}

// add adds the picture to a PDF. If opaque is true, the picture is drawn on white instead of with transparency.
func (s *SignaturePicture) add(to adder, opaque bool) pdf.Ref {
	if opaque {
		return to.Add(s.opaque())
	}
	black := s.whole()
	return to.Add(black.WithDict(black.Dict.Clone().Set("SMask", to.Add(s.alpha()))))
}

// SampleSignature returns the picture that samples show in place of a signature. Samples never show the
// signature of a person.
var SampleSignature = sync.OnceValue(func() *SignaturePicture {
	const width, height, pen = 360, 120, 2.2
	mask := image.NewGray(image.Rect(0, 0, width, height))
	dot := func(x, y float64) {
		for py := int(y - pen - 1); py <= int(y+pen+1); py++ {
			for px := int(x - pen - 1); px <= int(x+pen+1); px++ {
				if !image.Pt(px, py).In(mask.Rect) {
					continue
				}
				level := min(1, max(0, pen+0.5-math.Hypot(float64(px)-x, float64(py)-y)))
				at := mask.PixOffset(px, py)
				mask.Pix[at] = max(mask.Pix[at], byte(level*math.MaxUint8))
			}
		}
	}
	const steps, loops = 4000, 9
	for i := range steps {
		t := float64(i) / steps
		swing := (height/2 - 2*pen) * (0.35 + 0.65*(1-t)*(1-t))
		x := 14 + t*(width-40) + 12*math.Cos(t*loops*2*math.Pi)
		dot(x, height/2+swing*math.Sin(t*loops*2*math.Pi)*math.Cos(3*t))
	}
	return newSignature(mask)
})

// drawSignatures draws the pictures of signatures into the contents of the pages.
func (t *Template) drawSignatures(u *pdf.Update, v *Values, contents []bytes.Buffer) {
	drawn := map[*SignaturePicture]pdf.Ref{}
	own := make([]*pdf.Dict, len(t.pages))
	for i := range t.signatures {
		f := &t.signatures[i]
		d := drawing{out: &contents[f.page], geometry: t.pages[f.page].geometry}
		d.open("Figure", f.mark)
		if f.signatory >= len(v.Signatories) || v.Signatories[f.signatory].Picture == nil || t.pages[f.page].pictures == nil {
			if f.mark >= 0 {
				d.out.WriteString("EMC\n")
			}
			continue
		}
		pic := v.Signatories[f.signatory].Picture
		ref, ok := drawn[pic]
		if !ok {
			ref = pic.add(u, t.plan.Opaque)
			drawn[pic] = ref
		}
		if own[f.page] == nil {
			own[f.page] = t.pages[f.page].pictures.Clone()
		}
		name := t.plan.Prefix + "S" + strconv.Itoa(i)
		own[f.page].Set(pdf.Name(name), ref)
		scale := min(f.Box[2]/float64(pic.width), f.Box[3]/float64(pic.height))
		w, h := float64(pic.width)*scale, float64(pic.height)*scale
		x, y := aligned(f.Field, w, h)
		d.transform(f.Field)
		d.numbers(w, 0, 0, h, x, y)
		d.out.WriteString("cm /" + name + " Do")
		d.close(f.mark)
	}
	for i, dict := range own {
		if dict != nil {
			u.Set(t.pages[i].images, dict)
		}
	}
}
