package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/fault"
)

// Erasure is the result of Erase.
type Erasure struct {
	Certificate *Certificate
	// RecordDeleted reports whether the record was deleted too.
	RecordDeleted bool
	// Deleted are the keys of the deleted files. Kept are the keys of the files to which other records
	// refer. A sweep deletes these files after the last of these records is gone.
	Deleted, Kept []string
}

// anyTime is later than all stored times.
const anyTime = math.MaxInt64

// Erase deletes the files of a revoked or failed certificate at once, and records the erasure in the
// audit log. It also deletes the record of a failed certificate. The record of a revoked certificate
// remains with its digests, so that its file is still recognized. Erase also deletes the files of a
// revoked certificate whose retention has ended, if they still exist. If all files of a revoked certificate
// are deleted, a second erasure changes nothing.
//
// The error is fault.NotFound if there is no certificate with the reference id, and fault.Invalid if the
// reason is not valid. If the certificate cannot be erased, the error is fault.Conflict, with a message
// that says what to do first.
func (s *Service) Erase(ctx context.Context, referenceID, reason string) (*Erasure, error) {
	var bad Problems
	// The reason of an erasure is optional.
	if reason = strings.TrimSpace(reason); reason != "" {
		reason = FieldReason.read(&bad, reason)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	c, err := s.ByReference(ctx, referenceID)
	if err != nil {
		return nil, err
	}
	e := &Erasure{Certificate: c}
	keys, err := s.eraseRecord(ctx, e, reason)
	if err != nil {
		return nil, err
	}
	existing, err := s.deletions.Exist(ctx, keys)
	if err == nil {
		e.Kept, err = s.deletions.DeleteNow(ctx, existing)
	}
	if err != nil {
		return nil, fmt.Errorf("the erasure is recorded, but files remain until the next sweep or until the certificate is erased again: %w", err)
	}
	e.Deleted = slices.DeleteFunc(existing, func(key string) bool { return slices.Contains(e.Kept, key) })
	return e, nil
}

// eraseRecord deletes the record of a failed certificate, or removes the references of a revoked certificate
// to its files. It records the erasure and returns the keys of the files. If the references were already
// removed and none of the files exists, eraseRecord does nothing.
func (s *Service) eraseRecord(ctx context.Context, e *Erasure, reason string) (keys []string, err error) {
	id := e.Certificate.ID
	if e.Certificate.FilesDeletedAt != nil {
		if keys, err = formerKeys(ctx, s.db, id); err != nil {
			return nil, err
		}
		if keys, err = s.deletions.Exist(ctx, keys); err != nil || len(keys) == 0 {
			return nil, err
		}
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		c, err := byUUID(ctx, tx, e.Certificate.UUID)
		if err != nil {
			return err
		}
		e.RecordDeleted = c.Status == Failed
		switch {
		case c.Status == Failed:
			keys, err = s.eraseFailedTx(ctx, tx, c)
		case c.Status != Revoked:
			err = errNotErasable(c)
		case c.FilesDeletedAt == nil:
			if c, err = s.removeFilesTx(ctx, tx, id, anyTime); err != nil {
				break
			}
			fallthrough
		default:
			keys, err = formerKeys(ctx, tx, id)
		}
		if errors.Is(err, ErrInvalidState) {
			err = fault.New(fault.Conflict, "The certificate was changed at the same time, so nothing was erased. Repeat the command.")
		}
		if err != nil {
			return err
		}
		e.Certificate = c
		if err := deletion.ExpireTx(ctx, tx, keys, s.now()); err != nil {
			return err
		}
		detail := audit.Detail{"files": len(keys)}
		if reason != "" {
			detail["reason"] = reason
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: c.InstitutionID, At: s.now(), Action: audit.CertificateErased, Detail: detail,
			Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("erasing a certificate: %w", err)
	}
	return keys, nil
}

// eraseFailedTx deletes a failed certificate and returns the keys of its files.
func (s *Service) eraseFailedTx(ctx context.Context, tx *db.Tx, c *Certificate) ([]string, error) {
	var newest int64
	if err := tx.QueryRowContext(ctx, `SELECT max(id) FROM certificates`).Scan(&newest); err != nil {
		return nil, err
	}
	if c.ID == newest {
		// Other systems may have stored the id of the newest record, and SQLite would assign it again.
		return nil, fault.New(fault.Conflict, fmt.Sprintf("The certificate %s is the newest record of the vault, and its number must not be given to another record. "+
			"Revoke it and then erase it, which keeps its record, or erase it after another certificate has been created.", c.ReferenceID))
	}
	former, err := formerKeys(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	if c, err = s.removeFailedTx(ctx, tx, c.ID, anyTime); err != nil {
		return nil, err
	}
	if c.Template != nil {
		return former, nil // the base belongs to the template
	}
	return append(former, c.File.Key), nil
}

// errNotErasable returns the error for a certificate whose status does not allow an erasure.
func errNotErasable(c *Certificate) error {
	if c.Source == Customer && (c.Status == Pending || c.Status == InReview) {
		// Revoke refuses it too.
		return fault.New(fault.Conflict, fmt.Sprintf("The application %s is %s. Its reviewers and signatories must decide first. "+
			"If it becomes a certificate, revoke the certificate, and then erase it.", c.ReferenceID, c.Status))
	}
	return fault.New(fault.Conflict, fmt.Sprintf("The certificate %s is %s. Revoke it first, in the panel or through the API, and then erase it.", c.ReferenceID, c.Status))
}

// formerKeys returns the keys of the files that a certificate no longer refers to.
func formerKeys(ctx context.Context, q db.Queryer, id int64) ([]string, error) {
	var keys sql.NullString
	if err := q.QueryRowContext(ctx, `SELECT former_keys FROM certificates WHERE id = $1`, id).Scan(&keys); err != nil {
		return nil, fmt.Errorf("reading the files of a certificate: %w", err)
	}
	return strings.Fields(keys.String), nil
}
