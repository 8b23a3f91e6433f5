package identity

import (
	"context"
	"database/sql"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Reset sets a new password with a link that was mailed for this purpose. The link also verifies
// the address. Reset ends all sessions and deletes all links of the person, and removes the
// passkeys with the ids in remove. Reset does not start a session, so the next sign-in still
// requires a second factor if the person has one.
func (s *Service) Reset(ctx context.Context, secret, password string, remove ...int64) (Person, error) {
	if _, err := s.Proof(ctx, ToReset, secret); err != nil {
		return Person{}, err
	}
	hash, err := s.newHash(ctx, password)
	if err != nil {
		return Person{}, err
	}
	var p Person
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		var err error
		if p, err = s.redeemLinkTx(ctx, tx, ToReset, secret); err != nil {
			return err
		}
		if err := s.verifyAddressTx(ctx, tx, p.ID); err != nil {
			return err
		}
		for _, id := range remove {
			if err := s.removePasskeyTx(ctx, tx, p, id); err != nil {
				return err
			}
		}
		return s.setPasswordTx(ctx, tx, p, hash, 0)
	})
	return p, err
}

// ChangePassword sets a new password for a signed-in person, and ends all other sessions. Callers must
// first check that the sign-in is recent.
func (s *Service) ChangePassword(ctx context.Context, session *Session, password string) error {
	hash, err := s.newHash(ctx, password)
	if err != nil {
		return err
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		return s.setPasswordTx(ctx, tx, session.Person, hash, session.ID)
	})
}

// Removal has the credentials that SetPassword removes.
type Removal struct {
	// Codes removes the second factor. Passkeys removes all passkeys.
	Codes, Passkeys bool
}

// SetPassword sets the password of a person whom the operator has identified without mail. It ends all
// sessions, and removes the credentials in remove.
func (s *Service) SetPassword(ctx context.Context, personID int64, password string, remove Removal) error {
	hash, err := s.newHash(ctx, password)
	if err != nil {
		return err
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		p, err := s.Person(ctx, tx, personID)
		if err != nil {
			return err
		}
		if remove.Codes {
			if err := dropCodesTx(ctx, tx, p.ID); err != nil {
				return err
			}
		}
		if remove.Passkeys {
			list, err := passkeys(ctx, tx, p.ID)
			if err != nil {
				return err
			}
			for _, k := range list {
				if err := s.removePasskeyTx(ctx, tx, p, k.ID); err != nil {
					return err
				}
			}
		}
		return s.setPasswordTx(ctx, tx, p, hash, 0)
	})
}

// newHash returns the hash of a new password, or fault.Invalid if the password is not acceptable.
func (s *Service) newHash(ctx context.Context, password string) (sql.NullString, error) {
	if err := account.CheckPassword(password); err != nil {
		return sql.NullString{}, fault.OfField("password", err.Error())
	}
	return s.hash(ctx, password)
}

// setPasswordTx stores a password's hash, ends all sessions except the session with the id in the
// argument except, deletes all mailed links, and notifies the person.
func (s *Service) setPasswordTx(ctx context.Context, tx *db.Tx, p Person, hash sql.NullString, except int64) error {
	if err := account.SetPasswordTx(ctx, tx, p.ID, hash); err != nil {
		return err
	}
	if err := deleteLinksTx(ctx, tx, p); err != nil {
		return err
	}
	if err := endTx(ctx, tx, `user_id = $1 AND id <> $2`, p.ID, except); err != nil {
		return err
	}
	return s.notifyTx(ctx, tx, p, passwordChanged)
}
