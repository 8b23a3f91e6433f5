package identity

import (
	"context"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx records sign-ins of members and operators in the audit log: of each institution that
// they belong to, or else of the installation. For other people it writes nothing, because they may
// ask for deletion and the log is append-only.
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
	// At a sign-in the request has no user yet. The entry keeps its address and id.
	actor := audit.By(ctx)
	if actor.Type != audit.Command {
		actor.Type, actor.ID, actor.Name = audit.User, p.UUID, p.Name
	}
	if action == audit.SignInFailed {
		// A failed sign-in does not identify its actor.
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

// refusedTime is the time limit for recording a failed sign-in.
const refusedTime = 10 * time.Second

// refused records a failed sign-in as a person; 0 means none. It runs after the answer, so that the
// answer's duration does not reveal whether the address has an account.
func (s *Service) refused(ctx context.Context, personID int64, by string) {
	if personID == 0 {
		return
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedTime)
		defer cancel()
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			p, err := s.Person(ctx, tx, personID)
			if err != nil {
				return err
			}
			return recordTx(ctx, tx, p, audit.SignInFailed, by)
		}); err != nil {
			s.Log.ErrorContext(ctx, "a failed sign-in could not be recorded", slog.Any("error", err))
		}
	})
}

// Wait waits for the work that continues after answers. Call it before closing the database.
func (s *Service) Wait() { s.background.Wait() }
