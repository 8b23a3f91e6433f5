package recipient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"

	"golang.org/x/image/draw"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// pageWidth and pageHeight are the maximum size of the picture of a page in a mail, and logoWidth
	// and logoHeight the maximum size of a logo, in CSS pixels. A picture has up to density pixels for
	// each CSS pixel in each direction, for screens with a high resolution.
	pageWidth, pageHeight = 200, 260
	logoWidth, logoHeight = 240, 64
	density               = 2
)

// pageSource and sampleSource are the prefixes of the sources of pictures of pages. The UUID of the
// certificate follows pageSource, and the colour of the sample follows sampleSource.
const (
	pageSource   = "page:"
	sampleSource = "sample:"
)

// MailPicture loads a picture of a mail: a logo, the first page of an approved certificate, or the page
// of a sample. It returns mail.ErrNoPicture if the picture no longer exists. MailPicture is the callback
// mail.Config.Picture, which is called when the mail is sent and not in the transaction that approves
// the certificate.
func (s *Service) MailPicture(ctx context.Context, source string) (*mail.Image, error) {
	if id, ok := account.LogoSource(source); ok {
		content, err := account.LogoPNG(ctx, s.db, id)
		if err != nil {
			return nil, err
		}
		if content == nil {
			return nil, mail.ErrNoPicture
		}
		return logoImage(content)
	}
	if id, ok := strings.CutPrefix(source, pageSource); ok {
		return s.pageImage(ctx, id)
	}
	if text, ok := strings.CutPrefix(source, sampleSource); ok {
		return samplePage(text)
	}
	return nil, fmt.Errorf("unknown picture %q", source)
}

// pageImage draws the first page of a certificate. It returns mail.ErrNoPicture if the certificate
// does not exist or is not approved, or if its files were deleted.
func (s *Service) pageImage(ctx context.Context, uuid string) (*mail.Image, error) {
	c, err := s.certs.BySignedLink(ctx, uuid)
	if fault.Is(err, fault.NotFound) {
		return nil, mail.ErrNoPicture
	}
	if err != nil {
		return nil, err
	}
	if c.Status != cert.Approved {
		return nil, mail.ErrNoPicture
	}
	page, err := s.certs.Thumbnail(ctx, c, density*pageWidth, density*pageHeight)
	if errors.Is(err, cert.ErrFilesPurged) {
		return nil, mail.ErrNoPicture
	}
	if err != nil {
		return nil, err
	}
	return fitJPEG(page, pageWidth, pageHeight, mail.MaxPage)
}

// logoImage returns a logo of at most mail.MaxLogo bytes. A stored logo has up to density pixels for
// each CSS pixel in each direction.
func logoImage(content []byte) (*mail.Image, error) {
	logo, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading a logo: %w", err)
	}
	width, height := shownSize(logo.Bounds(), logoWidth, logoHeight)
	if len(content) <= mail.MaxLogo {
		return &mail.Image{Type: "image/png", Content: content, Width: width, Height: height}, nil
	}
	// A photograph is smaller as a JPEG file. The mail shows logos on white, so transparency is not needed.
	paper := image.NewRGBA(logo.Bounds())
	draw.Draw(paper, paper.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(paper, paper.Bounds(), logo, logo.Bounds().Min, draw.Over)
	return fitJPEG(paper, logoWidth, logoHeight, mail.MaxLogo)
}

// shownSize returns the size at which a mail shows a picture, in CSS pixels.
func shownSize(b image.Rectangle, maxWidth, maxHeight int) (width, height int) {
	scale := min(1, float64(density*maxWidth)/float64(b.Dx()), float64(density*maxHeight)/float64(b.Dy())) / density
	return max(1, int(scale*float64(b.Dx()))), max(1, int(scale*float64(b.Dy())))
}

// fitJPEG returns a picture as a JPEG file of at most limit bytes. It first reduces the quality and then
// the number of pixels. It returns an error if the smallest file is larger than limit.
func fitJPEG(picture image.Image, maxWidth, maxHeight, limit int) (*mail.Image, error) {
	b := picture.Bounds()
	width, height := shownSize(b, maxWidth, maxHeight)
	for scale := float64(density); scale > 1.0/8; scale *= 0.75 {
		scaled := picture
		if scale < density || b.Dx() > density*maxWidth || b.Dy() > density*maxHeight {
			smaller := image.NewRGBA(image.Rect(0, 0, max(1, int(scale*float64(width))), max(1, int(scale*float64(height)))))
			draw.CatmullRom.Scale(smaller, smaller.Bounds(), picture, b, draw.Src, nil)
			scaled = smaller
		}
		for _, quality := range []int{82, 68, 55} {
			var b bytes.Buffer
			if err := jpeg.Encode(&b, scaled, &jpeg.Options{Quality: quality}); err != nil {
				return nil, fmt.Errorf("drawing a picture for a mail: %w", err)
			}
			if b.Len() <= limit {
				return &mail.Image{Type: "image/jpeg", Content: b.Bytes(), Width: width, Height: height}, nil
			}
		}
	}
	return nil, errors.New("the picture is too large for a mail")
}

// samplePage draws the page of a sample from rectangles: a band, lines of text and a QR code. text is the
// colour of the band.
func samplePage(text string) (*mail.Image, error) {
	band, err := colour.Parse(text)
	if err != nil {
		return nil, err
	}
	const width, height = density * pageWidth, density * pageWidth * 7 / 10
	page := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{
		color.White, color.NRGBA{band.R, band.G, band.B, 0xff}, color.NRGBA{0xc4, 0xcc, 0xc9, 0xff}, color.NRGBA{0x16, 0x21, 0x1e, 0xff},
	})
	fill := func(colour uint8, x, y, w, h int) {
		draw.Draw(page, image.Rect(x, y, x+w, y+h), image.NewUniform(page.Palette[colour]), image.Point{}, draw.Src)
	}
	fill(1, 0, 0, width, 20)
	fill(3, 100, 66, 200, 16)
	fill(2, 140, 104, 120, 8)
	fill(1, 80, 134, 240, 14)
	for i := range 3 {
		fill(2, 60+10*i, 170+16*i, 280-20*i, 6)
	}
	fill(2, 40, 246, 110, 3)
	fill(3, 326, 206, 46, 46)
	for _, corner := range []image.Point{{328, 208}, {354, 208}, {328, 234}} {
		fill(0, corner.X, corner.Y, 16, 16)
		fill(3, corner.X+4, corner.Y+4, 8, 8)
	}
	for _, dot := range []image.Point{{348, 214}, {348, 230}, {356, 234}, {364, 242}, {332, 228}, {356, 246}, {364, 230}} {
		fill(0, dot.X, dot.Y, 4, 4)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, page); err != nil {
		return nil, fmt.Errorf("drawing a sample: %w", err)
	}
	return &mail.Image{Type: "image/png", Content: b.Bytes(), Width: width / density, Height: height / density}, nil
}
