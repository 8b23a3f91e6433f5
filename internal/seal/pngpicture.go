package seal

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"math"

	"github.com/certvault/certvault/internal/pdf"
)

// pngPicture copies the compressed data of a PNG image if PDF supports its form: FlateDecode with
// the PNG predictors (ISO 32000-2, 7.4.4.4) supports neither interlacing nor alpha. Otherwise
// pngPicture decompresses the data, and compresses colour and alpha separately.
func pngPicture(ctx context.Context, o Original) (*picture, error) {
	img, err := readPNG(o.R, o.Size)
	if err != nil {
		return nil, err
	}
	p := &picture{
		width: img.width, height: img.height, orientation: img.exif.orientation,
		density: img.density, profile: img.profile, space: img.space, trailing: img.end < o.Size,
	}
	colours := img.samples()
	if img.hasAlpha() {
		colours--
	}
	dict := imageDict(img.width, img.height, img.depth)
	dict.Set("ColorSpace", deviceSpace(img.colours()))
	flateParameters(dict, colours, img.depth, img.width)
	if key := img.colourKey(); key != nil {
		dict.Set("Mask", key)
	}
	if !img.interlaced && !img.needsMask() {
		// Decode the data to check it, although it is copied: a viewer shows an incomplete image without
		// reporting an error.
		if err := img.rows(ctx, o.R, func([]byte, byte) error { return nil }); err != nil {
			return nil, err
		}
		body, length := img.compressed(o.R)
		p.image = pdf.NewStreamFrom(dict, body, length)
		return p, nil
	}
	s, err := newSplitter(img, colours)
	if err != nil {
		return nil, err
	}
	if err := img.rows(ctx, o.R, s.row); err != nil {
		return nil, err
	}
	colour, alpha, err := s.finish()
	if err != nil {
		return nil, err
	}
	p.image = pdf.NewRawStream(dict, colour)
	if alpha != nil {
		mask := imageDict(img.width, img.height, s.alphaDepth)
		mask.Set("ColorSpace", pdf.Name("DeviceGray"))
		flateParameters(mask, 1, s.alphaDepth, img.width)
		p.alpha = pdf.NewRawStream(mask, alpha)
	}
	return p, nil
}

func flateParameters(dict *pdf.Dict, colours, depth, columns int) {
	dict.Set("Filter", pdf.Name("FlateDecode"))
	dict.Set("DecodeParms", pdf.NewDict(
		pdf.Entry{Key: "Predictor", Value: pdf.Integer(15)},
		pdf.Entry{Key: "Colors", Value: pdf.Integer(colours)},
		pdf.Entry{Key: "BitsPerComponent", Value: pdf.Integer(depth)},
		pdf.Entry{Key: "Columns", Value: pdf.Integer(columns)},
	))
}

func (img *pngImage) hasAlpha() bool { return img.colour == pngGrayAlpha || img.colour == pngRGBA }

// needsMask reports whether the transparency needs a soft mask. A single transparent colour of 8
// bits or less needs none; see colourKey.
func (img *pngImage) needsMask() bool {
	return img.hasAlpha() || len(img.transparency) > 0 && (img.colour == pngPalette || img.depth == 16)
}

// colourKey returns the colour key mask (ISO 32000-2, 8.9.6.4), or nil if there is none.
func (img *pngImage) colourKey() pdf.Array {
	if len(img.transparency) == 0 || img.needsMask() {
		return nil
	}
	var key pdf.Array
	for i := 1; i < len(img.transparency); i += 2 {
		v := pdf.Integer(img.transparency[i] & (1<<img.depth - 1))
		key = append(key, v, v)
	}
	return key
}

// space returns the colour space of the image, based on the device or ICC colour space base.
// Without a profile, base is calibrated to the gamma of the file, unless the gamma is missing,
// implausible or close to the usual 1/2.2. For a palette image, the result is an indexed colour
// space.
func (img *pngImage) space(base pdf.Object) pdf.Object {
	if name, ok := base.(pdf.Name); ok && img.gamma > 0.1 && img.gamma < 10 && math.Abs(img.gamma*2.2-1) > 0.05 {
		base = calibrated(name, 1/img.gamma)
	}
	if img.colour != pngPalette {
		return base
	}
	return pdf.Array{pdf.Name("Indexed"), base, pdf.Integer(len(img.palette)/3 - 1), pdf.String(img.palette)}
}

// calibrated returns a CalGray or CalRGB colour space (ISO 32000-2, 8.6.5.2 and 8.6.5.3) with the
// primaries and the white point of sRGB (IEC 61966-2-1).
func calibrated(device pdf.Name, gamma float64) pdf.Object {
	white := pdf.Entry{Key: "WhitePoint", Value: numbers(0.9505, 1, 1.089)}
	if device == "DeviceGray" {
		return pdf.Array{pdf.Name("CalGray"), pdf.NewDict(white, pdf.Entry{Key: "Gamma", Value: pdf.Number(gamma)})}
	}
	return pdf.Array{pdf.Name("CalRGB"), pdf.NewDict(white,
		pdf.Entry{Key: "Gamma", Value: numbers(gamma, gamma, gamma)},
		pdf.Entry{Key: "Matrix", Value: numbers(0.4124, 0.2126, 0.0193, 0.3576, 0.7152, 0.1192, 0.1805, 0.0722, 0.9505)})}
}

