package identity

import (
	"context"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx records an action of a member or an operator in the audit log of each institution that
// the person belongs to. If there is no institution, recordTx uses the log of the installation. It
// does not record actions of other people, because these people may request deletion and the log is
// append-only.
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
	// During a sign-in, the request has no user yet, so the person becomes the actor.
	actor := audit.ActorOf(ctx)
	if actor.Type != audit.Command {
		actor.Type, actor.ID, actor.Name = audit.User, p.UUID, p.Name
	}
	if action == audit.SignInFailed {
		// A failed sign-in does not prove the identity of the actor.
		actor.ID, actor.Name = "", ""
	}
	ctx = audit.WithActor(ctx, actor)
	for _, id := range institutions {
		if err := audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, Action: action, Subject: audit.Subject{Type: "user", ID: p.UUID, Name: p.Name}, Detail: audit.Detail{"by": what},
		}); err != nil {
			return err
		}
	}
	return nil
}

// recordTimeout is the timeout for recording a failed sign-in.
const recordTimeout = 10 * time.Second

// recordFailure records a failed sign-in to the account of a person. If personID is 0,
// recordFailure records nothing. It works in the background, so that the duration of the response
// does not reveal whether the address has an account.
func (s *Service) recordFailure(ctx context.Context, personID int64, by string) {
	if personID == 0 {
		return
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			p, err := s.Person(ctx, tx, personID)
			if err != nil {
				return err
			}
			return recordTx(ctx, tx, p, audit.SignInFailed, by)
		}); err != nil {
			s.Log.ErrorContext(ctx, "recording a failed sign-in failed", slog.Any("error", err))
		}
	})
}

// Wait waits for the work that continues after responses. Call it before closing the database.
func (s *Service) Wait() { s.background.Wait() }
