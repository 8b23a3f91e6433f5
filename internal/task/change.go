package task

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// changeTx changes the certificates of one step.
func (s *Service) changeTx(ctx context.Context, tx *db.Tx, d *Task, uuids []string) (results []Result, err error) {
	statuses := changeable[d.Kind]
	// The entries in the audit log have the actor who started the task.
	ctx = audit.WithActor(ctx, d.actor)
	var revoked []*cert.Certificate
	for _, id := range uuids {
		r := Result{UUID: id, Outcome: Skipped}
		err := tx.QueryRowContext(ctx, `SELECT status FROM certificates WHERE uuid = $1 AND institution_id = $2`, id, d.institutionID).Scan(&r.PreviousStatus)
		if err == nil && slices.Contains(statuses, r.PreviousStatus) {
			c, e := s.changeOneTx(ctx, tx, d, id)
			if err = e; err == nil {
				r.Outcome, r.PreviousStatus = Succeeded, ""
			}
			if err == nil && d.Kind == Revoke && d.notify {
				revoked = append(revoked, c)
			}
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) && !errors.Is(err, cert.ErrInvalidState) {
			return nil, err
		}
		results = append(results, r)
	}
	// A recipient gets one mail about all certificates that were revoked in one step.
	if len(revoked) > 0 {
		err = s.certs.TellRevokedTx(ctx, tx, revoked)
	}
	return results, err
}

// changeOneTx changes a certificate. It returns the certificate if it was revoked.
func (s *Service) changeOneTx(ctx context.Context, tx *db.Tx, d *Task, id string) (*cert.Certificate, error) {
	switch d.Kind {
	case Retry:
		_, err := s.certs.RetryTx(ctx, tx, id)
		return nil, err
	case Renew:
		return nil, s.renewTx(ctx, tx, d, id)
	case Revoke:
	}
	return s.certs.RevokeTx(ctx, tx, id, cert.Revocation{Reason: d.reason, Note: d.note})
}
