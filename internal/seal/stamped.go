package seal

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
)

// Stamped is a picture of the stamped page of a verified PDF. Placement, Page, Box and Notices are those
// of Verified.
type Stamped struct {
	PNG       []byte
	Placement Mode
	Page      int
	Box       Box
	Notices   []Notice
}

// Stamped draws the page with the stamp. It seals the original without a signature and draws the
// result, so the picture shows exactly the stamp that Seal adds. The longer side of the picture has 1000
// pixels. The errors are those of Seal. If the page cannot be rendered, the error wraps a *Refusal.
func (s *Sealer) Stamped(ctx context.Context, o Original, stamp Stamp) (*Stamped, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	stamp.Signature = nil
	v, err := s.Seal(ctx, o, stamp)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.NewSectionReader(v.Body, 0, v.Body.Size()))
	if err != nil {
		return nil, fmt.Errorf("reading the stamped page: %w", err)
	}
	src := pdfium.Source{Head: o.R, HeadSize: o.Size, Tail: body}
	if v.Whole {
		src = pdfium.Source{Head: bytes.NewReader(body), HeadSize: int64(len(body))}
	}
	picture, err := s.drawSource(ctx, src, pdfium.Request{Page: v.Page - 1, MaxSide: previewSide, Annotations: true})
	if err != nil {
		return nil, err
	}
	return &Stamped{PNG: picture, Placement: v.Placement, Page: v.Page, Box: v.Box, Notices: v.Notices}, nil
}

// inkSpread is the number of pixels by which Ink enlarges each mark on all sides. The map of blank places
// contains only the edges of content, so thin lines and letters have gaps without this enlargement.
const inkSpread = 2

// Ink returns a transparent PNG of the page in stamp.Placement, in which the edges of the content and the
// boxes of the annotations are opaque. If the page cannot be rendered, the error wraps a *Refusal.
func (s *Sealer) Ink(ctx context.Context, o Original, stamp Stamp) ([]byte, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	j, err := s.openOriginal(ctx, o, stamp)
	if err != nil {
		return nil, err
	}
	p, err := j.newPageSearch(ctx, j.page, j.frame)
	if err != nil {
		if isPermanent(ctx, err) {
			return nil, fmt.Errorf("%w: %w", refuse("not_rendered", "The page cannot be drawn. Save the PDF again with another program, and use the new file."), err)
		}
		return nil, err
	}
	defer p.close(ctx)
	w, h := p.img.Rect.Dx(), p.img.Rect.Dy()
	ink := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.NRGBA{}, color.NRGBA{A: 255}})
	for i, busy := range p.busy {
		if !busy {
			continue
		}
		x, y := i%w, i/w
		for row := max(0, y-inkSpread); row <= min(h-1, y+inkSpread); row++ {
			for column := max(0, x-inkSpread); column <= min(w-1, x+inkSpread); column++ {
				ink.SetColorIndex(column, row, 1)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, ink); err != nil {
		return nil, fmt.Errorf("encoding a PNG image: %w", err)
	}
	return b.Bytes(), nil
}

// Blank returns an original of one blank A4 page. A preview uses it to show a placement
// before a file is uploaded.
func Blank() (Original, error) {
	var b bytes.Buffer
	w := pdf.NewWriter(&b)
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: numbers(0, 0, coverWidth, coverHeight)},
		pdf.Entry{Key: "Resources", Value: pdf.NewDict()},
	))
	w.Set(pages, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: pdf.Array{page}},
		pdf.Entry{Key: "Count", Value: pdf.Integer(1)},
	))
	root := w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages}))
	if err := w.Close(root, w.Add(pdf.NewDict())); err != nil {
		return Original{}, fmt.Errorf("writing a blank page: %w", err)
	}
	return Original{Name: "blank.pdf", Type: PDF, R: bytes.NewReader(b.Bytes()), Size: int64(b.Len())}, nil
}
