package recipient

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Resend mails an approved certificate again, with a new notice. If the function then is not nil, Resend calls
// it in the same transaction. The error is fault.NotFound if the institution has no such certificate,
// fault.BadRequest if the certificate is not approved, or if it is unassigned and its address is unsubscribed,
// and fault.TooMany if the daily limit is reached.
func (s *Service) Resend(ctx context.Context, institutionID int64, uuid string, then cert.TxFunc) error {
	c, err := s.certs.ByUUID(ctx, institutionID, uuid)
	if err != nil {
		return err
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return fmt.Errorf("reading the address of a certificate: %w", err)
	}
	if c.Status != cert.Approved {
		return fault.New(fault.BadRequest, "Mail can only be sent for an approved certificate.")
	}
	isUnsubscribed, err := IsUnsubscribed(ctx, s.db, institutionID, email.Folded)
	if err != nil {
		return err
	}
	if isUnsubscribed && c.CustomerID == 0 {
		return fault.New(fault.BadRequest, "This address has unsubscribed from the mail of the institution. Send the person the link to the public page in another way.")
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, fmt.Sprintf("certificate %d", c.ID), resending); err != nil {
			return err
		}
		if err := s.assignTx(ctx, tx, c, email.Folded); err != nil {
			return err
		}
		if err := dropPlannedTx(ctx, tx, c.ID); err != nil {
			return err
		}
		if err := s.mailAgainTx(ctx, tx, c, email, Resent); err != nil {
			return err
		}
		if then == nil {
			return nil
		}
		return then(ctx, tx, c)
	})
}

// mailAgainTx mails a certificate that may have been mailed before. The mail replaces the notices of
// the certificate that are waiting or queued.
func (s *Service) mailAgainTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, email account.Email, reason Reason) error {
	if err := s.withdrawTx(ctx, tx, c.ID); err != nil {
		return err
	}
	id, err := s.insertTx(ctx, tx, c, email, reason, "")
	if err != nil {
		return err
	}
	return s.writeTx(ctx, tx, `id = $1`, id)
}

// CorrectEmail corrects the address of a certificate of an institution. If a person has verified the new
// address, the certificate is assigned to that person. An approved certificate is mailed again, unless its
// first mail waits for a plan. Links that were mailed to the wrong address, and links that the certificate's
// holder created, no longer open the certificate. If the function then is not nil, CorrectEmail calls it in the
// same transaction.
func (s *Service) CorrectEmail(ctx context.Context, institutionID int64, uuid, address string, then cert.TxFunc) (*cert.Certificate, error) {
	before, err := s.certs.ByUUID(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	email, err := cert.ReadEmail(address)
	if err != nil {
		return nil, err
	}
	if email.Text == before.Email {
		return nil, cert.Problems{{Field: cert.FieldEmail, Code: cert.CodeUnchanged}}.Err()
	}
	var c *cert.Certificate
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		number, err := s.LookUpTx(ctx, tx, institutionID, email.Folded)
		if err != nil {
			return err
		}
		if c, err = s.certs.SetEmailTx(ctx, tx, institutionID, uuid, email); err != nil {
			return err
		}
		if number != 0 {
			if err := s.certs.AssignTx(ctx, tx, c, email.Folded, number); err != nil {
				return err
			}
		}
		if err := s.withdrawTx(ctx, tx, c.ID); err != nil {
			return err
		}
		if err := endMailedTx(ctx, tx, c.ID); err != nil {
			return err
		}
		if err := s.revokeSharesTx(ctx, tx, c.ID); err != nil {
			return err
		}
		if err := removeEntriesTx(ctx, tx, c.ID); err != nil {
			return err
		}
		// Mail that waits for a plan is sent to the new address at the time of the plan.
		held, err := heldTx(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if c.Status == cert.Approved && !held {
			if err := s.mailAgainTx(ctx, tx, c, email, Corrected); err != nil {
				return err
			}
		}
		if then == nil {
			return nil
		}
		return then(ctx, tx, c)
	})
	return c, err
}
