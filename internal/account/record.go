package account

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordMemberTx records a change of a person's membership in the audit log.
func (s *Service) recordMemberTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID, userID int64, detail audit.Detail) error {
	subject, err := personTx(ctx, tx, "member", userID)
	if err != nil {
		return err
	}
	return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: institutionID, At: s.now(), Action: action, Subject: subject, Detail: detail})
}

func personTx(ctx context.Context, tx *db.Tx, kind string, userID int64) (audit.Subject, error) {
	subject := audit.Subject{Type: kind}
	if err := tx.QueryRowContext(ctx, `SELECT uuid, name FROM users WHERE id = $1`, userID).Scan(&subject.ID, &subject.Name); err != nil {
		return subject, fmt.Errorf("reading a person: %w", err)
	}
	return subject, nil
}

func memberDetail(role Role, manageWebhooks bool) audit.Detail {
	d := audit.Detail{"role": role}
	if manageWebhooks {
		d["manage_webhooks"] = true
	}
	return d
}
