package cert

import (
	"context"
	"errors"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Revocation is why a certificate is taken back: the reason is shown to the
// public, the note never.
type Revocation struct {
	Reason, Note string
	// Then may be nil.
	Then Then
}

var (
	reasonField = Field{Name: "reason", limit: maxDetails, required: true}
	noteField   = Field{Name: "note", limit: maxDetails}
)

// Check trims the reason and the note and adds what is wrong with them.
func (r *Revocation) Check(bad *fault.Fields) {
	r.Reason = reasonField.read(bad, r.Reason)
	r.Note = noteField.read(bad, r.Note)
}

// Revoke takes a certificate back, for good. Revoking again changes nothing
// and is no error.
func (s *Service) Revoke(ctx context.Context, institutionID int64, uuid string, r Revocation) (*Certificate, error) {
	var bad fault.Fields
	r.Check(&bad)
	if _, err := s.ByUUID(ctx, institutionID, uuid); err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	var c *Certificate
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if c, err = s.RevokeTx(ctx, tx, uuid, r); errors.Is(err, ErrMoved) {
			c, err = byUUID(ctx, tx, uuid)
		}
		if err != nil {
			return err
		}
		return r.Then.runTx(ctx, tx, c)
	})
	return c, err
}

// RevokeTx takes a certificate back, whatever institution's it is. It returns
// ErrMoved for one that is revoked already. The failure of a failed certificate is
// removed, since it asks for a retry, which is no longer possible.
func (s *Service) RevokeTx(ctx context.Context, tx *db.Tx, uuid string, r Revocation) (*Certificate, error) {
	c, err := s.moveTx(ctx, tx, triggerRevoke, uuid, column{"revoked_at", db.Micros(s.now())},
		column{"revocation_reason", r.Reason}, column{"revocation_note", optional(r.Note)}, column{"failure_code", nil}, column{"failure_message", nil})
	if err != nil {
		return nil, err
	}
	return c, recordTx(ctx, tx, audit.CertificateRevoked, c, audit.Detail{"reason": r.Reason})
}
