package cert

import (
	"context"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
)

// OpenOriginal opens the original of a certificate. The error is a fault of kind NotFound if the
// files were erased or deleted by retention, and of kind Damaged if the file is missing or does not
// have the size and digest that were stored at the upload.
func (s *Service) OpenOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	content, err := s.openOriginal(ctx, c)
	return s.check(ctx, c, originalCheck(c), content, err, c.File.Size, c.File.SHA256)
}

// openOriginal opens the original of a certificate without comparing its size and digest.
func (s *Service) openOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	o, err := s.blobs.Open(ctx, c.File.Key)
	if err != nil {
		return nil, fmt.Errorf("opening the original: %w", err)
	}
	return &Content{SectionReader: io.NewSectionReader(o, 0, o.Size()), parts: []blob.Object{o}}, nil
}

// originalCheck returns the name of the check of a certificate's original. This is CheckFile if the
// original is a part of the verified PDF, and CheckOriginal otherwise.
func originalCheck(c *Certificate) string {
	if c.Verified != nil && !c.Verified.Whole {
		return CheckFile
	}
	return CheckOriginal
}
