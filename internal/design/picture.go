package design

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"

	xdraw "golang.org/x/image/draw"

	"github.com/certvault/certvault/internal/pdf"
)

// maxPixels is the maximum number of pixels of a picture.
const maxPixels = 40_000_000

// picture is a PNG or JPEG image.
type picture struct {
	// width and height are in pixels as displayed.
	width, height int
	// resolution is in pixels per inch, or 0 if the file does not have it.
	resolution float64

	meta    metadata
	data    []byte
	decoded image.Image
	isJPEG  bool
}

// readPicture decodes a picture, so that a damaged one is found before it is used. The error is the
// reason why the file is not a usable picture, such as "it has more than 40 megapixels".
func readPicture(data []byte) (*picture, error) {
	p := &picture{data: data}
	var config image.Config
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		config, err = png.DecodeConfig(bytes.NewReader(data))
		p.meta = pngMetadata(data)
	case bytes.HasPrefix(data, []byte("\xFF\xD8\xFF")):
		config, err = jpeg.DecodeConfig(bytes.NewReader(data))
		p.meta, p.isJPEG = jpegMetadata(data), true
	default:
		return nil, errors.New("it is neither a PNG nor a JPEG image")
	}
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if config.Width*config.Height > maxPixels {
		return nil, fmt.Errorf("it has more than %d megapixels", maxPixels/1_000_000)
	}
	if p.isJPEG {
		p.decoded, err = jpeg.Decode(bytes.NewReader(data))
	} else {
		p.decoded, err = png.Decode(bytes.NewReader(data))
	}
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	p.width, p.height, p.resolution = config.Width, config.Height, p.meta.resolution
	if p.meta.orientation >= 5 {
		p.width, p.height = p.height, p.width
	}
	return p, nil
}

// adder adds an object to a PDF.
type adder interface{ Add(obj pdf.Object) pdf.Ref }

// add adds the picture to a PDF as an image XObject (ISO 32000-2, 8.9.5), with at most the given width
// in pixels. base is the colour space of sRGB, or nil for DeviceRGB. If opaque is true, the picture is
// drawn on white instead of with transparency.
func (p *picture) add(to adder, width int, base pdf.Object, opaque bool) pdf.Ref {
	switch p.decoded.(type) {
	case *image.YCbCr, *image.Gray:
		if p.isJPEG && p.meta.orientation <= 1 && width >= p.width {
			return p.addJPEG(to, base)
		}
	}
	img := p.pixels(width)
	colours, mask := split(img, opaque)
	profile, n := p.meta.profile, 3
	if _, gray := colours.(*image.Gray); gray {
		n = 1
	}
	if _, cmyk := p.decoded.(*image.CMYK); cmyk {
		profile = nil // the profile describes CMYK, but the pixels are RGB
	}
	stream := flateImage(colours, colourSpace(to, profile, n, base))
	if mask != nil {
		stream.Dict.Set("SMask", to.Add(flateImage(mask, pdf.Name("DeviceGray"))))
	}
	return to.Add(stream)
}

// addJPEG adds the JPEG data without its metadata.
func (p *picture) addJPEG(to adder, base pdf.Object) pdf.Ref {
	n := 3
	if _, gray := p.decoded.(*image.Gray); gray {
		n = 1
	}
	dict := imageDict(p.decoded.Bounds(), colourSpace(to, p.meta.profile, n, base))
	dict.Set("Filter", pdf.Name("DCTDecode"))
	return to.Add(pdf.NewRawStream(dict, plainJPEG(p.data)))
}

// colourSpace returns a colour space with n components. It returns the colour space of the profile if the
// profile has n components and a version that PDF supports, and otherwise base or a device colour space.
func colourSpace(to adder, profile []byte, n int, base pdf.Object) pdf.Object {
	device, name := pdf.Name("DeviceRGB"), "RGB "
	if n == 1 {
		device, name = "DeviceGray", "GRAY"
	}
	const space, header, latest = 16, 128, 4
	if len(profile) > header && profile[8] <= latest && string(profile[space:space+4]) == name {
		return pdf.Array{pdf.Name("ICCBased"), to.Add(profileStream(profile, device))}
	}
	if n == 3 && base != nil {
		return base
	}
	return device
}

func imageDict(r image.Rectangle, space pdf.Object) *pdf.Dict {
	return pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Image")},
		pdf.Entry{Key: "Width", Value: pdf.Integer(r.Dx())},
		pdf.Entry{Key: "Height", Value: pdf.Integer(r.Dy())},
		pdf.Entry{Key: "BitsPerComponent", Value: pdf.Integer(8)},
		pdf.Entry{Key: "ColorSpace", Value: space},
	)
}

