package template

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
)

// maxSignatureFile is the maximum size of an uploaded picture of a signature in bytes.
const maxSignatureFile = 1 << 20

var errSignaturePicture = fault.OfField("picture",
	"The picture must be a PNG or JPEG file of at most 1 MB and 4000 pixels on each side, with dark ink on a light or transparent background. Export an SVG as PNG.")

// SetSignature stores the picture of the signature of a member, PNG or JPEG, and replaces the earlier
// picture. Certificates that were approved with the earlier picture still show it. The error is
// fault.Invalid if the file cannot be used.
func (s *Service) SetSignature(ctx context.Context, inst *account.Institution, userID int64, r io.Reader) error {
	file, err := readAll(r, maxSignatureFile, "picture", errSignaturePicture.Fields[0].Messages[0])
	if err != nil {
		return err
	}
	release, err := s.acquireMemory(ctx)
	if err != nil {
		return err
	}
	picture, err := design.PrepareSignature(file)
	release()
	if errors.Is(err, design.ErrSignaturePicture) {
		return &fault.Error{Kind: fault.Invalid, Fields: errSignaturePicture.Fields, Err: err}
	}
	if err != nil {
		return err
	}
	digest := sha256.Sum256(picture)
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.removeSignatureTx(ctx, tx, inst.ID, userID); err != nil {
			return err
		}
		now := s.moment()
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO signature_pictures (institution_id, user_id, sha256, picture, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (institution_id, user_id, sha256) DO UPDATE SET deleted_at = NULL, created_at = excluded.created_at`,
			inst.ID, userID, digest[:], picture, db.Micros(now)); err != nil {
			return err
		}
		return s.recordSignatureTx(ctx, tx, inst.ID, "stored")
	})
	if err != nil {
		return fmt.Errorf("storing the picture of a signature: %w", err)
	}
	return nil
}

// DeleteSignature deletes the picture of the signature of a member. Certificates that were approved with it
// still show it.
func (s *Service) DeleteSignature(ctx context.Context, institutionID, userID int64) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.removeSignatureTx(ctx, tx, institutionID, userID); err != nil {
			return err
		}
		return s.recordSignatureTx(ctx, tx, institutionID, "deleted")
	})
	if err != nil {
		return fmt.Errorf("deleting the picture of a signature: %w", err)
	}
	return nil
}

func (s *Service) recordSignatureTx(ctx context.Context, tx *db.Tx, institutionID int64, change string) error {
	who := audit.ActorOf(ctx)
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: institutionID, At: s.moment(), Action: audit.SignatureChanged, Subject: audit.Subject{Type: "user", ID: who.ID, Name: who.Name},
		Detail: audit.Detail{"picture": change},
	})
}

// removeSignatureTx marks the current picture of a member as deleted. SweepSignatures deletes the picture
// when no certificate needs it any more.
func (s *Service) removeSignatureTx(ctx context.Context, tx *db.Tx, institutionID, userID int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE signature_pictures SET deleted_at = $1 WHERE institution_id = $2 AND user_id = $3 AND deleted_at IS NULL`,
		db.Micros(s.moment()), institutionID, userID)
	return err
}

// Signature returns the picture of the signature of a member as PNG. Callers must show it only to this
// member. The error is fault.NotFound if there is none.
func (s *Service) Signature(ctx context.Context, institutionID, userID int64) ([]byte, error) {
	_, picture, err := currentSignature(ctx, s.db, institutionID, userID)
	if err == nil && picture == nil {
		err = errNoPicture
	}
	return picture, err
}

// SignatureDigest returns the SHA-256 of the current picture of the signature of a member, or nil if there
// is none.
func SignatureDigest(ctx context.Context, q db.Queryer, institutionID, userID int64) ([]byte, error) {
	digest, _, err := currentSignature(ctx, q, institutionID, userID)
	return digest, err
}

