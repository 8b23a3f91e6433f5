package issuer

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Credential is the credential of a certificate in its formats.
type Credential struct {
	Entry

	// VC is JSON-LD with a Data Integrity proof, JWT is a JWT, and SDJWT is an SD-JWT VC. A format that was
	// not requested is "".
	VC, JWT, SDJWT string
}

// text returns the credential in one of allFormats.
func (c *Credential) text(f Format) string {
	switch f {
	case FormatVC:
		return c.VC
	case FormatJWT:
		return c.JWT
	default:
		return c.SDJWT
	}
}

// ErrNoCredential is the error for a certificate that has no credential: it was not approved, or its
// files were deleted.
var ErrNoCredential = fault.New(fault.NotFound, "The certificate has no credential.")

// Has reports whether a certificate has a credential. A revoked certificate has a credential until its files
// are deleted. The caller decides whether to show this credential.
func Has(c *cert.Certificate) bool {
	return c.ApprovedAt != nil && c.Verified != nil && c.FilesDeletedAt == nil && (c.Status == cert.Approved || c.Status == cert.Revoked)
}

// Credential returns the credential of a certificate. The first request creates and stores the
// credential, and later requests return the same bytes. The error is ErrNoCredential, fault.Unavailable
// if the keys are not available, or fault.Conflict if the certificate changes at the same time.
func (s *Service) Credential(ctx context.Context, c *cert.Certificate) (*Credential, error) {
	if !Has(c) {
		return nil, ErrNoCredential
	}
	found, err := s.stored(ctx, c.ID)
	if err != nil || found != nil && found.VC != "" {
		return found, err
	}
	entry, err := s.entry(ctx, c)
	if err != nil {
		return nil, err
	}
	signed, err := s.sign(ctx, c, entry, nil, allFormats)
	if err != nil {
		return nil, err
	}
	// If a concurrent request has stored a credential, the update changes nothing.
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE credentials SET vc = $1, jwt = $2, sd_jwt = $3, created_at = $4 WHERE certificate_id = $5 AND list = $6 AND position = $7 AND vc = ''`,
			signed.VC, signed.JWT, signed.SDJWT, db.Micros(s.now()), c.ID, entry.List, entry.Position)
		return err
	}); err != nil {
		return nil, fmt.Errorf("storing a credential: %w", err)
	}
	found, err = s.stored(ctx, c.ID)
	if err == nil && (found == nil || found.VC == "") {
		err = errChanged
	}
	if err != nil {
		return nil, err
	}
	return found, s.forgetErased(ctx, c.ID)
}

// forgetErased deletes a new credential if the files of its certificate were deleted in the meantime,
// and returns ErrNoCredential. An erasure that begins later deletes the credential itself.
func (s *Service) forgetErased(ctx context.Context, certificateID int64) error {
	list, err := s.certs.ByIDs(ctx, []int64{certificateID})
	if err != nil || len(list) == 1 && Has(list[0]) {
		return err
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM credentials WHERE certificate_id = $1`, certificateID)
		return err
	}); err != nil {
		return fmt.Errorf("deleting a credential: %w", err)
	}
	return ErrNoCredential
}

// stored returns the stored credential of a certificate, or nil.
func (s *Service) stored(ctx context.Context, certificateID int64) (*Credential, error) {
	var c Credential
	err := s.db.QueryRowContext(ctx, `SELECT list, position, vc, jwt, sd_jwt FROM credentials WHERE certificate_id = $1`, certificateID).
		Scan(&c.List, &c.Position, &c.VC, &c.JWT, &c.SDJWT)
	if noRows(err) {
		return nil, nil //nolint:nilnil // nil means that there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading a credential: %w", err)
	}
	return &c, nil
}

// entry returns the place of a certificate in a status list. The first call stores the place, so that
// all requests use the same place.
func (s *Service) entry(ctx context.Context, c *cert.Certificate) (e Entry, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		// The lock makes a concurrent correction of the address wait, because a correction changes the place.
		_, email, err := s.certs.LockTx(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if email != c.Email {
			return errChanged
		}
		err = tx.QueryRowContext(ctx, `SELECT list, position FROM credentials WHERE certificate_id = $1`, c.ID).Scan(&e.List, &e.Position)
		if err == nil {
			return nil
		}
		if !noRows(err) {
			return fmt.Errorf("reading a credential: %w", err)
		}
		n, err := version(ctx, tx, c.InstitutionID, c.ID)
		if err != nil {
			return err
		}
		if e, err = s.place(c.InstitutionID, c.ID, n); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO credentials (certificate_id, institution_id, list, position, vc, jwt, sd_jwt, created_at) VALUES ($1, $2, $3, $4, '', '', '', $5)`,
			c.ID, c.InstitutionID, e.List, e.Position, db.Micros(s.now())); err != nil {
			return fmt.Errorf("storing a credential: %w", err)
		}
		return nil
	})
	return e, err
}
