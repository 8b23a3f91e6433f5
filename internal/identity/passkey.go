package identity

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxPasskeys    = 20
	maxPasskeyName = 100
)

// Passkey is a WebAuthn credential of a person.
type Passkey struct {
	ID        int64
	Name      string
	CreatedAt time.Time
	UsedAt    *time.Time
}

// holder implements webauthn.User. The user handle is the person's UUID, which contains no personal
// data.
type holder struct {
	Person

	credentials []webauthn.Credential
}

// WebAuthnID returns the user handle.
func (h *holder) WebAuthnID() []byte {
	id, err := uuid.Parse(h.UUID)
	if err != nil {
		return nil
	}
	return id[:]
}

// WebAuthnName returns the name that distinguishes a person's accounts.
func (h *holder) WebAuthnName() string { return h.Email }

// WebAuthnDisplayName returns the person's name.
func (h *holder) WebAuthnDisplayName() string { return h.Name }

// WebAuthnCredentials returns the person's passkeys.
func (h *holder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

// has reports whether the person has a passkey with this id.
func (h *holder) has(id []byte) bool {
	return slices.ContainsFunc(h.credentials, func(c webauthn.Credential) bool { return bytes.Equal(c.ID, id) })
}

// HasPasskeys reports whether people can use passkeys in this vault. Browsers require a host name for
// passkeys, not an IP address.
func (s *Service) HasPasskeys() bool { return s.passkeys != nil }

var errNoPasskeys = fault.New(fault.BadRequest, "Passkeys require a vault with a host name, not an IP address.")

// Ceremony is the input of a WebAuthn ceremony in the browser.
type Ceremony struct {
	// Options is the argument of navigator.credentials.get or navigator.credentials.create. Callers encode
	// it as JSON.
	Options any
	// Secret must be sent with the response; it is valid once.
	Secret string
}

// BeginPasskey begins a ceremony that accepts any passkey of this vault. The response identifies
// the person.
func (s *Service) BeginPasskey(ctx context.Context) (*Ceremony, error) {
	if s.passkeys == nil {
		return nil, errNoPasskeys
	}
	options, state, err := s.passkeys.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, fmt.Errorf("beginning a passkey sign-in: %w", err)
	}
	return s.begin(ctx, toUsePasskey, 0, options, state)
}

func (s *Service) begin(ctx context.Context, purpose Purpose, userID int64, options any, state *webauthn.SessionData) (*Ceremony, error) {
	data, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("encoding the state of a passkey ceremony: %w", err)
	}
	c := &Ceremony{Options: options}
	err = s.DB.Tx(ctx, func(tx *db.Tx) (err error) {
		c.Secret, err = s.newProofTx(ctx, tx, Proof{Purpose: purpose, userID: userID, Data: string(data)})
		return err
	})
	return c, err
}

// stateOf redeems the secret of a ceremony and returns the stored state.
func (s *Service) stateOf(ctx context.Context, purpose Purpose, secret string) (state webauthn.SessionData, userID int64, err error) {
	var p Proof
	if err := s.DB.Tx(ctx, func(tx *db.Tx) (err error) {
		p, err = s.redeemTx(ctx, tx, purpose, secret)
		return err
	}); err != nil {
		return state, 0, err
	}
	if err := json.Unmarshal([]byte(p.Data), &state); err != nil {
		return state, 0, fmt.Errorf("reading the state of a passkey ceremony: %w", err)
	}
	return state, p.userID, nil
}

// SignInByPasskey starts a session for a valid passkey. A passkey counts as two factors: the
// authenticator, and its verification of the user.
func (s *Service) SignInByPasskey(ctx context.Context, secret string, response []byte, from Origin) (_ *Entry, err error) {
	defer func() { s.Metrics.signIn(err) }()
	h, credential, err := s.checkPasskey(ctx, secret, response)
	if err != nil {
		if h != nil {
			s.recordFailure(ctx, h.ID, string(ByPasskey))
		}
		return nil, err
	}
	var e *Entry
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := s.recordUseTx(ctx, tx, h, credential); err != nil {
			return err
		}
		e, err = s.startSessionTx(ctx, tx, h.Person, ByPasskey, false, from)
		return err
	})
	if errors.Is(err, ErrPasskey) {
		s.recordFailure(ctx, h.ID, string(ByPasskey))
	}
	return e, err
}

