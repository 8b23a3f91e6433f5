package seal

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/pdf"
)

// maxPage is the longest side of a page that viewers support, in points (ISO 32000-2, Annex C).
const maxPage = 14400

// picture is an image in the form in which a page displays it.
type picture struct {
	width, height int // in pixels as stored
	orientation   int // Exif orientation, 0 if absent
	density       density
	trailing      bool // the file has bytes after the end of the image

	image   *pdf.Stream
	alpha   *pdf.Stream // soft mask; nil if the image is opaque
	profile []byte      // ICC profile
	space   colourSpace
}

// colourSpace returns the colour space of a picture. base is the device or ICC colour space of the
// picture's components.
type colourSpace func(base pdf.Object) pdf.Object

func plainSpace(base pdf.Object) pdf.Object { return base }

// newPicture reads an image that passed Check.
func newPicture(ctx context.Context, o Original) (*picture, error) {
	switch o.Type {
	case JPEG:
		return jpegPicture(o)
	case PNG:
		return pngPicture(ctx, o)
	case PDF:
	}
	return nil, fmt.Errorf("%q is not an image type", o.Type)
}

func jpegPicture(o Original) (*picture, error) {
	img, err := readJPEG(o.R, o.Size)
	if err != nil {
		return nil, err
	}
	p := &picture{
		width: img.width, height: img.height, orientation: img.exif.orientation,
		density: img.density, profile: img.profile, space: plainSpace, trailing: img.end < o.Size,
	}
	if !p.density.absolute && (img.exif.x > 0 || img.exif.y > 0) {
		p.density = img.exif.density()
	}
	dict := imageDict(img.width, img.height, 8)
	dict.Set("Filter", pdf.Name("DCTDecode"))
	if img.rgb() {
		dict.Set("DecodeParms", pdf.NewDict(pdf.Entry{Key: "ColorTransform", Value: pdf.Integer(0)}))
	}
	if len(img.ids) == 4 && img.adobe {
		// Adobe stores CMYK inverted, and DCTDecode does not undo the inversion.
		dict.Set("Decode", integers(1, 0, 1, 0, 1, 0, 1, 0))
	}
	dict.Set("ColorSpace", deviceSpace(len(img.ids)))
	body, length := img.body(o.R)
	p.image = pdf.NewStreamFrom(dict, body, length)
	return p, nil
}

func imageDict(width, height, depth int) *pdf.Dict {
	return pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Image")},
		pdf.Entry{Key: "Width", Value: pdf.Integer(width)},
		pdf.Entry{Key: "Height", Value: pdf.Integer(height)},
		pdf.Entry{Key: "BitsPerComponent", Value: pdf.Integer(depth)},
	)
}

func deviceSpace(components int) pdf.Name {
	switch components {
	case 1:
		return "DeviceGray"
	case 4:
		return "DeviceCMYK"
	default:
		return "DeviceRGB"
	}
}

func integers(values ...int) pdf.Array {
	out := make(pdf.Array, len(values))
	for i, v := range values {
		out[i] = pdf.Integer(v)
	}
	return out
}

// size returns the width and height of the page in points.
func (p *picture) size() (width, height float64) {
	x, y := p.density.resolution()
	width, height = float64(p.width)*72/x, float64(p.height)*72/y
	if p.orientation >= 5 {
		width, height = height, width
	}
	if longer := max(width, height); longer > maxPage {
		width, height = width*maxPage/longer, height*maxPage/longer
	}
	return width, height
}

// matrix returns the matrix that maps the unit square of the image (ISO 32000-2, 8.9.4) to a page with
// width w and height h. It rotates and mirrors the image according to the Exif orientation.
func (p *picture) matrix(w, h float64) [6]float64 {
	switch p.orientation {
	case 2:
		return [6]float64{-w, 0, 0, h, w, 0}
	case 3:
		return [6]float64{-w, 0, 0, -h, w, h}
	case 4:
		return [6]float64{w, 0, 0, -h, 0, h}
	case 5:
		return [6]float64{0, -h, -w, 0, w, h}
	case 6:
		return [6]float64{0, -h, w, 0, 0, h}
	case 7:
		return [6]float64{0, h, w, 0, 0, 0}
	case 8:
		return [6]float64{0, h, -w, 0, w, 0}
	default:
		return [6]float64{w, 0, 0, h, 0, 0}
	}
}

// file returns a PDF that contains only the picture. size is the expected size in bytes.
func (p *picture) file(size int64) (*bytes.Buffer, error) {
	var file bytes.Buffer
	file.Grow(int(size) + 16<<10)
	if err := p.writeTo(&file); err != nil {
		return nil, err
	}
	return &file, nil
}

// writeTo writes a PDF of one page that shows the picture.
func (p *picture) writeTo(out io.Writer) error {
	w := pdf.NewWriter(out)
	dict := p.image.Dict
	base := dict.Get("ColorSpace")
	if len(p.profile) > 0 {
		n := map[pdf.Object]int{pdf.Name("DeviceGray"): 1, pdf.Name("DeviceRGB"): 3, pdf.Name("DeviceCMYK"): 4}[base]
		profile := w.Add(pdf.NewStream(pdf.NewDict(
			pdf.Entry{Key: "N", Value: pdf.Integer(n)}, pdf.Entry{Key: "Alternate", Value: base}), p.profile))
		base = pdf.Array{pdf.Name("ICCBased"), profile}
	}
	dict.Set("ColorSpace", p.space(base))
	if p.alpha != nil {
		dict.Set("SMask", w.Add(p.alpha))
	}
	width, height := p.size()
	var content bytes.Buffer
	content.WriteString("q ")
	for _, v := range p.matrix(width, height) {
		writeNumber(&content, v)
		content.WriteByte(' ')
	}
	content.WriteString("cm /Im0 Do Q")
	contents := w.Add(pdf.NewStream(nil, content.Bytes()))
	resources := pdf.NewDict(pdf.Entry{Key: "XObject", Value: pdf.NewDict(pdf.Entry{Key: "Im0", Value: w.Add(p.image)})})
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: width, Y1: height}.Array()},
		pdf.Entry{Key: "Resources", Value: resources},
		pdf.Entry{Key: "Contents", Value: contents},
	))
	w.Set(pages, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: pdf.Array{page}},
		pdf.Entry{Key: "Count", Value: pdf.Integer(1)},
	))
	root := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")},
		pdf.Entry{Key: "Pages", Value: pages},
	))
	if err := w.Close(root, pdf.Ref{}); err != nil {
		return fmt.Errorf("writing the page of an image: %w", err)
	}
	return nil
}

// onePixel returns a picture that has one pixel and the same page size as p.
func (p *picture) onePixel() *picture {
	s := *p
	dict := imageDict(1, 1, 8)
	dict.Set("ColorSpace", pdf.Name("DeviceGray"))
	s.image, s.alpha, s.profile, s.space = pdf.NewStream(dict, []byte{0x80}), nil, nil, plainSpace
	return &s
}

// writeNumber writes v in the number syntax of content streams.
func writeNumber(b *bytes.Buffer, v float64) {
	switch n := pdf.Number(v).(type) {
	case pdf.Integer:
		fmt.Fprintf(b, "%d", n)
	case pdf.Real:
		b.WriteString(string(n))
	}
}
