package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

// OpenImage opens a picture of the first page of the verified PDF as PNG. The picture is drawn and stored
// at the first request, or if the stored picture is damaged or missing. The error is a fault of kind
// NotFound if the certificate has no verified PDF, or if its files were erased or deleted by retention.
func (s *Service) OpenImage(ctx context.Context, c *Certificate) (*Content, error) {
	if c.Verified == nil {
		return nil, errNoPDF
	}
	if err := c.checkFilesExist(); err != nil {
		return nil, err
	}
	content, err := s.storedImage(ctx, c)
	if !errors.Is(err, errDiffers) {
		return content, err
	}
	// Concurrent requests wait for one call of draw.
	drawn, err, _ := s.images.Do(c.UUID, func() (any, error) { return s.draw(context.WithoutCancel(ctx), c) })
	if err != nil {
		return nil, err
	}
	png, _ := drawn.([]byte)
	return &Content{SectionReader: io.NewSectionReader(bytes.NewReader(png), 0, int64(len(png)))}, nil
}

// storedImage opens the stored picture of a certificate. The error is errDiffers if there is no
// stored picture, if its key has no digest, or if the picture does not have the digest in its key.
func (s *Service) storedImage(ctx context.Context, c *Certificate) (*Content, error) {
	sum, ok := imageDigest(c.imageKey)
	if !ok {
		return nil, errDiffers
	}
	o, err := s.blobs.Open(ctx, c.imageKey)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, errors.Join(errDiffers, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the picture: %w", err)
	}
	content := &Content{SectionReader: io.NewSectionReader(o, 0, o.Size()), parts: []blob.Object{o}}
	if err := s.compare(content, o.Size(), sum); err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return content, nil
}

// imageKey returns a new key for a picture. The key contains the digest of the picture.
func imageKey(institutionUUID string, png []byte) string {
	sum := sha256.Sum256(png)
	return blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String()+"-"+hex.EncodeToString(sum[:]), "image")
}

// imageDigest returns the digest in the key of a picture, and false if the key has no digest. Keys
// of earlier versions of the vault have no digest.
func imageDigest(key string) (sum [sha256.Size]byte, ok bool) {
	name := strings.TrimSuffix(key, ".image")
	digest, err := hex.DecodeString(name[strings.LastIndexByte(name, '-')+1:])
	return sum, err == nil && copy(sum[:], digest) == len(sum) && len(digest) == len(sum)
}

// draw returns the picture of a certificate as PNG. It returns the stored picture if that is intact.
// Otherwise it draws the picture, and stores it unless the store is full.
func (s *Service) draw(ctx context.Context, c *Certificate) (png []byte, err error) {
	now, err := byUUID(ctx, s.db, c.UUID)
	if err != nil {
		return nil, err
	}
	// Another request may have stored the picture in the meantime.
	content, err := s.storedImage(ctx, now)
	if err == nil {
		png, err = io.ReadAll(content)
		return png, errors.Join(err, content.Close())
	}
	if !errors.Is(err, errDiffers) {
		return nil, err
	}
	pdf, err := s.OpenVerified(ctx, now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pdf.Close()) }()
	if png, err = s.sealer.PNG(ctx, pdf, pdf.Size()); err != nil {
		return nil, fmt.Errorf("drawing the picture: %w", err)
	}
	institution, err := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	key := imageKey(institution.UUID, png)
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(png)); errors.Is(err, blob.ErrFull) {
		return png, nil
	} else if err != nil {
		return nil, fmt.Errorf("storing the picture: %w", err)
	}
	if now.imageKey != "" {
		s.log.WarnContext(ctx, "the stored picture of a certificate was missing, damaged or without a digest; it was drawn again", slog.String("certificate", c.UUID))
	}
	var stored int64
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		stored, err = setImageTx(ctx, tx, c.UUID, key)
		return err
	})
	if err == nil && stored == 0 {
		// The files were erased, or deleted by retention, in the meantime. No record refers to the
		// picture, so it is deleted at once.
		if err = s.blobs.Delete(ctx, key); err == nil {
			err = ErrFilesPurged
		}
	}
	if err != nil {
		return nil, fmt.Errorf("storing the picture: %w", err)
	}
	return png, nil
}

// setImageTx sets the picture of a certificate that has files. It returns the number of changed
// records, 0 or 1. The key of the previous picture is added to former_keys, so that an erasure also
// deletes the previous picture.
func setImageTx(ctx context.Context, tx *db.Tx, uuid, key string) (int64, error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE certificates SET image_key = $1,
			former_keys = CASE WHEN image_key IS NULL THEN former_keys ELSE coalesce(former_keys || ' ', '') || image_key END
		WHERE uuid = $2 AND files_ended_at IS NULL`, key, uuid)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
