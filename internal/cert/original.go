package cert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
)

// OpenOriginal opens the original of a certificate. The error is a fault of kind NotFound if the
// file does not exist.
func (s *Service) OpenOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	o, err := s.blobs.Open(ctx, c.File.Key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fault.Wrap(fault.NotFound, "The original is missing from the vault's storage.", err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the original: %w", err)
	}
	return &Content{SectionReader: io.NewSectionReader(o, 0, o.Size()), closers: []io.Closer{o}}, nil
}