// flateImage returns an image of type Gray or opaque NRGBA as a stream. It uses the data of a PNG image,
// because FlateDecode with a PNG predictor has the same format (ISO 32000-2, 7.4.4.4).
func flateImage(img image.Image, space pdf.Object) *pdf.Stream {
	var file bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if encoder.Encode(&file, img) != nil {
		return pdf.NewStream(nil, nil) // a bytes.Buffer returns no errors
	}
	var data []byte
	for _, c := range pngChunks(file.Bytes()) {
		if c.kind == "IDAT" {
			data = append(data, c.data...)
		}
	}
	dict := imageDict(img.Bounds(), space)
	n := 3
	if _, gray := img.(*image.Gray); gray {
		n = 1
	}
	dict.Set("Filter", pdf.Name("FlateDecode"))
	dict.Set("DecodeParms", pdf.NewDict(
		pdf.Entry{Key: "Predictor", Value: pdf.Integer(15)},
		pdf.Entry{Key: "Colors", Value: pdf.Integer(n)},
		pdf.Entry{Key: "Columns", Value: pdf.Integer(img.Bounds().Dx())},
	))
	return pdf.NewRawStream(dict, data)
}

// pixels returns the picture upright and at most width pixels wide.
func (p *picture) pixels(width int) *image.NRGBA {
	img := upright(p.decoded, p.meta.orientation)
	if width >= p.width || width < 1 {
		return img
	}
	r := image.Rect(0, 0, width, max(1, int(math.Round(float64(p.height)*float64(width)/float64(p.width)))))
	small := image.NewRGBA(r) // with premultiplied alpha, so that transparent pixels do not change the colours of others
	xdraw.CatmullRom.Scale(small, r, img, img.Bounds(), xdraw.Src, nil)
	out := image.NewNRGBA(r)
	xdraw.Draw(out, r, small, image.Point{}, xdraw.Src)
	return out
}

// upright returns a copy of an image, rotated and mirrored as its Exif orientation requires.
func upright(img image.Image, orientation int) *image.NRGBA {
	r := img.Bounds()
	plain := image.NewNRGBA(image.Rect(0, 0, r.Dx(), r.Dy()))
	xdraw.Draw(plain, plain.Rect, img, r.Min, xdraw.Src)
	if orientation <= 1 {
		return plain
	}
	w, h := r.Dx(), r.Dy()
	size := plain.Rect
	if orientation >= 5 {
		size = image.Rect(0, 0, h, w)
	}
	out := image.NewNRGBA(size)
	for y := range h {
		for x := range w {
			to := image.Pt(x, y)
			switch orientation {
			case 2:
				to = image.Pt(w-1-x, y)
			case 3:
				to = image.Pt(w-1-x, h-1-y)
			case 4:
				to = image.Pt(x, h-1-y)
			case 5:
				to = image.Pt(y, x)
			case 6:
				to = image.Pt(h-1-y, x)
			case 7:
				to = image.Pt(h-1-y, w-1-x)
			case 8:
				to = image.Pt(y, w-1-x)
			}
			copy(out.Pix[out.PixOffset(to.X, to.Y):][:4], plain.Pix[plain.PixOffset(x, y):][:4])
		}
	}
	return out
}

// split returns the colours of an image, as Gray if all of them are grey. It returns the opacity as a mask,
// or nil if the image has no transparent parts. If opaque is true, it first draws the image on white. It
// changes img.
func split(img *image.NRGBA, opaque bool) (colours image.Image, mask *image.Gray) {
	gray, transparent := true, false
	for i := 0; i < len(img.Pix); i += 4 {
		if a := uint32(img.Pix[i+3]); opaque && a < math.MaxUint8 {
			for k := i; k < i+3; k++ {
				img.Pix[k] = byte((uint32(img.Pix[k])*a + math.MaxUint8*(math.MaxUint8-a)) / math.MaxUint8)
			}
			img.Pix[i+3] = math.MaxUint8
		}
		gray = gray && img.Pix[i] == img.Pix[i+1] && img.Pix[i] == img.Pix[i+2]
		transparent = transparent || img.Pix[i+3] < math.MaxUint8
	}
	if transparent {
		mask = image.NewGray(img.Rect)
		for i := range mask.Pix {
			mask.Pix[i] = img.Pix[4*i+3]
			img.Pix[4*i+3] = math.MaxUint8
		}
	}
	if !gray {
		return img, mask
	}
	out := image.NewGray(img.Rect)
	for i := range out.Pix {
		out.Pix[i] = img.Pix[4*i]
	}
	return out, mask
}

// be32 returns the big-endian 32-bit number at an offset, or 0 if the number is not within b.
func be32(b []byte, at int) uint32 {
	if at < 0 || at+4 > len(b) {
		return 0
	}
	return binary.BigEndian.Uint32(b[at:])
}
