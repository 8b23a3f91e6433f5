// Package account manages institutions with their settings, members and invitations, and the users
// with their addresses and passwords. It does not handle certificates.
package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Institution is a tenant of the vault. It issues certificates, and every certificate belongs to
// exactly one institution.
type Institution struct {
	ID   int64
	UUID string
	// Slug is the name of the institution in URLs and on the command line.
	Slug string
	Name string
	// Prefix is the beginning of the reference ids of the institution's certificates.
	Prefix    string
	CreatedAt time.Time
	// DisabledAt is the time at which an operator disabled the institution, or nil. DisabledReason is
	// shown to members and to programs; it may be empty.
	DisabledAt     *time.Time
	DisabledReason string
	// Limits are set by operators.
	Limits Limits
	// OwnerExisted reports whether the owner's address already had an account when the institution
	// was created. The password of such an account has not changed.
	OwnerExisted bool
}

const (
	maxName       = 255
	minPrefix     = 2
	maxPrefix     = 10
	maxSlug       = 63
	slugTries     = 100
	setupLinkLife = time.Hour
)

// Service provides the operations on institutions, members and users.
type Service struct {
	db   *db.DB
	now  func() time.Time
	cost Cost
	// renamed is called in the transaction that changes the name of an institution, or is nil.
	renamed func(ctx context.Context, tx *db.Tx, r Renaming) error
}

// Option configures a service for New.
type Option func(*Service)

// WithCost sets the cost of hashing passwords. The default is DefaultCost.
func WithCost(c Cost) Option { return func(s *Service) { s.cost = c } }

// New returns a service; now is the clock.
func New(d *db.DB, now func() time.Time, options ...Option) *Service {
	s := &Service{db: d, now: now, cost: DefaultCost}
	for _, o := range options {
		o(s)
	}
	return s
}

// HashPassword returns the hash of a password as a PHC string.
func (s *Service) HashPassword(ctx context.Context, password string) (string, error) {
	return s.cost.Hash(ctx, password)
}

// NewInstitution is the data of an institution to create, with its first owner.
type NewInstitution struct {
	Name, Prefix                         string
	OwnerEmail, OwnerName, OwnerPassword string
	// AllowSameName is the consent of an operator to a name that looks the same as the name of
	// another institution.
	AllowSameName bool
}

// CreateInstitution creates an institution and its owner. If the owner's address is the main address of
// an account, that account becomes the owner. Its password does not change, and an account without a
// password does not get one. If fields are invalid, or the owner's address is a further address, the error
// is fault.Invalid and names the fields.
func (s *Service) CreateInstitution(ctx context.Context, n NewInstitution) (*Institution, error) {
	return s.createInstitution(ctx, n, steps{password: true})
}

// OpenInstitution creates an institution for an owner who is not present to choose a password. If
// the address has no account, OpenInstitution creates an account without a password, and the owner
// signs in with a sign-in link. The function passed as then runs at the end of the transaction.
func (s *Service) OpenInstitution(ctx context.Context, n NewInstitution, then func(ctx context.Context, tx *db.Tx, i *Institution) error) (*Institution, error) {
	return s.createInstitution(ctx, n, steps{then: func(ctx context.Context, tx *db.Tx, i *Institution, _ int64) error { return then(ctx, tx, i) }})
}

// steps has the optional parts of creating an institution: whether the account of the owner is created
// with a password, and the functions to call at the beginning and at the end of the transaction.
type steps struct {
	password bool
	first    func(ctx context.Context, tx *db.Tx) error
	then     func(ctx context.Context, tx *db.Tx, i *Institution, ownerID int64) error
}

func (s *Service) createInstitution(ctx context.Context, n NewInstitution, do steps) (*Institution, error) {
	n.Name, n.OwnerName = strings.TrimSpace(n.Name), strings.TrimSpace(n.OwnerName)
	n.Prefix = strings.ToUpper(strings.TrimSpace(n.Prefix))
	email, err := n.validate(do.password)
	if err != nil {
		return nil, err
	}
	hash := sql.NullString{Valid: do.password}
	if do.password {
		if hash.String, err = s.cost.Hash(ctx, n.OwnerPassword); err != nil {
			return nil, err
		}
	}
	inst := &Institution{UUID: uuid.Must(uuid.NewV7()).String(), Name: n.Name, Prefix: n.Prefix, CreatedAt: s.now().UTC()}
	base := slugOf(n.Name, n.Prefix)
	for i := range slugTries {
		inst.Slug = base
		if i > 0 {
			inst.Slug = fmt.Sprintf("%s-%d", base, i+1)
		}
		err := s.db.Tx(ctx, func(tx *db.Tx) error {
			if do.first != nil {
				if err := do.first(ctx, tx); err != nil {
					return err
				}
			}
			like, err := allowNameTx(ctx, tx, 0, n.Name, n.AllowSameName)
			if err != nil {
				return err
			}
			ownerID, err := s.insertTx(ctx, tx, inst, n.OwnerName, email, hash)
			if err != nil {
				return err
			}
			if err := recordNameTx(ctx, tx, inst.ID, inst.Name, like); err != nil || do.then == nil {
				return err
			}
			return do.then(ctx, tx, inst, ownerID)
		})
		switch {
		case err == nil:
			return inst, nil
		case db.UniqueOn(err, "institutions", "slug"), errors.Is(err, errSlugTaken):
			continue
		case db.UniqueOn(err, "institutions", "prefix"):
			return nil, fault.OfField("prefix", "The prefix "+n.Prefix+" belongs to another institution.")
		default:
			return nil, fmt.Errorf("creating the institution: %w", err)
		}
	}
	return nil, fault.OfField("name", "Too many institutions have this name. Choose another name.")
}

