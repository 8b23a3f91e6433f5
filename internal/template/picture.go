package template

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"io"

	_ "image/jpeg" // pictures are PNG or JPEG
	_ "image/png"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxPictureFile   = 5 << 20
	maxPicturePixels = 16_000_000
	// maxPictures is the maximum number of pictures of an institution.
	maxPictures = 500
	// logo is the id of the institution's logo.
	logo = "logo"
)

var errPicture = fault.OfField("picture", fmt.Sprintf("The picture must be a PNG or JPEG file of at most %d MB and %d megapixels.", maxPictureFile>>20, maxPicturePixels/1_000_000))

// AddPicture stores a picture, PNG or JPEG, and returns its id for design.Field.Image. It replaces a stored
// file that is missing or damaged. The error is fault.Invalid if the file cannot be used.
func (s *Service) AddPicture(ctx context.Context, inst *account.Institution, r io.Reader) (string, error) {
	file, err := readAll(r, maxPictureFile, "picture", errPicture.Fields[0].Messages[0])
	if err != nil {
		return "", err
	}
	if err := s.decoding.Acquire(ctx, 1); err != nil {
		return "", fmt.Errorf("waiting to read a picture: %w", err)
	}
	err = checkPicture(file)
	s.decoding.Release(1)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(file)
	id := hex.EncodeToString(digest[:])
	_, err = s.picture(ctx, inst.ID, id)
	if err == nil || !errors.Is(err, design.ErrNoPicture) && !fault.Is(err, fault.Damaged) {
		return id, err
	}
	damaged := fault.Is(err, fault.Damaged)
	key := cert.NewKey(inst.UUID, cert.PictureKind)
	err = s.store(ctx, key, file, func(tx *db.Tx) error {
		if damaged {
			_, err := tx.ExecContext(ctx, `UPDATE template_pictures SET picture_key = $1 WHERE institution_id = $2 AND sha256 = $3`, key, inst.ID, digest[:])
			return err
		}
		if err := s.removePicturesTx(ctx, tx, inst.ID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO template_pictures (institution_id, sha256, picture_key, size, created_at) VALUES ($1, $2, $3, $4, $5)`,
			inst.ID, digest[:], key, len(file), db.Micros(s.moment()))
		if db.IsUnique(err) {
			return fault.Wrap(fault.Conflict, "The same picture is being uploaded by another request. Try again in a moment.", err)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("storing a picture: %w", err)
	}
	return id, nil
}

func checkPicture(file []byte) error {
	if !isPicture(file) {
		return errPicture
	}
	head, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || head.Width < 1 || head.Height < 1 || head.Width > maxPicturePixels/head.Height {
		return errPicture
	}
	if _, _, err := image.Decode(bytes.NewReader(file)); err != nil {
		return fault.Wrap(fault.Invalid, "The picture is damaged. Save or export it again.", errors.Join(errPicture, err))
	}
	return nil
}

// removePicturesTx deletes the pictures that no version shows if an institution has maxPictures
// pictures. The error is fault.BadRequest if it can delete none.
func (s *Service) removePicturesTx(ctx context.Context, tx *db.Tx, institutionID int64) error {
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM template_pictures WHERE institution_id = $1`, institutionID).Scan(&n); err != nil || n < maxPictures {
		return err
	}
	used, err := usedPicturesTx(ctx, tx, institutionID)
	if err != nil {
		return err
	}
	digests, err := db.Column[[]byte](tx.QueryContext(ctx, `SELECT sha256 FROM template_pictures WHERE institution_id = $1`, institutionID))
	if err != nil {
		return err
	}
	for _, digest := range digests {
		if used[hex.EncodeToString(digest)] {
			continue
		}
		n--
		if _, err := tx.ExecContext(ctx, `DELETE FROM template_pictures WHERE institution_id = $1 AND sha256 = $2`, institutionID, digest); err != nil {
			return err
		}
	}
	if n >= maxPictures {
		return fault.New(fault.BadRequest, fmt.Sprintf("The templates of an institution can have at most %d pictures, including those of earlier versions. "+
			"Remove pictures that are not needed from drafts.", maxPictures))
	}
	return nil
}

// usedPicturesTx returns the ids of the pictures that versions show.
func usedPicturesTx(ctx context.Context, tx *db.Tx, institutionID int64) (map[string]bool, error) {
	list, err := versions(ctx, tx, `institution_id = $1`, institutionID)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, v := range list {
		for i := range v.Layout.Fields {
			used[v.Layout.Fields[i].Image] = true
		}
	}
	return used, nil
}

// PictureFile returns the picture with an id, PNG or JPEG. The logo of the institution has the id
// "logo". The error is fault.NotFound if there is no such picture.
func (s *Service) PictureFile(ctx context.Context, institutionID int64, id string) ([]byte, error) {
	file, err := s.picture(ctx, institutionID, id)
	if errors.Is(err, design.ErrNoPicture) {
		return nil, errNoPicture
	}
	return file, err
}

// picture returns a picture. The error is design.ErrNoPicture if there is no such picture.
func (s *Service) picture(ctx context.Context, institutionID int64, id string) ([]byte, error) {
	if id == logo {
		file, err := account.LogoPNG(ctx, s.db, institutionID)
		if err == nil && file == nil {
			err = design.ErrNoPicture
		}
		return file, err
	}
	digest, err := hex.DecodeString(id)
	if err != nil {
		return nil, design.ErrNoPicture
	}
	var key string
	err = s.db.QueryRowContext(ctx, `SELECT picture_key FROM template_pictures WHERE institution_id = $1 AND sha256 = $2`, institutionID, digest).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, design.ErrNoPicture
	}
	if err != nil {
		return nil, fmt.Errorf("reading a picture: %w", err)
	}
	file, err := s.load(ctx, key)
	if err != nil {
		return nil, err
	}
	return file, checkDigest(file, digest)
}

// pictures returns the pictures of an institution for package design.
func (s *Service) pictures(ctx context.Context, institutionID int64) design.Pictures {
	return func(id string) ([]byte, error) { return s.picture(ctx, institutionID, id) }
}