// ConfirmByPasskey records that the person of a session used a passkey again. The error is
// ErrPasskey if another person has the passkey.
func (s *Service) ConfirmByPasskey(ctx context.Context, session *Session, secret string, response []byte) error {
	h, credential, err := s.checkPasskey(ctx, secret, response)
	if err != nil {
		return err
	}
	if h.ID != session.Person.ID {
		return ErrPasskey
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := s.recordUseTx(ctx, tx, h, credential); err != nil {
			return err
		}
		return s.confirmTx(ctx, tx, session.ID)
	})
}

// checkPasskey verifies an authenticator's response (WebAuthn, 7.2). If it refuses a response that
// contains the user handle of a person and the id of one of the person's passkeys, it also returns the
// person, so that the caller can record the failed sign-in. Passkey ids are not public, so other people
// cannot cause such records.
func (s *Service) checkPasskey(ctx context.Context, secret string, response []byte) (*holder, *webauthn.Credential, error) {
	if s.passkeys == nil {
		return nil, nil, errNoPasskeys
	}
	state, _, err := s.stateOf(ctx, toUsePasskey, secret)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return nil, nil, passkeyError(err)
	}
	var h *holder
	_, credential, err := s.passkeys.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
		id, err := uuid.FromBytes(handle)
		if err != nil {
			return nil, err
		}
		h, err = s.holder(ctx, `u.uuid = $1`, id.String())
		return h, err
	}, state, parsed)
	if err != nil {
		if h == nil || !h.has(parsed.RawID) {
			h = nil
		}
		return h, nil, passkeyError(err)
	}
	if credential.Authenticator.CloneWarning {
		return h, nil, passkeyError(errors.New("the signature count did not increase: the passkey may have been copied"))
	}
	return h, credential, nil
}

// passkeyError returns an error with the reason for the log. The message does not contain the reason,
// because the reason could help an attacker.
func passkeyError(err error) error {
	return &fault.Error{Kind: ErrPasskey.Kind, Message: ErrPasskey.Message, Err: errors.Join(ErrPasskey, err)}
}

