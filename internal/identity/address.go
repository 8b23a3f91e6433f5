package identity

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// RequestAddressChange mails a confirmation link to the new address of a signed-in person. Callers
// must check first that the sign-in is recent. The requests of each person are limited. If the
// address belongs to another account, the function mails a notice to the address instead of the link, and
// returns the same result.
func (s *Service) RequestAddressChange(ctx context.Context, session *Session, address string, from Origin) error {
	email, err := account.ParseEmail(address)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	return s.confirmAddress(ctx, session, email, ToChangeAddress, from)
}

// ChangeAddress changes the address of a person to the address to which the link was mailed, and
// marks the new address as verified. It deletes all links that were mailed to the person. If the
// address changes, it sends a notice to the old address. Only a session of the same person can use
// the link, so that another person who receives the link has no access to an account. The error is ErrLink
// if the link is not valid, or ErrTaken if another account has the address.
func (s *Service) ChangeAddress(ctx context.Context, session *Session, secret string) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		proof, err := s.redeemTx(ctx, tx, ToChangeAddress, secret)
		if err != nil {
			return err
		}
		if proof.userID != session.Person.ID {
			return ErrLink
		}
		old, err := s.Person(ctx, tx, proof.userID)
		if err != nil {
			return err
		}
		changed, err := account.SetEmailTx(ctx, tx, old.ID, account.Email{Text: proof.Email, Folded: proof.EmailFolded})
		if err != nil {
			return fmt.Errorf("changing an address: %w", err)
		}
		if !changed {
			return ErrTaken
		}
		if err := s.verifyAddressTx(ctx, tx, old.ID); err != nil {
			return err
		}
		if err := deleteLinksTx(ctx, tx, old); err != nil {
			return err
		}
		if old.EmailFolded == proof.EmailFolded {
			return nil
		}
		return s.notifyTx(ctx, tx, old, addressChanged)
	})
}
