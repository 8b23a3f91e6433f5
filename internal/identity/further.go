package identity

import (
	"context"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

// A person may have further addresses, which are verified, besides the main address. Certificates that are
// issued to a further address belong to the person. A further address cannot be used to sign in or to reset the
// password, so that the new owner of a mailbox, such as a mailbox at a former employer, has no access to the
// account.

var (
	// ErrYours means that the account of the person already has the address.
	ErrYours = fault.New(fault.Conflict, "Your account already has this address.")
	// ErrTooManyAddresses means that the account has account.MaxAddresses further addresses.
	ErrTooManyAddresses = fault.New(fault.Conflict, "Your account already has the maximum number of addresses. Remove one first.")
	// ErrUnverified means that the person has not verified the main address.
	ErrUnverified = fault.New(fault.Forbidden, "Confirm your main address first: sign in once with a sign-in link.")
)

// RequestAddress mails a link to a further address of a signed-in person. Callers must check first that the
// sign-in is recent. The requests of each person are limited. If the address belongs to another account, the
// function mails a notice to the address instead of the link, and returns the same result. The errors include
// fault.Invalid with the field email, fault.TooMany, ErrYours, ErrTooManyAddresses and ErrUnverified.
func (s *Service) RequestAddress(ctx context.Context, session *Session, address string, from Origin) error {
	email, err := account.ParseEmail(address)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	// A request for an address that the account already has is not counted.
	owner, err := account.UserByAddress(ctx, s.DB, email.Folded)
	switch {
	case err == nil && owner.ID == session.Person.ID:
		return ErrYours
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	case !session.Person.Verified:
		return ErrUnverified
	}
	list, err := account.Addresses(ctx, s.DB, session.Person.ID)
	if err != nil {
		return err
	}
	if len(list) >= account.MaxAddresses {
		return ErrTooManyAddresses
	}
	return s.confirmAddress(ctx, session, email, ToAddAddress, from)
}

// confirmAddress mails a link for one of the purposes ToChangeAddress and ToAddAddress to an address.
func (s *Service) confirmAddress(ctx context.Context, session *Session, email account.Email, purpose Purpose, from Origin) error {
	if _, err := s.try(ctx, tryAddress, session.Person.EmailFolded, from); err != nil {
		return err
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		owner, err := account.UserByAddress(ctx, tx, email.Folded)
		if err == nil && owner.ID != session.Person.ID {
			return s.writeTx(ctx, tx, mailbox(owner, email.Folded), "letter_taken", "")
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		secret, err := s.newProofTx(ctx, tx, Proof{Purpose: purpose, userID: session.Person.ID, Email: email.Text, EmailFolded: email.Folded})
		if err != nil {
			return err
		}
		to := session.Person
		to.Email = email.Folded // as in sendLink
		return s.writeTx(ctx, tx, to, "letter_"+string(purpose), paths[purpose]+secret)
	})
}

// mailbox returns the receiver of a mail to an address of a user. It has no name, because a further address may
// have another owner by now.
func mailbox(u *account.User, folded string) Person {
	return Person{ID: u.ID, Email: folded, EmailFolded: folded, Language: u.Language}
}

// AddAddress adds the address to which the link was mailed to the addresses of a person, and calls
// OnVerified. It sends a notice to the main address. Only a session of the same person can use the link.
// The error is ErrLink if the link is not valid, ErrTaken if another account has the address, ErrYours if
// the account already has the address, or ErrTooManyAddresses if the account has too many addresses.
func (s *Service) AddAddress(ctx context.Context, session *Session, secret string) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		proof, err := s.redeemTx(ctx, tx, ToAddAddress, secret)
		if err != nil {
			return err
		}
		if proof.userID != session.Person.ID {
			return ErrLink
		}
		p, err := s.Person(ctx, tx, proof.userID)
		if err != nil {
			return err
		}
		if err := s.addTx(ctx, tx, p, account.Email{Text: proof.Email, Folded: proof.EmailFolded}); err != nil {
			return err
		}
		if s.OnVerified != nil {
			verified := p
			verified.Email, verified.EmailFolded = proof.Email, proof.EmailFolded
			if err := s.OnVerified(ctx, tx, verified); err != nil {
				return err
			}
		}
		return s.notifyAddressTx(ctx, tx, p, addressAdded, proof.Email)
	})
}

