package identity

import (
	"context"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
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
	institutions, err := account.InstitutionsOf(ctx, tx, p.ID)
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
	if action == audit.SignInFailed {
		// Who it was is not known, or they would not have failed.
		actor.ID, actor.Name = "", ""
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

// refusedTime bounds the writing of a sign-in that failed.
const refusedTime = 10 * time.Second

// refused writes that somebody failed to sign in as a person, 0 for nobody. It is
// done behind the answer: how long that takes must not tell whose address it is.
func (s *Service) refused(ctx context.Context, personID int64, by string) {
	if personID == 0 {
		return
	}
	s.beside.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedTime)
		defer cancel()
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			p, err := s.Person(ctx, tx, personID)
			if err != nil {
				return err
			}
			return recordTx(ctx, tx, p, audit.SignInFailed, by)
		}); err != nil {
			s.Log.ErrorContext(ctx, "a sign-in that failed could not be recorded", slog.Any("error", err))
		}
	})
}

// Wait waits for what goes on behind answers, before the database is closed.
func (s *Service) Wait() { s.beside.Wait() }
