package vault

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// Sample is a certificate as an institution might create it.
type Sample struct {
	Institution, Title, Name, Line, Date string
	// Width and Height are the size of the page in points. If Width is 0, the size is A4,
	// landscape.
	Width, Height float64
	// Emblem is the side length in pixels of a picture on the page. If it is 0, there is no picture. The
	// picture has three bytes per pixel and cannot be compressed much.
	Emblem int
	// Attachment is the size in bytes of a stream that the page does not use.
	Attachment int

	// comment is the length in bytes of a comment in the trailer.
	comment int
}

// widths are the widths of the characters 32 to 126 of Times-Roman, in thousandths of the font
// size.
var widths = [...]int{
	250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444,
	921, 722, 667, 667, 722, 611, 556, 722, 722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722, 722, 611, 333, 278, 333, 469, 500,
	333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500, 278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541,
}

// page is a content stream (ISO 32000-2, 7.8.2) and the size of its page in points.
type page struct {
	bytes.Buffer

	width, height float64
}

// line writes centred text in a size and a colour. at is the distance of the text from the bottom of the
// page, as a fraction of the page's height.
func (p *page) line(at, size, red, green, blue float64, text string) {
	var width float64
	var shown strings.Builder
	for _, c := range text {
		if c < ' ' || c > '~' {
			c = '?'
		}
		width += float64(widths[c-' ']) * size / 1000
		if strings.ContainsRune(`\()`, c) {
			shown.WriteByte('\\')
		}
		shown.WriteRune(c)
	}
	fmt.Fprintf(p, "%g %g %g rg BT /F1 %g Tf %.2f %.2f Td (%s) Tj ET\n", red, green, blue, size, (p.width-width)/2, at*p.height, shown.String())
}

func (p *page) frame(inset, thickness float64) {
	fmt.Fprintf(p, "0.07 0.2 0.36 RG %g w %g %g %g %g re S\n", thickness, inset, inset, p.width-2*inset, p.height-2*inset)
}

// PDF returns the certificate as a file with one page.
func (s Sample) PDF() []byte {
	p := page{width: s.Width, height: s.Height}
	if p.width == 0 {
		p.width, p.height = 842, 595
	}
	fmt.Fprintf(&p, "0.99 0.98 0.95 rg 0 0 %g %g re f\n", p.width, p.height)
	p.frame(24, 3)
	p.frame(31, 0.75)
	scale := p.width / 842
	p.line(0.80, 20*scale, 0.07, 0.2, 0.36, s.Institution)
	p.line(0.66, 40*scale, 0.07, 0.2, 0.36, s.Title)
	p.line(0.565, 15*scale, 0.3, 0.3, 0.3, "This is to certify that")
	p.line(0.46, 36*scale, 0.55, 0.36, 0.05, s.Name)
	fmt.Fprintf(&p, "0.55 0.36 0.05 RG 0.75 w %g %g m %g %g l S\n", p.width*0.3, p.height*0.435, p.width*0.7, p.height*0.435)
	p.line(0.365, 15*scale, 0.3, 0.3, 0.3, s.Line)
	p.line(0.30, 15*scale, 0.3, 0.3, 0.3, s.Date)
	resources := "/Font << /F1 5 0 R >>"
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"", "",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>",
	}
	if s.Emblem > 0 {
		side := 90 * scale
		fmt.Fprintf(&p, "q %g 0 0 %g %g %g cm /Im1 Do Q\n", side, side, 60*scale, 60*scale)
		resources += fmt.Sprintf(" /XObject << /Im1 %d 0 R >>", len(objects)+1)
		objects = append(objects, emblem(s.Emblem, s.Name))
	}
	objects[2] = fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %g %g] /Contents 4 0 R /Resources << %s >> >>", p.width, p.height, resources)
	objects[3] = pdftest.Stream("", p.String())
	if s.Attachment > 0 {
		objects = append(objects, pdftest.Stream("", strings.Repeat(".", s.Attachment)))
	}
	comment := ""
	if s.comment > 1 {
		comment = "%" + strings.Repeat(" ", s.comment-2) + "\n"
	}
	return pdftest.File(comment, objects...)
}

// emblem returns an image XObject (ISO 32000-2, 8.9.5) with a disc of random pixels, which depend on seed.
func emblem(side int, seed string) string {
	var key [32]byte
	copy(key[:], seed)
	grain := rand.New(rand.NewChaCha8(key)) //nolint:gosec // a picture
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	row := make([]byte, 3*side)
	for y := range side {
		for x := range side {
			dx, dy := 2*x-side, 2*y-side
			pixel := row[3*x : 3*x+3]
			if dx*dx+dy*dy > side*side {
				copy(pixel, []byte{253, 250, 242})
				continue
			}
			n := grain.Uint32()
			pixel[0], pixel[1], pixel[2] = 120+byte(n&127), 80+byte(n>>8&127), byte(n>>16&127)
		}
		_, _ = w.Write(row) // a buffer in memory returns no error
	}
	_ = w.Close()
	head := fmt.Sprintf("/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode ", side, side)
	return pdftest.Stream(head, b.String())
}

// PDFOfSize returns the certificate as a file of exactly size bytes. A stream that the page does not use
// fills the file. The size must be at least a few kilobytes.
func (s Sample) PDFOfSize(size int) ([]byte, error) {
	const room = 200
	s.Attachment = max(1, size-len(s.PDF())-room)
	s.comment = size - len(s.PDF())
	pdf := s.PDF()
	if len(pdf) != size {
		return nil, fmt.Errorf("creating a PDF of %d bytes: it has %d", size, len(pdf))
	}
	return pdf, nil
}

// picture returns a picture of a certificate without text.
func picture(width, height int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	fill := func(x0, y0, x1, y1 int, c color.Color) {
		draw.Draw(img, image.Rect(x0, y0, x1, y1), image.NewUniform(c), image.Point{}, draw.Src)
	}
	paper, ink := color.RGBA{R: 252, G: 250, B: 242, A: 255}, color.RGBA{R: 18, G: 51, B: 92, A: 255}
	fill(0, 0, width, height, ink)
	fill(12, 12, width-12, height-12, paper)
	for i, share := range []int{3, 2, 4, 3} {
		y := height * (i + 2) / 8
		fill(width/2-width/(2*share), y, width/2+width/(2*share), y+height/24, ink)
	}
	return img
}

// JPEG returns a picture of a certificate as a JPEG file.
func JPEG(width, height int) ([]byte, error) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, picture(width, height), nil); err != nil {
		return nil, fmt.Errorf("drawing a JPEG: %w", err)
	}
	return b.Bytes(), nil
}

// PNG returns a picture of a certificate as a PNG file.
func PNG(width, height int) ([]byte, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, picture(width, height)); err != nil {
		return nil, fmt.Errorf("drawing a PNG: %w", err)
	}
	return b.Bytes(), nil
}

// HeavyPNG returns a PNG file with random pixels. The file has about three bytes per pixel, because
// random pixels cannot be compressed much.
func HeavyPNG(width, height int) ([]byte, error) {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	grain := rand.New(rand.NewChaCha8([32]byte{})) //nolint:gosec // a picture
	for i := 0; i < len(img.Pix); i += 4 {
		n := grain.Uint32()
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = byte(n), byte(n>>8), byte(n>>16), 255
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img); err != nil {
		return nil, fmt.Errorf("drawing a PNG: %w", err)
	}
	return b.Bytes(), nil
}
