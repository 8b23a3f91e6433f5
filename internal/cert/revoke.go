package cert

import (
	"context"
	"errors"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Revocation has the public reason of a revocation, and a note that is not public.
type Revocation struct {
	Reason, Note string
	// Notify means that the recipient gets mail with the reason. No mail is sent if the recipient got no
	// mail about the certificate before.
	Notify bool
	// Then runs in the transaction of the revocation. It may be nil.
	Then TxFunc
}

// Check trims the reason and the note, and adds their problems to bad.
func (r *Revocation) Check(bad *Problems) {
	r.Reason = FieldReason.read(bad, r.Reason)
	r.Note = FieldNote.read(bad, r.Note)
}

// Revoke revokes a certificate permanently. It returns Invalid with Problems if the reason or the note is
// not valid, and BadRequest for an application that is pending or in review. If the certificate is already
// revoked, Revoke does not change it and returns no error. Revoke runs r.Then in this case too.
func (s *Service) Revoke(ctx context.Context, institutionID int64, uuid string, r Revocation) (*Certificate, error) {
	var bad Problems
	r.Check(&bad)
	if _, err := s.ByUUID(ctx, institutionID, uuid); err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	var c *Certificate
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if c, err = s.RevokeTx(ctx, tx, uuid, r); errors.Is(err, ErrInvalidState) {
			if c, err = byUUID(ctx, tx, uuid); err == nil && c.Status != Revoked {
				err = fault.New(fault.BadRequest, "Invalid operation")
			}
		}
		if err != nil {
			return err
		}
		return r.Then.runTx(ctx, tx, c)
	})
	return c, err
}

// RevokeTx revokes a certificate of any institution. It returns ErrInvalidState if the certificate is
// already revoked, or is an application that is pending or in review. It removes the failure of a failed
// certificate, because the message of the failure may advise a retry, which is no longer possible.
func (s *Service) RevokeTx(ctx context.Context, tx *db.Tx, uuid string, r Revocation) (*Certificate, error) {
	set := []column{
		{"revoked_at", db.Micros(s.now())}, {"revocation_reason", r.Reason}, {"revocation_note", optional(r.Note)},
		{"failure_code", nil}, {"failure_message", nil},
	}
	c, err := s.moveTx(ctx, tx, triggerRevoke, uuid, set...)
	if errors.Is(err, ErrInvalidState) {
		c, err = s.moveTx(ctx, tx, triggerCancel, uuid, set...)
	}
	if err != nil {
		return nil, err
	}
	if r.Notify {
		if err := s.TellRevokedTx(ctx, tx, []*Certificate{c}); err != nil {
			return nil, err
		}
	}
	return c, recordTx(ctx, tx, audit.CertificateRevoked, c, audit.Detail{"reason": r.Reason})
}

// TellRevokedTx mails the recipients of certificates that were revoked in the same transaction. A caller
// that revokes many certificates calls TellRevokedTx once instead of setting Revocation.Notify, so that the
// certificates of one recipient are in one mail.
func (s *Service) TellRevokedTx(ctx context.Context, tx *db.Tx, list []*Certificate) error {
	if s.tellRevoked == nil {
		return nil
	}
	return s.tellRevoked(ctx, tx, list)
}
