// Package identity authenticates people. It verifies e-mail addresses, signs people in and confirms
// sign-ins. It manages the credentials: passwords, passkeys, one-time passwords, recovery codes and
// sessions. Recipients and issuers of certificates sign in the same way. Other packages decide
// which actions a person may perform.
package identity

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// Person is a person who can sign in.
type Person struct {
	ID   int64
	UUID string
	Name string
	// Email is the address as it was entered. EmailFolded is its folded form, which is unique.
	Email, EmailFolded string
	// Language is the tag of the chosen language, or "".
	Language string
	// Verified reports whether the person has verified the address.
	Verified bool
	// Member reports whether the person belongs to an institution.
	Member bool
	// Operator reports whether the person is an operator of the installation.
	Operator bool
	// HasPassword reports whether the person can sign in with a password.
	HasPassword bool
	CreatedAt   time.Time
}

// Origin is the data of a request that identifies the network and the browser of the client.
type Origin struct {
	Address   netip.Addr
	UserAgent string
	// Session is the secret of the session, and Device is the secret of the browser. Both may be "".
	Session, Device string
}

// address returns the address as text, or "" if it is unknown.
func (o *Origin) address() string {
	if !o.Address.IsValid() {
		return ""
	}
	return o.Address.String()
}

// Entry is the result of a sign-in.
type Entry struct {
	Session Session
	// Secret is the browser's new session secret.
	Secret string
	// Device is the secret that identifies the browser at the next sign-in, or "" if the session waits for the
	// second factor.
	Device string
}

// These are the errors that a person may see. Pages translate them into the person's language.
var (
	// ErrWrong means that the address and the password do not match.
	ErrWrong = fault.New(fault.Invalid, "The address or the password is not right.")
	// ErrCode means that a one-time password or a recovery code is not valid.
	ErrCode = fault.New(fault.Invalid, "The code is not right.")
	// ErrPasskey means that a passkey is not valid.
	ErrPasskey = fault.New(fault.Invalid, "The passkey could not be used.")
	// ErrLink means that a mailed link was already used, has expired, does not exist or is for another person.
	ErrLink = fault.New(fault.NotFound, "The link was already used, has expired or is for another person.")
	// ErrNoSession means that the request has no session, or that its session cannot be used.
	ErrNoSession = fault.New(fault.Forbidden, "You are not signed in.")
	// ErrTaken means that another account has the address.
	ErrTaken = fault.New(fault.Conflict, "An account with this address already exists.")
	// ErrNoPerson means that the person does not exist.
	ErrNoPerson = fault.New(fault.NotFound, "There is no such person.")
)

// Hook is called in the transaction that changes a person. If the hook fails, the transaction is
// rolled back.
type Hook func(ctx context.Context, tx *db.Tx, person Person) error

// Config configures a Service.
type Config struct {
	DB      *db.DB
	Keyring *keyring.Ring
	// Queue, Mailer and Languages may be nil if the service sends no mail.
	Queue     *job.Queue
	Mailer    *mail.Mailer
	Languages *locale.Catalog
	// BaseURL is the base of links in mail, and the origin of passkeys.
	BaseURL string
	// OnVerified is called after an address was verified. person.Email is then the verified address, which may
	// be a further address. OnDeleted is called before a person is deleted. Both may be nil.
	OnVerified, OnDeleted Hook
	// PasswordCost is the cost of hashing passwords; zero means account.DefaultCost.
	PasswordCost account.Cost
	// Metrics may be nil.
	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Service manages people and their credentials.
type Service struct {
	Config

	host string
	// passkeys is nil if BaseURL has no host or its host is an IP address, because browsers support
	// passkeys only for host names.
	passkeys *webauthn.WebAuthn
	// dummyHash has the form of a hash, but no password matches it. A sign-in to an unknown address
	// or an account without a password compares the password with dummyHash, so that the sign-in
	// takes as long as with a stored hash.
	dummyHash string
	// background counts the tasks that continue after the response.
	background sync.WaitGroup
}

// New returns a Service. If the configuration has a queue, New registers the worker that mails links.
func New(c Config) (*Service, error) {
	c.PasswordCost = cmp.Or(c.PasswordCost, account.DefaultCost)
	s := &Service{Config: c, dummyHash: c.PasswordCost.NoPassword()}
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("reading the base URL: %w", err)
	}
	s.host = u.Hostname()
	if _, err := netip.ParseAddr(s.host); err != nil && s.host != "" {
		s.passkeys, err = webauthn.New(&webauthn.Config{
			RPID: s.host, RPDisplayName: s.host, RPOrigins: []string{u.Scheme + "://" + u.Host},
			AuthenticatorSelection: protocol.AuthenticatorSelection{
				ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
			},
			AttestationPreference: protocol.PreferNoAttestation,
		})
		if err != nil {
			return nil, fmt.Errorf("preparing passkeys: %w", err)
		}
	}
	if c.Queue != nil {
		job.Add(c.Queue, &worker{service: s})
	}
	return s, nil
}

// Host returns the host name of this vault.
func (s *Service) Host() string { return s.host }

// newSecret returns 260 random bits as text.
func newSecret() string { return account.NewSecret() + account.NewSecret() }

const personColumns = `u.id, u.uuid, u.name, u.email, u.email_folded, u.language, u.confirmed_at IS NOT NULL,
	EXISTS (SELECT 1 FROM members m WHERE m.user_id = u.id), u.operator, u.password_hash IS NOT NULL, u.created_at`

func (p *Person) fields(created *int64) []any {
	return []any{&p.ID, &p.UUID, &p.Name, &p.Email, &p.EmailFolded, &p.Language, &p.Verified, &p.Member, &p.Operator, &p.HasPassword, created}
}

func (s *Service) person(ctx context.Context, q db.Queryer, where string, arg any) (Person, error) {
	var p Person
	var created int64
	err := q.QueryRowContext(ctx, `SELECT `+personColumns+` FROM users u WHERE `+where, arg).Scan(p.fields(&created)...)
	if errors.Is(err, sql.ErrNoRows) {
		return Person{}, ErrNoPerson
	}
	if err != nil {
		return Person{}, fmt.Errorf("reading a person: %w", err)
	}
	p.CreatedAt = db.Time(created)
	return p, nil
}

// Person returns the person with an id.
func (s *Service) Person(ctx context.Context, q db.Queryer, id int64) (Person, error) {
	return s.person(ctx, q, `u.id = $1`, id)
}

// ByEmail returns the person whose main address has the given folded form.
func (s *Service) ByEmail(ctx context.Context, q db.Queryer, folded string) (Person, error) {
	return s.person(ctx, q, `u.email_folded = $1`, folded)
}

// verifyAddressTx records that a person has verified the main address. It calls OnVerified if the address was
// not verified before.
func (s *Service) verifyAddressTx(ctx context.Context, tx *db.Tx, id int64) error {
	changed, err := account.VerifyUserTx(ctx, tx, id, s.Now())
	if err != nil || !changed || s.OnVerified == nil {
		return err
	}
	p, err := s.Person(ctx, tx, id)
	if err != nil {
		return err
	}
	return s.OnVerified(ctx, tx, p)
}
