package seal

import (
	"context"
	"fmt"
	"image"
	"math"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
)

const (
	// closeUpPixels is the size of a module in a close-up, in pixels: about 400 dots per inch on a usual
	// page. Close-ups are necessary because fine ornaments have almost the colour of the paper in the
	// coarse picture of the search.
	closeUpPixels = 8
	// inkTolerance is the minimum difference between the grey values of ink and of the background. It is
	// less than 10 % of the range, because smoothing makes the edges of ink with a contrast of 10 %
	// lighter. The grey values of scanned blank paper differ by less than inkTolerance.
	inkTolerance = 20
	// maxSearches is the maximum number of searches on one page. Each search avoids the ink that earlier
	// close-ups showed.
	maxSearches = 4
)

// pageSearch searches for blank places on a page in a coarse picture of the page, and checks the
// places in close-ups. A pageSearch occupies a renderer until close is called.
type pageSearch struct {
	*blankMap

	job   *job
	doc   *pdfium.Document
	page  int // from 0
	frame frame
}

// newPageSearch renders a page in low resolution. The boxes of the annotations count as not blank.
func (j *job) newPageSearch(ctx context.Context, page *pdf.Page, f frame) (*pageSearch, error) {
	doc, err := j.openPages(ctx, j.source)
	if err != nil {
		return nil, fmt.Errorf("searching for blank places on the page: %w", err)
	}
	_, img, err := j.render(ctx, doc, pdfium.Request{Page: page.Index, MaxSide: blankSearchSide})
	if err != nil {
		doc.Close()
		return nil, fmt.Errorf("searching for blank places on the page: %w", err)
	}
	return &pageSearch{newBlankMap(img, annotationBoxes(j.doc, page, f)), j, doc, page.Index, f}, nil
}

// close adds a notice if the text of the document lacks the name of the recipient, unless the name was
// checked before. It then frees the renderer.
func (p *pageSearch) close(ctx context.Context) {
	p.job.checkName(ctx, p.doc)
	p.doc.Close()
}

// places returns up to n blank places for the largest QR code that fits anywhere, best first.
func (p *pageSearch) places(ctx context.Context, sides []float64, only Mode, n int) ([]spot, error) {
	for range maxSearches {
		found := p.blankMap.places(p.frame, p.job.figures, sides, only)
		var free []spot
		for _, s := range found {
			inked, err := p.inked(ctx, s)
			if err != nil {
				return nil, err
			}
			if !inked {
				free = append(free, s)
			}
			if len(free) == n {
				break
			}
		}
		if len(free) > 0 || len(found) == 0 || p.job.slow {
			return free, nil
		}
	}
	return nil, nil
}

// inked reports whether a close-up of a place shows ink, and records the ink in the map. A place
// that cannot be rendered counts as inked.
func (p *pageSearch) inked(ctx context.Context, s spot) (bool, error) {
	req, ok := s.closeUp(p.frame, p.page, closeUpPixels)
	if !ok {
		return true, nil
	}
	picture, img, err := p.job.render(ctx, p.doc, req)
	if isPermanent(ctx, err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("searching for blank places on the page: %w", err)
	}
	inked := false
	paper := median(img)
	w, h := p.img.Rect.Dx(), p.img.Rect.Dy()
	for y := range img.Rect.Dy() {
		for x, v := range img.Pix[y*img.Stride:][:img.Rect.Dx()] {
			if d := int(v) - paper; d < inkTolerance && d > -inkTolerance {
				continue
			}
			inked = true
			column, row := (picture.Box.Min.X+x)*w/picture.Raster.X, (picture.Box.Min.Y+y)*h/picture.Raster.Y
			p.busy[row*w+column] = true
		}
	}
	if inked {
		p.sum()
	}
	return inked, nil
}

// covers reports whether a stamp at a place would cover content of the page.
func (p *pageSearch) covers(ctx context.Context, s spot) (bool, error) {
	if !p.blank(p.pixels(s.box(p.frame))) {
		return true, nil
	}
	return p.inked(ctx, s)
}

// median returns the median of the grey values of a picture.
func median(img *image.Gray) int {
	var histogram [256]int
	for _, v := range img.Pix {
		histogram[v]++
	}
	left := len(img.Pix) / 2
	for v, n := range &histogram {
		if left -= n; left < 0 {
			return v
		}
	}
	return 255
}

// closeUp returns the request for a picture of a place on a page, with the given number of pixels
// per module. It returns false if the picture would be too large or if the place is outside the
// page.
func (s spot) closeUp(f frame, page, pixels int) (pdfium.Request, bool) {
	side := math.Ceil(float64(pixels) * max(f.width, f.height) / s.scale)
	b := s.box(f)
	clip := Box{max(0, b[0]), max(0, b[1]), min(1, b[2]), min(1, b[3])}
	ok := side <= 1<<20 && clip[0] < clip[2] && clip[1] < clip[3]
	return pdfium.Request{Page: page, MaxSide: int(min(side, 1<<20)), Clip: clip}, ok
}