func (s *Service) holder(ctx context.Context, where string, arg any) (_ *holder, err error) {
	p, err := s.person(ctx, s.DB, where, arg)
	if err != nil {
		return nil, err
	}
	h := &holder{Person: p}
	rows, err := s.DB.QueryContext(ctx, `SELECT credential FROM passkeys WHERE user_id = $1 ORDER BY id`, p.ID)
	if err != nil {
		return nil, fmt.Errorf("reading passkeys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		var c webauthn.Credential
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("reading passkeys: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return nil, fmt.Errorf("reading passkeys: %w", err)
		}
		h.credentials = append(h.credentials, c)
	}
	return h, rows.Err()
}

// recordUseTx records the use of a passkey. If an authenticator counts signatures, each count must
// be greater than the previous count (WebAuthn, 6.1.1): the second of two responses with the same
// count is refused.
func (s *Service) recordUseTx(ctx context.Context, tx *db.Tx, h *holder, c *webauthn.Credential) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("recording the use of a passkey: %w", err)
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE passkeys SET credential = $3, sign_count = $4, used_at = $5
		WHERE user_id = $1 AND credential_id = $2 AND (sign_count < $4 OR sign_count = 0 AND $4 = 0)`,
		h.ID, c.ID, string(text), int64(c.Authenticator.SignCount), db.Micros(s.Now()))
	if err != nil {
		return fmt.Errorf("recording the use of a passkey: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrPasskey, err)
	}
	return nil
}

// BeginNewPasskey begins the registration of a new passkey of a person.
func (s *Service) BeginNewPasskey(ctx context.Context, p Person) (*Ceremony, error) {
	if s.passkeys == nil {
		return nil, errNoPasskeys
	}
	h, err := s.holder(ctx, `u.id = $1`, p.ID)
	if err != nil {
		return nil, err
	}
	if len(h.credentials) >= maxPasskeys {
		return nil, fault.New(fault.BadRequest, "There are too many passkeys. Remove one first.")
	}
	options, state, err := s.passkeys.BeginRegistration(h, webauthn.WithExclusions(webauthn.Credentials(h.credentials).CredentialDescriptors()))
	if err != nil {
		return nil, fmt.Errorf("beginning a passkey registration: %w", err)
	}
	return s.begin(ctx, toAddPasskey, p.ID, options, state)
}

// AddPasskey stores a new passkey of a signed-in person (WebAuthn, 7.1).
func (s *Service) AddPasskey(ctx context.Context, session *Session, secret, name string, response []byte) error {
	p := session.Person
	name = strings.Join(strings.Fields(name), " ")
	if len([]rune(name)) > maxPasskeyName || !account.CleanText(name) {
		return fault.OfField("name", fmt.Sprintf("The name must be text in UTF-8 without NUL characters, of at most %d characters.", maxPasskeyName))
	}
	if s.passkeys == nil {
		return errNoPasskeys
	}
	state, userID, err := s.stateOf(ctx, toAddPasskey, secret)
	if err != nil {
		return err
	}
	if userID != p.ID {
		return ErrPasskey
	}
	h, err := s.holder(ctx, `u.id = $1`, p.ID)
	if err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return passkeyError(err)
	}
	c, err := s.passkeys.CreateCredential(h, state, parsed)
	if err != nil {
		return passkeyError(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("storing a passkey: %w", err)
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		var id int64
		err := tx.QueryRowContext(ctx, `
			INSERT INTO passkeys (user_id, credential_id, credential, sign_count, name, created_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (credential_id) DO NOTHING RETURNING id`,
			p.ID, c.ID, string(text), int64(c.Authenticator.SignCount), name, db.Micros(s.Now())).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrPasskey
		}
		if err != nil {
			return fmt.Errorf("storing a passkey: %w", err)
		}
		return s.notifyTx(ctx, tx, p, passkeyAdded)
	})
}

// Passkeys returns the passkeys of a person.
func (s *Service) Passkeys(ctx context.Context, personID int64) ([]Passkey, error) {
	return passkeys(ctx, s.DB, personID)
}

func passkeys(ctx context.Context, q db.Queryer, personID int64) (list []Passkey, err error) {
	rows, err := q.QueryContext(ctx, `SELECT id, name, created_at, used_at FROM passkeys WHERE user_id = $1 ORDER BY id`, personID)
	if err != nil {
		return nil, fmt.Errorf("listing passkeys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p Passkey
		var created int64
		var used sql.NullInt64
		if err := rows.Scan(&p.ID, &p.Name, &created, &used); err != nil {
			return nil, fmt.Errorf("listing passkeys: %w", err)
		}
		p.CreatedAt, p.UsedAt = db.Time(created), db.OptionalTime(used)
		list = append(list, p)
	}
	return list, rows.Err()
}

// RemovePasskey removes a passkey of a signed-in person. If the passkey does not exist,
// RemovePasskey returns nil.
func (s *Service) RemovePasskey(ctx context.Context, session *Session, id int64) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		if err := requireSessionTx(ctx, tx, session.ID); err != nil {
			return err
		}
		return s.removePasskeyTx(ctx, tx, session.Person, id)
	})
}

func (s *Service) removePasskeyTx(ctx context.Context, tx *db.Tx, p Person, id int64) error {
	res, err := tx.ExecContext(ctx, `DELETE FROM passkeys WHERE user_id = $1 AND id = $2`, p.ID, id)
	if err != nil {
		return fmt.Errorf("removing a passkey: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return s.notifyTx(ctx, tx, p, passkeyRemoved)
}
