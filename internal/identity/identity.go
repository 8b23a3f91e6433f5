// Package identity owns who somebody is: how a person proves an e-mail address,
// signs in, shows again that it is they, and what they hold for that: password,
// passkeys, one-time passwords, recovery codes, sessions. It is the same for
// those who receive certificates and those who issue them; what a person may do is
// decided elsewhere.
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

// Person is somebody who may sign in.
type Person struct {
	ID   int64
	UUID string
	Name string
	// Email is the address as it was given, EmailFolded the form in which two
	// addresses are one.
	Email, EmailFolded string
	// Language is the tag of the language they chose, empty where they did not.
	Language string
	// Proved is set when the address was proved to be theirs.
	Proved bool
	// Member is set of those who belong to an institution.
	Member bool
	// Operator is set of those who see the installation.
	Operator bool
	// HasPassword is set of those who can sign in by one.
	HasPassword bool
	CreatedAt   time.Time
}

// Origin is where a request comes from.
type Origin struct {
	Address   netip.Addr
	UserAgent string
	// Session and Device are the secrets that the browser holds; both may be empty.
	Session, Device string
}

// Entry is what signing in gives.
type Entry struct {
	Session Session
	// Secret is what the browser shows from now on to be known.
	Secret string
	// Device is what it shows to be known as one in which somebody signed in.
	Device string
}

// What a person may be told; surfaces say it in their language.
var (
	// ErrWrong is an address and a password that do not belong together.
	ErrWrong = fault.New(fault.Invalid, "The address or the password is not right.")
	// ErrCode is a one-time password, or a recovery code, that is not good.
	ErrCode = fault.New(fault.Invalid, "The code is not right.")
	// ErrPasskey is a passkey that is not good.
	ErrPasskey = fault.New(fault.Invalid, "The passkey could not be used.")
	// ErrLink is a mailed link that was used, has ended or never was.
	ErrLink = fault.New(fault.NotFound, "The link was used already, or is too old.")
	// ErrNoSession is a request of nobody.
	ErrNoSession = fault.New(fault.Forbidden, "You are not signed in.")
	// ErrTaken is an address that somebody else has.
	ErrTaken = fault.New(fault.Conflict, "There is an account with this address already.")
	// ErrNoPerson is a person that does not exist.
	ErrNoPerson = fault.New(fault.NotFound, "There is no such person.")
)

// Hook is called in the transaction in which something becomes of a person. When
// it fails nothing of it becomes true.
type Hook func(ctx context.Context, tx *db.Tx, person Person) error

// Config says what a service works with.
type Config struct {
	DB   *db.DB
	Ring *keyring.Ring
	// Queue, Mailer and Languages may be nil where nobody is written to: the
	// commands beside a server.
	Queue     *job.Queue
	Mailer    *mail.Mailer
	Languages *locale.Catalog
	// BaseURL is what links in mail begin with, and the origin of passkeys.
	BaseURL string
	// OnProved is called when an address becomes proved, OnDeleted before a person
	// is deleted. Both may be nil.
	OnProved, OnDeleted Hook
	// PasswordCost is the cost of hashing passwords; zero is account.DefaultCost.
	PasswordCost account.Cost
	Now          func() time.Time
	Log          *slog.Logger
}

// Service works on people.
type Service struct {
	Config

	host string
	// passkeys is nil where the origin's host is no name: browsers have none there.
	passkeys *webauthn.WebAuthn
	// nobody looks like a hash, and is of no password. It is checked where there
	// is no other, so that an unknown address takes as long as a known one.
	nobody string
	// beside is what goes on behind an answer.
	beside sync.WaitGroup
}

// New makes a service and, with a queue, registers its worker.
func New(c Config) (*Service, error) {
	c.PasswordCost = cmp.Or(c.PasswordCost, account.DefaultCost)
	s := &Service{Config: c, nobody: c.PasswordCost.NoPassword()}
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

// Host is the name under which people know this vault.
func (s *Service) Host() string { return s.host }

// newSecret gives 256 random bits as text.
func newSecret() string { return account.NewSecret() + account.NewSecret() }

const personColumns = `u.id, u.uuid, u.name, u.email, u.email_folded, u.language, u.confirmed_at IS NOT NULL,
	EXISTS (SELECT 1 FROM members m WHERE m.user_id = u.id), u.operator, u.password_hash IS NOT NULL, u.created_at`

func (p *Person) fields(created *int64) []any {
	return []any{&p.ID, &p.UUID, &p.Name, &p.Email, &p.EmailFolded, &p.Language, &p.Proved, &p.Member, &p.Operator, &p.HasPassword, created}
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

// Person gives the person of an id.
func (s *Service) Person(ctx context.Context, q db.Queryer, id int64) (Person, error) {
	return s.person(ctx, q, `u.id = $1`, id)
}

// ByEmail gives the person who has an address, in its folded form.
func (s *Service) ByEmail(ctx context.Context, q db.Queryer, folded string) (Person, error) {
	return s.person(ctx, q, `u.email_folded = $1`, folded)
}

// proveTx notes that an address is its person's, and tells who has waited for it.
func (s *Service) proveTx(ctx context.Context, tx *db.Tx, id int64) error {
	var proved int64
	err := tx.QueryRowContext(ctx, `UPDATE users SET confirmed_at = $2 WHERE id = $1 AND confirmed_at IS NULL RETURNING id`,
		id, db.Micros(s.Now())).Scan(&proved)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("noting that an address is proved: %w", err)
	}
	if s.OnProved == nil {
		return nil
	}
	p, err := s.Person(ctx, tx, id)
	if err != nil {
		return err
	}
	return s.OnProved(ctx, tx, p)
}