func currentSignature(ctx context.Context, q db.Queryer, institutionID, userID int64) (digest, picture []byte, err error) {
	err = q.QueryRowContext(ctx, `SELECT sha256, picture FROM signature_pictures WHERE institution_id = $1 AND user_id = $2 AND deleted_at IS NULL`,
		institutionID, userID).Scan(&digest, &picture)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the picture of a signature: %w", err)
	}
	return digest, picture, nil
}

// SweepSignatures deletes the pictures of signatures that are marked as deleted and that certificates no
// longer need.
func (s *Service) SweepSignatures(ctx context.Context) error {
	type removed struct {
		institutionID, userID int64
		digest                []byte
	}
	rows, err := s.db.QueryContext(ctx, `SELECT institution_id, user_id, sha256 FROM signature_pictures WHERE deleted_at IS NOT NULL`)
	if err != nil {
		return fmt.Errorf("listing removed pictures of signatures: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (r removed, err error) {
		err = rows.Scan(&r.institutionID, &r.userID, &r.digest)
		return r, err
	})
	if err != nil {
		return fmt.Errorf("listing removed pictures of signatures: %w", err)
	}
	for _, r := range list {
		err := s.db.Tx(ctx, func(tx *db.Tx) error {
			used, err := cert.UsesPicture(ctx, tx, r.institutionID, r.userID, r.digest)
			if err != nil || used {
				return err
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM signature_pictures WHERE institution_id = $1 AND user_id = $2 AND sha256 = $3 AND deleted_at IS NOT NULL`,
				r.institutionID, r.userID, r.digest)
			return err
		})
		if err != nil {
			return fmt.Errorf("deleting a picture of a signature: %w", err)
		}
	}
	return nil
}

// signersOf returns the signatories of a certificate of a version for drawing. The pictures of their
// signatures are included only while the certificate is processed, after all signatories have approved it.
func (s *Service) signersOf(ctx context.Context, v *Version, c *cert.Certificate) ([]design.Signatory, error) {
	// ReplaceSignatory keeps the number of signatories, so a certificate has as many as its version.
	if len(v.Signatories) == 0 {
		return nil, nil
	}
	found, err := cert.Signatures(ctx, s.db, c.InstitutionID, c.ID)
	if err != nil {
		return nil, err
	}
	var list []design.Signatory
	for _, one := range found[c.ID] {
		signer := design.Signatory{Name: one.Name, Designation: one.Designation}
		if digest := one.Picture(); digest != nil && c.Status == cert.Processing {
			if signer.Picture, err = s.signature(ctx, c.InstitutionID, one.UserID, digest); err != nil {
				return nil, err
			}
		}
		list = append(list, signer)
	}
	return list, nil
}

// signatureKey identifies a stored picture of a signature.
type signatureKey struct {
	institutionID, userID int64
	digest                string
}

// signatureCache is a cache of pictures of signatures. It is emptied when it is full.
type signatureCache struct {
	mu   sync.Mutex
	list map[signatureKey]*design.SignaturePicture
}

// maxSignatures is the maximum number of pictures in the cache. Each needs less than 1 MB.
const maxSignatures = 32

// signature returns a stored picture of a signature.
func (s *Service) signature(ctx context.Context, institutionID, userID int64, digest []byte) (*design.SignaturePicture, error) {
	key := signatureKey{institutionID, userID, string(digest)}
	c := &s.signatures
	c.mu.Lock()
	picture := c.list[key]
	c.mu.Unlock()
	if picture != nil {
		return picture, nil
	}
	var file []byte
	if err := s.db.QueryRowContext(ctx, `SELECT picture FROM signature_pictures WHERE institution_id = $1 AND user_id = $2 AND sha256 = $3`,
		institutionID, userID, digest).Scan(&file); err != nil {
		return nil, fmt.Errorf("reading the picture of a signature: %w", err)
	}
	picture, err := design.OpenSignature(file)
	if err != nil {
		return nil, fmt.Errorf("reading the picture of a signature: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil || len(c.list) >= maxSignatures {
		c.list = map[signatureKey]*design.SignaturePicture{}
	}
	c.list[key] = picture
	return picture, nil
}
