package cert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
)

// OpenOriginal opens the original of a certificate. If a certificate from a template has no verified
// PDF yet, OpenOriginal draws its original. The error is a fault of kind NotFound if the files were
// erased or deleted by retention, or if the certificate can never be drawn. The error is a fault of
// kind Damaged if a stored file is missing, or if the original does not have the stored size and
// digest. These are stored at the upload, or at the approval of a certificate from a template.
func (s *Service) OpenOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	if c.Template != nil && c.Verified == nil {
		return s.drawOriginal(ctx, c)
	}
	content, err := s.openOriginal(ctx, c)
	return s.check(ctx, c, originalCheck(c), content, err, c.File.Size, c.File.SHA256)
}

// openOriginal opens the stored original of a certificate without comparing its size and digest. A
// certificate from a template must have a verified PDF.
func (s *Service) openOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	o, err := s.blobs.Open(ctx, c.File.Key)
	if err != nil {
		return nil, fmt.Errorf("opening the original: %w", err)
	}
	if c.Template == nil {
		return &Content{SectionReader: io.NewSectionReader(o, 0, o.Size()), parts: []blob.Object{o}}, nil
	}
	tail, err := s.blobs.Open(ctx, c.Verified.TailKey)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the fields of the original: %w", err), o.Close())
	}
	size := o.Size() + min(tail.Size(), c.Template.FieldsSize)
	return &Content{SectionReader: io.NewSectionReader(&joined{head: o, tail: tail, split: o.Size()}, 0, size), parts: []blob.Object{o, tail}}, nil
}

// originalCheck returns the name of the check of a certificate's original. This is CheckFile if the
// original is a part of the verified PDF or is drawn from a template, and CheckOriginal otherwise.
func originalCheck(c *Certificate) string {
	if c.Template != nil || c.Verified != nil && !c.Verified.Whole {
		return CheckFile
	}
	return CheckOriginal
}