func (n *NewInstitution) validate(password bool) (Email, error) {
	var bad fault.Fields
	if problem := checkInstitutionName(n.Name); problem != "" {
		bad.Add("name", problem)
	}
	if !validName(n.OwnerName) {
		bad.Add("owner_name", fmt.Sprintf("The owner's name must have 1 to %d characters.", maxName))
	}
	if !validPrefix(n.Prefix) {
		bad.Add("prefix", fmt.Sprintf("The prefix must have %d to %d characters of A-Z and 0-9.", minPrefix, maxPrefix))
	}
	email, err := ParseEmail(n.OwnerEmail)
	if err != nil {
		bad.Add("owner_email", "The owner's address must look like name@example.org.")
	}
	if err := CheckPassword(n.OwnerPassword); password && err != nil {
		bad.Add("owner_password", fmt.Sprintf("The password must be text of %d to %d characters.", minPassword, maxPassword))
	}
	return email, bad.Err()
}

// SetName changes the name of an institution. It refuses a name that looks the same as the name of
// another institution. Pages and new mail show the new name. The texts of certificates do not change.
// New signatures show the old name until the next signing key is created, because the name is in the
// X.509 certificate of the key.
func (s *Service) SetName(ctx context.Context, id int64, name string) error {
	return s.set(ctx, id, func(c *Changes) { c.Name = name })
}

func validName(s string) bool {
	n := len([]rune(s))
	return n >= 1 && n <= maxName && CleanText(s)
}

func validPrefix(s string) bool {
	if len(s) < minPrefix || len(s) > maxPrefix {
		return false
	}
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// slugOf returns a slug for a name: at most maxSlug characters of the name in lower case, without
// diacritics and apostrophes, with one hyphen for each sequence of characters other than ASCII letters and
// digits. If the name has no ASCII letters or digits, slugOf returns the prefix in lower case.
func slugOf(name, prefix string) string {
	var b strings.Builder
	for _, c := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case unicode.Is(unicode.Mn, c), c == '\'', c == '’':
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return strings.ToLower(prefix)
}

func (s *Service) insertTx(ctx context.Context, tx *db.Tx, inst *Institution, ownerName string, email Email, hash sql.NullString) (userID int64, err error) {
	now := db.Micros(inst.CreatedAt)
	column, id := db.NewID(tx, "institutions")
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO institutions (`+column+`uuid, slug, name, prefix, created_at) VALUES (`+id+`$1, $2, $3, $4, $5) RETURNING id`,
		inst.UUID, inst.Slug, inst.Name, inst.Prefix, now).Scan(&inst.ID); err != nil {
		return 0, err
	}
	if err := checkSlugTx(ctx, tx, inst.Slug); err != nil {
		return 0, err
	}
	// An existing account without a password does not get one: it belongs to a person who signs in with
	// sign-in links or passkeys, and the caller has not proved that they are this person.
	userID, created, err := insertMainTx(ctx, tx, "owner_email", NewUser{Email: email, Name: ownerName, Hash: hash}, inst.CreatedAt)
	if err != nil {
		return 0, err
	}
	inst.OwnerExisted = !created
	if _, err := tx.ExecContext(ctx,
		`INSERT INTO members (institution_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`,
		inst.ID, userID, string(Owner), now); err != nil {
		return 0, err
	}
	if err := audit.RecordTx(ctx, tx, audit.Entry{
		At: inst.CreatedAt, Action: audit.InstitutionCreated, Detail: audit.Detail{"prefix": inst.Prefix, "slug": inst.Slug},
		Subject: audit.Subject{Type: "institution", ID: inst.UUID, Name: inst.Name},
	}); err != nil {
		return 0, err
	}
	if err := s.recordMemberTx(ctx, tx, audit.MemberAdded, inst.ID, userID, audit.Detail{"role": Owner}); err != nil {
		return 0, err
	}
	// The first owner completes the set-up, so the set-up links are no longer needed.
	_, err = tx.ExecContext(ctx, `DELETE FROM setup_links`)
	return userID, err
}

// HasOwner reports whether any institution has a member. If so, the vault has been set up.
func (s *Service) HasOwner(ctx context.Context) (bool, error) {
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM members LIMIT 1) AS one`).Scan(&n); err != nil {
		return false, fmt.Errorf("checking whether there is an owner: %w", err)
	}
	return n > 0, nil
}
