package cert

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"

	"github.com/certvault/certvault/internal/pdfium"
)

// Thumbnailer draws small pictures of a verified PDF. seal.Sealer implements it.
type Thumbnailer interface {
	Thumbnail(ctx context.Context, pdf io.ReaderAt, size int64, width, height int) (image.Image, error)
}

// Thumbnail draws the first page of the verified PDF as large as possible within a width and a height in
// pixels. The width must not be larger than the height. Unlike OpenImage, Thumbnail does not store the
// picture, because a batch may have thousands of certificates, and their pictures are needed only once. The
// error wraps errNoPreview if the sealer cannot draw thumbnails.
func (s *Service) Thumbnail(ctx context.Context, c *Certificate, width, height int) (_ image.Image, err error) {
	t, ok := s.sealer.(Thumbnailer)
	if !ok {
		return nil, errNoPreview
	}
	release, err := s.processors.draw(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for a processor: %w", err)
	}
	defer release()
	pdf, err := s.OpenVerified(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pdf.Close()) }()
	picture, err := t.Thumbnail(ctx, pdf, pdf.Size(), width, height)
	if errors.Is(err, pdfium.ErrUnavailable) {
		return nil, fmt.Errorf("%w: %w", errNoPreview, err)
	}
	if err != nil {
		return nil, fmt.Errorf("drawing the picture: %w", err)
	}
	return picture, nil
}
