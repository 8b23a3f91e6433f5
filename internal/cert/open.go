package cert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
)

var errNoPDF = fault.New(fault.NotFound, "Verified PDF not found. The certificate may still be processing.")

// OpenVerified opens the verified PDF of a certificate, which may be revoked. The error is a fault of
// kind NotFound if the certificate has no verified PDF, or if its files were erased or deleted by
// retention. The error is a fault of kind Damaged if a stored file is missing, or if the verified PDF
// does not have the size and digest that were stored at the approval.
func (s *Service) OpenVerified(ctx context.Context, c *Certificate) (*Content, error) {
	content, err := s.openVerified(ctx, c)
	if c.Verified == nil {
		return nil, err
	}
	return s.check(ctx, c, CheckFile, content, err, c.Verified.Size, c.Verified.SHA256)
}

// OpenAttachment opens an attachment of an application. The error is a fault of kind Damaged if the file
// is missing or does not have the given size. The caller must check permissions.
func (s *Service) OpenAttachment(ctx context.Context, key string, size int64) (*Content, error) {
	o, err := s.blobs.Open(ctx, key)
	if err == nil && o.Size() != size {
		err = errors.Join(fmt.Errorf("the file has %d bytes, want %d", o.Size(), size), o.Close())
	} else if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("opening an attachment: %w", err)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Damaged, "The file is damaged or missing, so it was not sent.", err)
	}
	return &Content{SectionReader: io.NewSectionReader(o, 0, size), parts: []blob.Object{o}}, nil
}

// openVerified opens the verified PDF of a certificate without comparing its size and digest.
func (s *Service) openVerified(ctx context.Context, c *Certificate) (*Content, error) {
	if c.Verified == nil {
		return nil, errNoPDF
	}
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	tail, err := s.blobs.Open(ctx, c.Verified.TailKey)
	if err != nil {
		return nil, fmt.Errorf("opening the verified PDF: %w", err)
	}
	if c.Verified.Whole {
		return &Content{SectionReader: io.NewSectionReader(tail, 0, tail.Size()), parts: []blob.Object{tail}}, nil
	}
	head, err := s.blobs.Open(ctx, c.File.Key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the original: %w", err), tail.Close())
	}
	pdf := &joined{head: head, tail: tail, split: head.Size()}
	return &Content{SectionReader: io.NewSectionReader(pdf, 0, head.Size()+tail.Size()), parts: []blob.Object{head, tail}}, nil
}

// joined reads two files as one file, such as an original and its tail.
type joined struct {
	head, tail io.ReaderAt
	split      int64
}

func (j *joined) ReadAt(p []byte, off int64) (n int, err error) {
	if off < j.split {
		part := p[:min(int64(len(p)), j.split-off)]
		n, err = j.head.ReadAt(part, off)
		if n < len(part) {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
	}
	m, err := j.tail.ReadAt(p[n:], off+int64(n)-j.split)
	return n + m, err
}
