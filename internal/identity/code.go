package identity

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	// codeStep, codeDigits and codeSkew are the values of common authenticator programs (RFC 6238,
	// 4 and 5.2). A code of the previous or the next step is also accepted, because clocks differ.
	codeStep   = 30 * time.Second
	codeDigits = 6
	codeSkew   = 1
	// codeSecret is the size of the secret in bytes (RFC 4226, 4, R6).
	codeSecret = 20
	// recoveryCodes is the number of recovery codes. Each has recoveryLength letters and digits, which are 80
	// random bits, in groups of recoveryGroup.
	recoveryCodes  = 10
	recoveryLength = 16
	recoveryGroup  = 4
)

// hasAuthenticator reports whether the second factor of a person is on.
func hasAuthenticator(ctx context.Context, q db.Queryer, personID int64) (bool, error) {
	var n int
	if err := q.QueryRowContext(ctx, `SELECT count(*) FROM authenticators WHERE user_id = $1 AND confirmed_at IS NOT NULL`, personID).Scan(&n); err != nil {
		return false, fmt.Errorf("reading the second factor: %w", err)
	}
	return n > 0, nil
}

// SecondFactor is the state of a person's second factor.
type SecondFactor struct {
	// On reports whether sign-ins require the second factor.
	On bool
	// Left is the number of unused recovery codes.
	Left int
}

// Codes returns the state of a person's second factor.
func (s *Service) Codes(ctx context.Context, personID int64) (SecondFactor, error) {
	on, err := hasAuthenticator(ctx, s.DB, personID)
	if err != nil {
		return SecondFactor{}, err
	}
	c := SecondFactor{On: on}
	if err := s.DB.QueryRowContext(ctx, `SELECT count(*) FROM recovery_codes WHERE user_id = $1 AND used_at IS NULL`, personID).Scan(&c.Left); err != nil {
		return SecondFactor{}, fmt.Errorf("counting recovery codes: %w", err)
	}
	return c, nil
}

// Enrolment is the secret for an authenticator program.
type Enrolment struct {
	// Secret is the secret in base32, for people who type it. URI contains the secret, for a QR code.
	Secret, URI string
}

// sealContext returns the additional data that binds an encrypted secret to its person.
func sealContext(personID int64) []byte { return []byte("user " + strconv.FormatInt(personID, 10)) }

// BeginCodes creates a secret for one-time passwords. Sign-ins do not require a code until
// ConfirmCodes has accepted the first code. A repeated call keeps the secret, so a secret that was
// already scanned remains valid.
func (s *Service) BeginCodes(ctx context.Context, session *Session) error {
	p := session.Person
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		raw := make([]byte, codeSecret)
		if _, err := rand.Read(raw); err != nil {
			return fmt.Errorf("generating a secret: %w", err)
		}
		sealed, err := s.Keyring.Seal(keyring.CodeSecret, []byte(base32.StdEncoding.EncodeToString(raw)), sealContext(p.ID))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO authenticators (user_id, secret, last_step, created_at) VALUES ($1, $2, 0, $3) ON CONFLICT (user_id) DO NOTHING`,
			p.ID, sealed, db.Micros(s.Now())); err != nil {
			return fmt.Errorf("storing a secret: %w", err)
		}
		return nil
	})
}

// Enrolment returns the secret that BeginCodes created. The error is ErrNoEnrolment if BeginCodes was not
// called, or if the second factor is on, because a secret in use is never shown again.
func (s *Service) Enrolment(ctx context.Context, p Person) (Enrolment, error) {
	secret, confirmed, err := s.authenticator(ctx, s.DB, p.ID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && confirmed {
		return Enrolment{}, ErrNoEnrolment
	}
	if err != nil {
		return Enrolment{}, err
	}
	q := url.Values{"secret": {secret}, "issuer": {s.host}}
	u := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + s.host + ":" + p.Email, RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20")}
	return Enrolment{Secret: secret, URI: u.String()}, nil
}

// ErrNoEnrolment means that BeginCodes was not called for the person, or that the second factor is already
// on.
var ErrNoEnrolment = fault.New(fault.BadRequest, "No second factor is being set up.")

// authenticator returns a person's secret, and reports whether the second factor is on. The error is
// sql.ErrNoRows if there is no secret.
func (s *Service) authenticator(ctx context.Context, q db.Queryer, personID int64) (secret string, confirmed bool, err error) {
	var sealed []byte
	if err := q.QueryRowContext(ctx, `SELECT secret, confirmed_at IS NOT NULL FROM authenticators WHERE user_id = $1`, personID).
		Scan(&sealed, &confirmed); err != nil {
		return "", false, err
	}
	text, err := s.Keyring.Open(keyring.CodeSecret, sealed, sealContext(personID))
	return string(text), confirmed, err
}

// ConfirmCodes turns the second factor on if the code is correct. It returns the recovery codes, which are
// shown only once.
func (s *Service) ConfirmCodes(ctx context.Context, session *Session, code string, from Origin) (recovery []string, err error) {
	resetTries, err := s.try(ctx, tryCode, session.Person.EmailFolded, from)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		ok, err := s.codeTx(ctx, tx, session.Person.ID, code, false)
		if err != nil {
			return err
		}
		if !ok {
			return ErrCode
		}
		if _, err := tx.ExecContext(ctx, `UPDATE authenticators SET confirmed_at = $2 WHERE user_id = $1`, session.Person.ID, db.Micros(s.Now())); err != nil {
			return fmt.Errorf("turning the second factor on: %w", err)
		}
		if recovery, err = newRecoveryCodesTx(ctx, tx, session.Person.ID); err != nil {
			return err
		}
		return s.notifyTx(ctx, tx, session.Person, codesOn)
	})
	if err != nil {
		return nil, err
	}
	resetTries(ctx)
	return recovery, nil
}

// NewRecoveryCodes replaces the recovery codes of a signed-in person, and returns the new codes.
func (s *Service) NewRecoveryCodes(ctx context.Context, session *Session) (recovery []string, err error) {
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		recovery, err = newRecoveryCodesTx(ctx, tx, session.Person.ID)
		return err
	})
	return recovery, err
}

func newRecoveryCodesTx(ctx context.Context, tx *db.Tx, personID int64) (codes []string, err error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM recovery_codes WHERE user_id = $1`, personID); err != nil {
		return nil, fmt.Errorf("replacing recovery codes: %w", err)
	}
	for range recoveryCodes {
		code := rand.Text()[:recoveryLength]
		if _, err := tx.ExecContext(ctx, `INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)`, personID, account.HashSecret(code)); err != nil {
			return nil, fmt.Errorf("replacing recovery codes: %w", err)
		}
		var groups []string
		for i := 0; i < recoveryLength; i += recoveryGroup {
			groups = append(groups, code[i:i+recoveryGroup])
		}
		codes = append(codes, strings.Join(groups, "-"))
	}
	return codes, nil
}

