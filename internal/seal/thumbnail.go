package seal

import (
	"context"
	"image"
	"io"

	"github.com/certvault/certvault/internal/pdfium"
)

// Thumbnail renders page one of the verified PDF in r with the largest number of pixels that fits into
// a width and a height. The width must not be larger than the height.
func (s *Sealer) Thumbnail(ctx context.Context, r io.ReaderAt, size int64, width, height int) (image.Image, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	page, err := s.renderer.Render(ctx, pdfium.Source{Head: r, HeadSize: size}, pdfium.Request{MaxSide: height, MaxWidth: width, Annotations: true})
	if err != nil {
		return nil, err
	}
	return page.Image, nil
}
