package seal

import (
	"context"
	"image"
	"io"

	"github.com/certvault/certvault/internal/pdfium"
)

// Thumbnail renders page one of the verified PDF in r, as large as fits into width and height in pixels.
// width must not be larger than height.
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