// EndCodes turns the second factor of a signed-in person off.
func (s *Service) EndCodes(ctx context.Context, session *Session) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		if err := dropCodesTx(ctx, tx, session.Person.ID); err != nil {
			return err
		}
		return s.notifyTx(ctx, tx, session.Person, codesOff)
	})
}

func dropCodesTx(ctx context.Context, tx *db.Tx, personID int64) error {
	for _, statement := range []string{`DELETE FROM authenticators WHERE user_id = $1`, `DELETE FROM recovery_codes WHERE user_id = $1`} {
		if _, err := tx.ExecContext(ctx, statement, personID); err != nil {
			return fmt.Errorf("turning the second factor off: %w", err)
		}
	}
	return nil
}

// Code completes a sign-in whose session waits for the second factor. The code is a one-time password or a
// recovery code. Code replaces the session with a new session.
func (s *Service) Code(ctx context.Context, code string, from Origin) (_ *Entry, err error) {
	defer func() { s.Metrics.signIn(err) }()
	pending, err := s.Pending(ctx, from)
	if err != nil {
		return nil, err
	}
	resetTries, err := s.try(ctx, tryCode, pending.Person.EmailFolded, from)
	if err != nil {
		return nil, err
	}
	var e *Entry
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, pending.ID); err != nil {
			return err
		}
		ok, err := s.codeTx(ctx, tx, pending.Person.ID, code, true)
		if err != nil {
			return err
		}
		if !ok {
			return ErrCode
		}
		e, err = s.startSessionTx(ctx, tx, pending.Person, pending.Method, false, from)
		return err
	})
	if errors.Is(err, ErrCode) {
		s.recordFailure(ctx, pending.Person.ID, "code")
	}
	if err != nil {
		return nil, err
	}
	resetTries(ctx)
	return e, nil
}

// codeTx reports whether a code is valid, and marks a valid code as used. Recovery codes are
// accepted only if recovery is true.
func (s *Service) codeTx(ctx context.Context, tx *db.Tx, personID int64, code string, recovery bool) (bool, error) {
	code = strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\u00a0' {
			return -1
		}
		return r
	}, code))
	var res sql.Result
	var err error
	switch {
	case len(code) == codeDigits:
		step, err := s.stepTx(ctx, tx, personID, code)
		if err != nil || step == 0 {
			return false, err
		}
		// If two concurrent requests use the same code, only one of them updates the step.
		res, err = tx.ExecContext(ctx, `UPDATE authenticators SET last_step = $2 WHERE user_id = $1 AND last_step < $2`, personID, step)
		if err != nil {
			return false, fmt.Errorf("using a code: %w", err)
		}
	case recovery && len(code) == recoveryLength:
		res, err = tx.ExecContext(ctx, `UPDATE recovery_codes SET used_at = $3 WHERE user_id = $1 AND hash = $2 AND used_at IS NULL`,
			personID, account.HashSecret(code), db.Micros(s.Now()))
		if err != nil {
			return false, fmt.Errorf("using a code: %w", err)
		}
	default:
		return false, nil
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// stepTx returns the time step of a code, or 0 if the code is not valid.
func (s *Service) stepTx(ctx context.Context, tx *db.Tx, personID int64, code string) (int64, error) {
	secret, _, err := s.authenticator(ctx, tx, personID)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the secret of one-time passwords: %w", err)
	}
	now := s.Now().Unix() / int64(codeStep/time.Second)
	var found int64
	for step := now - codeSkew; step <= now+codeSkew; step++ {
		ok, err := hotp.ValidateCustom(code, uint64(step), secret, hotp.ValidateOpts{Digits: codeDigits, Algorithm: otp.AlgorithmSHA1})
		if err != nil {
			return 0, fmt.Errorf("checking a one-time password: %w", err)
		}
		if ok {
			found = step
		}
	}
	return found, nil
}
