package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// hashTime is the timeout for hashing a password, including the wait for a free slot.
	hashTime = 10 * time.Second
	// busyRetry is the Retry-After of a sign-in that is rejected because too many clients wait.
	busyRetry = 5 * time.Second
)

// ErrBusy means that too many passwords are being checked.
var ErrBusy = &fault.Error{Kind: fault.Unavailable, Message: "Too many people are signing in. Please try again.", RetryAfter: busyRetry}

// busyError returns ErrBusy with err as its cause if err means that a password could not be hashed
// in time. Otherwise busyError returns err.
func busyError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, account.ErrBusy) {
		return &fault.Error{Kind: ErrBusy.Kind, Message: ErrBusy.Message, RetryAfter: ErrBusy.RetryAfter, Err: errors.Join(ErrBusy, err)}
	}
	return err
}

// verify reports whether a password matches a hash. If hash is empty, verify takes the same time and
// returns false. known means that the client has a session or a known browser of the person.
func (s *Service) verify(ctx context.Context, password, hash string, known bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, hashTime)
	defer cancel()
	stored := hash
	if hash == "" {
		stored = s.dummyHash
	}
	ok, err := account.VerifyPassword(ctx, password, stored, known)
	return ok && hash != "", busyError(err)
}

// fold returns the folded form of an address, or "" if the text is not an address.
func fold(email string) string {
	e, err := account.ParseEmail(email)
	if err != nil {
		return ""
	}
	return e.Folded
}

// SignIn starts a session for a valid address and password. For an unknown address and for a wrong
// password it returns the same error, after the same time.
func (s *Service) SignIn(ctx context.Context, email, password string, from Origin) (_ *Entry, err error) {
	defer func() { s.Metrics.signIn(err) }()
	folded := fold(email)
	known, err := s.isKnownDevice(ctx, folded, from.Device)
	if err != nil {
		return nil, err
	}
	if !known && account.Busy() {
		// The try is not counted, because the password is not checked.
		return nil, busyError(account.ErrBusy)
	}
	resetTries, err := s.try(ctx, tryPassword, folded, from)
	if err != nil {
		return nil, err
	}
	var id int64
	var hash sql.NullString
	err = s.DB.QueryRowContext(ctx, `SELECT id, password_hash FROM users WHERE email_folded = $1`, folded).Scan(&id, &hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading an account: %w", err)
	}
	ok, err := s.verify(ctx, password, hash.String, known)
	if err != nil {
		return nil, err
	}
	if !ok {
		s.recordFailure(ctx, id, string(ByPassword))
		return nil, ErrWrong
	}
	var e *Entry
	if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
		// The sign-in must fail if the password was changed during the hashing.
		same, err := account.LockPasswordTx(ctx, tx, id, hash.String)
		if err != nil {
			return fmt.Errorf("reading an account: %w", err)
		}
		if !same {
			return ErrWrong
		}
		p, err := s.Person(ctx, tx, id)
		if err != nil {
			return err
		}
		e, err = s.afterFirstFactorTx(ctx, tx, p, ByPassword, from)
		return err
	}); err != nil {
		return nil, err
	}
	resetTries(ctx)
	return e, nil
}

// SignInByLink starts a session with a sign-in link. The link also verifies the address.
func (s *Service) SignInByLink(ctx context.Context, secret string, from Origin) (_ *Entry, err error) {
	defer func() { s.Metrics.signIn(err) }()
	var e *Entry
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		p, err := s.redeemLinkTx(ctx, tx, ToSignIn, secret)
		if err != nil {
			return err
		}
		if err := s.verifyAddressTx(ctx, tx, p.ID); err != nil {
			return err
		}
		if p, err = s.Person(ctx, tx, p.ID); err != nil {
			return err
		}
		e, err = s.afterFirstFactorTx(ctx, tx, p, ByLink, from)
		return err
	})
	return e, err
}

// Confirm checks the password of a signed-in person again, and records the time in the session.
func (s *Service) Confirm(ctx context.Context, session *Session, password string, from Origin) error {
	resetTries, err := s.try(ctx, tryConfirm, session.Person.EmailFolded, from)
	if err != nil {
		return err
	}
	hash, err := s.passwordOf(ctx, session.Person.ID)
	if err != nil {
		return err
	}
	ok, err := s.verify(ctx, password, hash, true)
	if err != nil {
		return err
	}
	if !ok {
		return ErrWrong
	}
	if err := s.DB.Tx(ctx, func(tx *db.Tx) error { return s.confirmTx(ctx, tx, session.ID) }); err != nil {
		return err
	}
	resetTries(ctx)
	return nil
}

// passwordOf returns the hash of a person's password, or "" if there is none.
func (s *Service) passwordOf(ctx context.Context, id int64) (string, error) {
	var hash sql.NullString
	if err := s.DB.QueryRowContext(ctx, `SELECT password_hash FROM users WHERE id = $1`, id).Scan(&hash); err != nil {
		return "", fmt.Errorf("reading a password hash: %w", err)
	}
	return hash.String, nil
}
