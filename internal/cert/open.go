package cert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

var errNoPDF = fault.New(fault.NotFound, "Verified PDF not found. The certificate may still be processing.")

// OpenVerified opens the verified PDF of a certificate. The certificate may be revoked. The error
// is a fault of kind NotFound if the certificate has no verified PDF yet.
func (s *Service) OpenVerified(ctx context.Context, c *Certificate) (*Content, error) {
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
		return &Content{SectionReader: io.NewSectionReader(tail, 0, tail.Size()), closers: []io.Closer{tail}}, nil
	}
	head, err := s.blobs.Open(ctx, c.File.Key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the original: %w", err), tail.Close())
	}
	pdf := &joined{head: head, tail: tail, split: head.Size()}
	return &Content{SectionReader: io.NewSectionReader(pdf, 0, head.Size()+tail.Size()), closers: []io.Closer{head, tail}}, nil
}

// joined reads two files as one, because the verified PDF consists of its original and a tail.
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

// OpenImage opens a picture of the first page of the verified PDF as PNG. The first request draws
// and stores it.
func (s *Service) OpenImage(ctx context.Context, c *Certificate) (*Content, error) {
	if c.Verified == nil {
		return nil, errNoPDF
	}
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	key := c.imageKey
	if key == "" {
		// Concurrent requests draw the picture only once.
		drawn, err, _ := s.images.Do(c.UUID, func() (any, error) { return s.draw(context.WithoutCancel(ctx), c) })
		if err != nil {
			return nil, err
		}
		key, _ = drawn.(string)
	}
	o, err := s.blobs.Open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("opening the picture: %w", err)
	}
	return &Content{SectionReader: io.NewSectionReader(o, 0, o.Size()), closers: []io.Closer{o}}, nil
}

func (s *Service) draw(ctx context.Context, c *Certificate) (key string, err error) {
	now, err := byUUID(ctx, s.db, c.UUID)
	if err != nil {
		return "", err
	}
	if now.imageKey != "" {
		return now.imageKey, nil
	}
	pdf, err := s.OpenVerified(ctx, c)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, pdf.Close()) }()
	png, err := s.sealer.PNG(ctx, pdf, pdf.Size())
	if err != nil {
		return "", fmt.Errorf("drawing the picture: %w", err)
	}
	institution, err := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if err != nil {
		return "", err
	}
	key = blobKey(institution.UUID, uuid.Must(uuid.NewV7()).String(), "image")
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(png)); err != nil {
		return "", fmt.Errorf("storing the picture: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE certificates SET image_key = $1 WHERE uuid = $2 AND files_ended_at IS NULL`, key, c.UUID)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("storing the picture: %w", err)
	}
	return key, nil
}