func (s *Service) addTx(ctx context.Context, tx *db.Tx, p Person, email account.Email) error {
	list, err := account.Addresses(ctx, tx, p.ID)
	if err != nil {
		return err
	}
	added, err := account.AddAddressTx(ctx, tx, p.ID, email, s.Now())
	if err != nil {
		return err
	}
	if !added {
		owner, err := account.UserByAddress(ctx, tx, email.Folded)
		if err == nil && owner.ID == p.ID {
			err = ErrYours
		} else if err == nil {
			err = ErrTaken
		}
		return err
	}
	if len(list) >= account.MaxAddresses {
		return ErrTooManyAddresses
	}
	return nil
}

// RemoveAddress removes a further address of a signed-in person. The person keeps the certificates that were
// issued to the address, but certificates that are issued to it later are not assigned to the person.
// RemoveAddress sends a notice to the main address. The error is fault.NotFound if the person has no such
// further address.
func (s *Service) RemoveAddress(ctx context.Context, session *Session, folded string) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		p, err := s.Person(ctx, tx, session.Person.ID)
		if err != nil {
			return err
		}
		return s.removeAddressTx(ctx, tx, p, folded)
	})
}

// TakeAddress removes a further address from its account. Operators use it if the mailbox has another owner.
// It returns the person who had the address. The error is fault.NotFound if no account has the further address.
func (s *Service) TakeAddress(ctx context.Context, address string) (p Person, err error) {
	email, err := account.ParseEmail(address)
	if err != nil {
		return p, fault.OfField("email", err.Error())
	}
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		owner, err := account.UserByAddress(ctx, tx, email.Folded)
		if err != nil {
			return err
		}
		if p, err = s.Person(ctx, tx, owner.ID); err != nil {
			return err
		}
		return s.removeAddressTx(ctx, tx, p, email.Folded)
	})
	return p, err
}

func (s *Service) removeAddressTx(ctx context.Context, tx *db.Tx, p Person, folded string) error {
	removed, err := account.RemoveAddressTx(ctx, tx, p.ID, folded)
	if err != nil {
		return err
	}
	return s.notifyAddressTx(ctx, tx, p, addressRemoved, removed)
}

// notifyAddressTx is notifyTx for a change of a further address. The mail contains the address.
func (s *Service) notifyAddressTx(ctx context.Context, tx *db.Tx, p Person, c change, address string) error {
	direction := "ltr"
	if s.Languages != nil {
		direction = s.Languages.FirstOf(p.Language).Direction
	}
	return s.notifyTx(ctx, tx, p, c, "address", mail.Quote(address, maxAddress, direction))
}

// maxAddress is the maximum length of an address in a mail, in characters.
const maxAddress = 100

// writeFurtherTx mails a notice to a further address for which a link was requested. The notice says that the
// address cannot be used to sign in. These notices are limited like links, by countMailTx. further reports
// whether the address is a further address.
func (s *Service) writeFurtherTx(ctx context.Context, tx *db.Tx, purpose Purpose, folded, language string) (further bool, err error) {
	owner, err := account.UserByAddress(ctx, tx, folded)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := s.countMailTx(ctx, tx, purpose, folded, lifetimes[purpose]); err != nil {
		return true, err
	}
	to := mailbox(owner, folded)
	if to.Language == "" {
		to.Language = language
	}
	return true, s.writeTx(ctx, tx, to, "letter_further", "")
}

// Addresses returns the further addresses of a person, oldest first.
func (s *Service) Addresses(ctx context.Context, personID int64) ([]account.Address, error) {
	return account.Addresses(ctx, s.DB, personID)
}

// FurtherAddress returns the address that a link adds, or ErrLink if the person cannot use the link.
func (s *Service) FurtherAddress(ctx context.Context, session *Session, secret string) (string, error) {
	proof, err := s.Proof(ctx, ToAddAddress, secret)
	if err == nil && proof.userID != session.Person.ID {
		err = ErrLink
	}
	return proof.Email, err
}
