package cert

import (
	"context"
	"errors"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// Revocation is why a certificate is taken back: the reason is shown to the
// public, the note never.
type Revocation struct {
	Reason, Note string
	// Then may be nil.
	Then Then
}

// Revoke takes a certificate back, for good. Revoking again changes nothing
// and is no error.
func (s *Service) Revoke(ctx context.Context, institutionID int64, uuid string, r Revocation) (*Certificate, error) {
	var bad Problems
	r.Reason = FieldReason.read(&bad, r.Reason)
	r.Note = FieldNote.read(&bad, r.Note)
	if _, err := s.ByUUID(ctx, institutionID, uuid); err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	var c *Certificate
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		c, err = s.revokeTx(ctx, tx, uuid, r.Reason, r.Note)
		switch {
		case errors.Is(err, errMoved):
			c, err = byUUID(ctx, tx, uuid)
		case err == nil:
			err = recordTx(ctx, tx, audit.CertificateRevoked, c, audit.Detail{"reason": r.Reason})
		}
		if err != nil {
			return err
		}
		return r.Then.runTx(ctx, tx, c)
	})
	return c, err
}

// revokeTx revokes. Why one had failed goes: it asks for a retry, which there is
// none of any more.
func (s *Service) revokeTx(ctx context.Context, tx *db.Tx, uuid, reason, note string) (*Certificate, error) {
	return s.moveTx(ctx, tx, TriggerRevoke, uuid, column{"revoked_at", db.Micros(s.now())},
		column{"revocation_reason", reason}, column{"revocation_note", optional(note)}, column{"failure_code", nil}, column{"failure_message", nil})
}