func numbers(values ...float64) pdf.Array {
	out := make(pdf.Array, len(values))
	for i, v := range values {
		out[i] = pdf.Number(v)
	}
	return out
}

// splitter compresses the colour and the alpha of an image separately, row by row. It filters each row
// with the filter that pngImage.rows passes with the row.
type splitter struct {
	img        *pngImage
	alphaDepth int
	colour     *plane
	alpha      *plane // nil if the image has no alpha
	opaque     bool
}

// plane is a stream of filtered rows that is being compressed.
type plane struct {
	compressed bytes.Buffer
	z          *zlib.Writer
	row, above []byte
	out        []byte
	distance   int // distance to the pixel on the left, in bytes
}

// fastThreshold is the size of a plane in bytes above which it is compressed with the fastest level
// instead of the default.
const fastThreshold = 16 << 20

func newPlane(stride, height, distance int) (*plane, error) {
	p := &plane{row: make([]byte, stride), above: make([]byte, stride), out: make([]byte, stride+1), distance: distance}
	level := zlib.DefaultCompression
	if int64(stride)*int64(height) > fastThreshold {
		level = zlib.BestSpeed
	}
	var err error
	if p.z, err = zlib.NewWriterLevel(&p.compressed, level); err != nil {
		return nil, fmt.Errorf("compressing the image: %w", err)
	}
	return p, nil
}

// flush filters and compresses the row in p.row.
func (p *plane) flush(filter byte) error {
	p.out[0] = filter
	applyFilter(filter, p.out[1:], p.row, p.above, p.distance)
	p.row, p.above = p.above, p.row
	if _, err := p.z.Write(p.out); err != nil {
		return fmt.Errorf("compressing the image: %w", err)
	}
	return nil
}

func newSplitter(img *pngImage, colours int) (*splitter, error) {
	s := &splitter{img: img, alphaDepth: 8, opaque: true}
	var err error
	if s.colour, err = newPlane((img.width*colours*img.depth+7)/8, img.height, max(1, colours*img.depth/8)); err != nil {
		return nil, err
	}
	if img.hasAlpha() {
		s.alphaDepth = img.depth
	}
	if img.needsMask() {
		s.alpha, err = newPlane(img.width*s.alphaDepth/8, img.height, s.alphaDepth/8)
	}
	return s, err
}

func (s *splitter) row(row []byte, filter byte) error {
	switch {
	case s.img.hasAlpha() && s.img.depth == 8 && s.img.colour == pngRGBA:
		colour, alpha := s.colour.row, s.alpha.row
		for i := range alpha {
			from, to := row[4*i:4*i+4:4*i+4], colour[3*i:3*i+3:3*i+3]
			to[0], to[1], to[2], alpha[i] = from[0], from[1], from[2], from[3]
		}
	case s.img.hasAlpha():
		size := s.img.depth / 8
		pixel := s.img.samples() * size
		for i := range s.img.width {
			from := row[i*pixel : (i+1)*pixel]
			copy(s.colour.row[i*(pixel-size):], from[:pixel-size])
			copy(s.alpha.row[i*size:], from[pixel-size:])
		}
	case s.alpha == nil:
		copy(s.colour.row, row)
	default:
		copy(s.colour.row, row)
		s.key(row)
	}
	if s.alpha != nil {
		for _, v := range s.alpha.row {
			s.opaque = s.opaque && v == 0xFF
		}
		if err := s.alpha.flush(filter); err != nil {
			return err
		}
	}
	return s.colour.flush(filter)
}

// key sets alpha from the transparency of the palette entries, or from the single transparent 16-bit
// colour.
func (s *splitter) key(row []byte) {
	img := s.img
	if img.colour == pngPalette {
		for i := range img.width {
			s.alpha.row[i] = 0xFF
			if index := int(sampleAt(row, i, img.depth)); index < len(img.transparency) {
				s.alpha.row[i] = img.transparency[index]
			}
		}
		return
	}
	n := len(img.transparency)
	for i := range img.width {
		s.alpha.row[i] = 0xFF
		if bytes.Equal(row[i*n:(i+1)*n], img.transparency) {
			s.alpha.row[i] = 0
		}
	}
}

// finish returns the compressed streams of colour and alpha. alpha is nil if every pixel is opaque.
func (s *splitter) finish() (colour, alpha []byte, err error) {
	if err := s.colour.z.Close(); err != nil {
		return nil, nil, fmt.Errorf("compressing the image: %w", err)
	}
	if s.alpha == nil {
		return s.colour.compressed.Bytes(), nil, nil
	}
	if err := s.alpha.z.Close(); err != nil {
		return nil, nil, fmt.Errorf("compressing the image: %w", err)
	}
	if s.opaque {
		return s.colour.compressed.Bytes(), nil, nil
	}
	return s.colour.compressed.Bytes(), s.alpha.compressed.Bytes(), nil
}
