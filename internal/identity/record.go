package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx writes into the log how people sign in who issue certificates or see the
// installation: in the log of each institution they belong to, else in the
// installation's. Of others nothing is written: the log cannot forget, and they may
// ask to be forgotten.
func recordTx(ctx context.Context, tx *db.Tx, p Person, action audit.Action, what string) error {
	if !p.Member && !p.Operator {
		return nil
	}
	institutions, err := institutionsTx(ctx, tx, p.ID)
	if err != nil {
		return err
	}
	if len(institutions) == 0 {
		institutions = []int64{0}
	}
	// Who signs in is nobody until then; the request's address and id stay.
	actor := audit.By(ctx)
	if actor.Type != audit.Command {
		actor.Type, actor.ID, actor.Name = audit.User, p.UUID, p.Name
	}
	ctx = audit.With(ctx, actor)
	for _, id := range institutions {
		if err := audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, Action: action, Subject: audit.Subject{Type: "user", ID: p.UUID, Name: p.Name}, Detail: audit.Detail{"by": what},
		}); err != nil {
			return err
		}
	}
	return nil
}

func institutionsTx(ctx context.Context, tx *db.Tx, personID int64) (list []int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT institution_id FROM members WHERE user_id = $1 ORDER BY institution_id`, personID)
	if err != nil {
		return nil, fmt.Errorf("reading a person's institutions: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("reading a person's institutions: %w", err)
		}
		list = append(list, id)
	}
	return list, rows.Err()
}
