package account

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordMemberTx writes what was done to a person's membership.
func (s *Service) recordMemberTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID, userID int64, detail audit.Detail) error {
	subject, err := personTx(ctx, tx, "member", userID)
	if err != nil {
		return err
	}
	return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: institutionID, At: s.now(), Action: action, Subject: subject, Detail: detail})
}

// RecordPersonTx writes what a person did with their own account, such as
// signing in, into the log of each institution they belong to. Who belongs to
// none leaves no trace: the log is about those who work with the vault. The
// actor is the context's or, where that is nobody yet, the person.
func (s *Service) RecordPersonTx(ctx context.Context, tx *db.Tx, userID int64, action audit.Action, detail audit.Detail) error {
	list, err := memberships(ctx, tx, userID)
	if err != nil || len(list) == 0 {
		return err
	}
	subject, err := personTx(ctx, tx, "member", userID)
	if err != nil {
		return err
	}
	if a := audit.By(ctx); a.Type == audit.System || a.Type == audit.User && a.ID == "" {
		a.Type, a.ID, a.Name = audit.User, subject.ID, subject.Name
		ctx = audit.With(ctx, a)
	}
	for _, m := range list {
		if err := audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: m.Institution.ID, At: s.now(), Action: action, Subject: subject, Detail: detail}); err != nil {
			return err
		}
	}
	return nil
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
