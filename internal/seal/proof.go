package seal

import (
	"context"
	"errors"
	"fmt"
	"image"
	"time"

	"github.com/certvault/certvault/internal/pdfium"
)

// modulePixels is the size of a module in the rendered picture, in pixels.
const modulePixels = 4

// A grey value of at least minLight counts as light, and a grey value of at most maxDark as dark.
const (
	minLight = 170
	maxDark  = 85
)

// prove renders the place of the stamp on the stamped page and checks every module of the QR code,
// including the quiet zone. For a stamp without a white background, prove also checks that the
// background is uniform. The error wraps errNotReadable if a check fails, or if the page cannot be
// rendered and a retry would fail in the same way. After any other error, a retry may succeed.
func (j *job) prove(ctx context.Context, src pdfium.Source, p stampedUpdate) error {
	f, s := p.frame, p.spot
	req, ok := s.closeUp(f, p.number-1, modulePixels)
	if !ok {
		return errNotReadable
	}
	picture, img, err := j.draw(ctx, src, req)
	if isPermanent(ctx, err) {
		return fmt.Errorf("%w: %w", errNotReadable, err)
	}
	if err != nil {
		return fmt.Errorf("rendering the stamp: %w", err)
	}
	if !readable(img, picture, f, s) || s.transparent && !onUniformBackground(img, picture, f, s) {
		return errNotReadable
	}
	return nil
}

// renderTimeout is the time limit for one picture, excluding the wait for a free renderer.
const renderTimeout = 2500 * time.Millisecond

// draw opens a document, renders a part of a page in grey, and looks for the recipient's name in the text.
func (j *job) draw(ctx context.Context, src pdfium.Source, req pdfium.Request) (*pdfium.Page, *image.Gray, error) {
	doc, err := j.openPages(ctx, src)
	if err != nil {
		return nil, nil, err
	}
	defer doc.Close()
	picture, img, err := j.render(ctx, doc, req)
	if err == nil {
		j.checkName(ctx, doc)
	}
	return picture, img, err
}

// openPages opens a document in a renderer.
func (j *job) openPages(ctx context.Context, src pdfium.Source) (*pdfium.Document, error) {
	if j.sealer.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	return j.sealer.renderer.Open(ctx, src)
}

// render renders a part of a page in grey. If rendering times out, render marks the job as slow.
func (j *job) render(ctx context.Context, doc *pdfium.Document, req pdfium.Request) (*pdfium.Page, *image.Gray, error) {
	req.Annotations, req.Gray = true, true
	bounded, cancel := context.WithTimeout(ctx, renderTimeout)
	defer cancel()
	picture, err := doc.Render(bounded, req)
	if err != nil {
		j.slow = j.slow || errors.Is(err, pdfium.ErrTimeout)
		return nil, nil, err
	}
	img, ok := picture.Image.(*image.Gray)
	if !ok {
		return nil, nil, fmt.Errorf("the picture is a %T, want grey", picture.Image)
	}
	return picture, img, nil
}

// readable reports whether the centre of every module is dark or light in the picture as in the symbol.
func readable(img *image.Gray, picture *pdfium.Page, f frame, s spot) bool {
	symbol := s.figure.symbol
	ox, oy := s.figure.codeX, s.figure.codeY
	for v := -quietZone; v < symbol.side+quietZone; v++ {
		for u := -quietZone; u < symbol.side+quietZone; u++ {
			x := s.x + (ox+float64(u+quietZone)+0.5)*s.scale
			y := s.y + (oy+float64(symbol.full()-quietZone-v)-0.5)*s.scale
			at := image.Pt(
				int(x/f.width*float64(picture.Raster.X))-picture.Box.Min.X,
				int((1-y/f.height)*float64(picture.Raster.Y))-picture.Box.Min.Y,
			)
			if !at.In(img.Rect) {
				return false
			}
			grey := img.GrayAt(at.X, at.Y).Y
			if dark := symbol.at(u, v); dark && grey > maxDark || !dark && grey < minLight {
				return false
			}
		}
	}
	return true
}

// isPermanent reports whether err is an error of the renderer that would occur again in a retry. If ctx
// has ended, isPermanent returns false, because the end of ctx may have caused the error.
func isPermanent(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	for _, cause := range []error{pdfium.ErrLoad, pdfium.ErrTimeout, pdfium.ErrMemory, pdfium.ErrAborted, pdfium.ErrRequest} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
