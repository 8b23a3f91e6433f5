package cert

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
)

// Thumbnailer draws small pictures of a verified PDF. seal.Sealer implements it.
type Thumbnailer interface {
	Thumbnail(ctx context.Context, pdf io.ReaderAt, size int64, width, height int) (image.Image, error)
}

// Thumbnail draws the first page of the verified PDF with the largest number of pixels that fits into a
// width and a height. The width must not be larger than the height. The picture is not stored, unlike
// that of OpenImage: a batch has thousands of certificates, and their pictures are small and needed
// only once. The errors are those of OpenVerified, and errNoPreview if the vault cannot draw.
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
	if err != nil {
		return nil, fmt.Errorf("drawing the picture: %w", err)
	}
	return picture, nil
}
