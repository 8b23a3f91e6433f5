package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// openTx locks the members of an institution and returns an open invitation of the institution. It returns
// fault.NotFound if there is no such invitation or the user by is not a member, and fault.Forbidden if the user
// may not manage the invitation.
func (s *Invitations) openTx(ctx context.Context, tx *db.Tx, by, institutionID int64, id string) (*Invitation, error) {
	if err := lockMembersTx(ctx, tx, institutionID); err != nil {
		return nil, err
	}
	i, err := scanInvitation(tx.QueryRowContext(ctx,
		`SELECT `+invitationColumns+openInvitations+` AND n.institution_id = $1 AND n.uuid = $2`, institutionID, id))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.NotFound, "This institution has no such open invitation.")
	}
	if err != nil {
		return nil, err
	}
	return i, allowTx(ctx, tx, by, institutionID, i.Role)
}

// Resend mails an invitation again, with a new link that is valid for seven days. The link in the
// previous mail stops working.
func (s *Invitations) Resend(ctx context.Context, by, institutionID int64, id string) error {
	now := s.now().UTC()
	secret := NewSecret()
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		i, err := s.openTx(ctx, tx, by, institutionID, id)
		if err != nil {
			return err
		}
		if wait := i.SentAt.Add(resendAfter).Sub(now); wait > 0 {
			return &fault.Error{Kind: fault.TooMany, Message: "This invitation was sent a moment ago. Try again in a minute.", RetryAfter: wait}
		}
		language, ok := s.Languages.Get(i.Language)
		if !ok {
			return fmt.Errorf("the language %s of an invitation is unknown", i.Language)
		}
		i.SentAt, i.ExpiresAt = now, now.Add(invitationLife)
		if _, err := tx.ExecContext(ctx, `UPDATE invitations SET hash = $2, sent_at = $3, expires_at = $4 WHERE id = $1`,
			i.ID, HashSecret(secret), db.Micros(i.SentAt), db.Micros(i.ExpiresAt)); err != nil {
			return err
		}
		if err := s.recordTx(ctx, tx, audit.InvitationResent, i, nil); err != nil {
			return err
		}
		return s.mailTx(ctx, tx, i, language, secret)
	})
	if err != nil {
		return fmt.Errorf("sending an invitation again: %w", err)
	}
	return nil
}

// Revoke revokes an invitation.
func (s *Invitations) Revoke(ctx context.Context, by, institutionID int64, id string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		i, err := s.openTx(ctx, tx, by, institutionID, id)
		if err != nil {
			return err
		}
		return s.endTx(ctx, tx, i, "revoked_at", audit.InvitationRevoked)
	})
	if err != nil {
		return fmt.Errorf("revoking an invitation: %w", err)
	}
	return nil
}

// Decline ends an invitation on behalf of the person who has its link.
func (s *Invitations) Decline(ctx context.Context, secret string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		i, err := s.bySecret(ctx, tx, secret)
		if err != nil {
			return err
		}
		a := audit.ActorOf(ctx)
		a.Type, a.Name = audit.User, i.Email
		return s.endTx(audit.WithActor(ctx, a), tx, i, "revoked_at", audit.InvitationDeclined)
	})
	if err != nil {
		return fmt.Errorf("declining an invitation: %w", err)
	}
	return nil
}

// endTx closes an invitation by setting a column to the current time. It returns errInvitation if the
// invitation is closed already.
func (s *Invitations) endTx(ctx context.Context, tx *db.Tx, i *Invitation, column string, action audit.Action) error {
	var id int64
	err := tx.QueryRowContext(ctx,
		`UPDATE invitations SET `+column+` = $2 WHERE id = $1 AND accepted_at IS NULL AND revoked_at IS NULL RETURNING id`,
		i.ID, db.Micros(s.now())).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return errInvitation
	}
	if err != nil {
		return err
	}
	return s.recordTx(ctx, tx, action, i, nil)
}

// Invitee is a person who accepts an invitation. Verified reports whether the person has verified the
// invited address.
type Invitee struct {
	UserID   int64
	Verified bool
}

// Accept adds a person as a member. The invited address must be the main address or a further address of
// the person, and must be verified. If the person is already a member, the role does not change.
func (s *Invitations) Accept(ctx context.Context, secret string, g Invitee) (i *Invitation, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		i, err = s.AcceptTx(ctx, tx, secret, g)
		return err
	})
	return i, err
}

// AcceptTx is like Accept, but runs in the transaction that creates the person's account or
// verifies the person's address.
func (s *Invitations) AcceptTx(ctx context.Context, tx *db.Tx, secret string, g Invitee) (*Invitation, error) {
	i, err := s.bySecret(ctx, tx, secret)
	if err != nil {
		return nil, fmt.Errorf("accepting an invitation: %w", err)
	}
	invited, err := UserByAddress(ctx, tx, i.folded)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, fmt.Errorf("accepting an invitation: %w", err)
	}
	switch {
	case err != nil, invited.ID != g.UserID:
		return nil, errNotYours
	case !g.Verified:
		return nil, errNotVerified
	}
	if err := s.endTx(ctx, tx, i, "accepted_at", audit.InvitationAccepted); err != nil {
		return nil, fmt.Errorf("accepting an invitation: %w", err)
	}
	added, err := s.Accounts.insertMemberTx(ctx, tx, i.InstitutionID, g.UserID, i.Role, i.ManageWebhooks)
	if err == nil && added {
		err = s.Accounts.recordMemberTx(ctx, tx, audit.MemberAdded, i.InstitutionID, g.UserID, memberDetail(i.Role, i.ManageWebhooks))
	}
	if err != nil {
		return nil, fmt.Errorf("accepting an invitation: %w", err)
	}
	return i, nil
}

// For reports whether an invitation is for a folded address.
func (i *Invitation) For(folded string) bool { return folded == i.folded }

// Folded returns the invited address in its folded form.
func (i *Invitation) Folded() string { return i.folded }
