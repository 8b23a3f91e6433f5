package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Retry restarts the processing of a failed certificate. It returns BadRequest and changes nothing
// if RetryTx returns ErrInvalidState. If then is not nil, it runs in the same transaction.
func (s *Service) Retry(ctx context.Context, institutionID int64, uuid string, then TxFunc) (*Certificate, error) {
	if _, err := s.ByUUID(ctx, institutionID, uuid); err != nil {
		return nil, err
	}
	var c *Certificate
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if c, err = s.RetryTx(ctx, tx, uuid); err != nil {
			return err
		}
		return then.runTx(ctx, tx, c)
	})
	if errors.Is(err, ErrInvalidState) {
		return nil, fault.New(fault.BadRequest, "Invalid operation")
	}
	return c, err
}

// RetryTx restarts the processing of a failed certificate of any institution. If a signatory declined
// the certificate, RetryTx asks all its signatories again. It returns ErrInvalidState if the status of the
// certificate is not Failed. It also returns ErrInvalidState for a replacement if another replacement of the
// same certificate is being made or was approved.
func (s *Service) RetryTx(ctx context.Context, tx *db.Tx, uuid string) (*Certificate, error) {
	var declined, late bool
	err := tx.QueryRowContext(ctx, `SELECT coalesce(c.failure_code, '') = $1, `+outdated+` FROM certificates c WHERE c.uuid = $2`, CodeDeclined, uuid).
		Scan(&declined, &late)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading the failure of a certificate: %w", err)
	}
	if late {
		return nil, ErrInvalidState
	}
	by := triggerRetry
	if declined {
		by = triggerAskAgain
	}
	c, err := s.moveTx(ctx, tx, by, uuid,
		column{"event_context", string(Retrying)}, column{"failure_code", nil}, column{"failure_message", nil}, column{"crashes", 0})
	if db.UniqueOn(err, "certificates", "replaces") {
		return nil, ErrInvalidState // another replacement began at the same time
	}
	if err != nil {
		return nil, err
	}
	if declined {
		if err := s.askAgainTx(ctx, tx, c.ID); err != nil {
			return nil, err
		}
	}
	return c, recordTx(ctx, tx, audit.CertificateRetried, c, nil)
}
