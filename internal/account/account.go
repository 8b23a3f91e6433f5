// Package account owns institutions, the people who belong to them, and what
// identifies a person: the e-mail address and the password. It knows nothing
// of certificates; the two meet above both.
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

// Institution issues certificates and is the tenant: every record of the vault
// belongs to exactly one.
type Institution struct {
	ID   int64
	UUID string
	// Slug names it in URLs and on the command line.
	Slug string
	Name string
	// Prefix begins its certificates' reference ids.
	Prefix    string
	CreatedAt time.Time
}

const (
	maxName       = 255
	minPrefix     = 2
	maxPrefix     = 10
	maxSlug       = 63
	slugTries     = 100
	setupLinkLife = time.Hour
)

// Service works on accounts.
type Service struct {
	db   *db.DB
	now  func() time.Time
	cost Cost
}

// Option changes a service that New makes.
type Option func(*Service)

// WithCost sets the cost of hashing passwords, which is DefaultCost otherwise.
func WithCost(c Cost) Option { return func(s *Service) { s.cost = c } }

// New makes a service; now is the clock.
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

// NewInstitution is what an institution is made from, with its first owner.
type NewInstitution struct {
	Name, Prefix                         string
	OwnerEmail, OwnerName, OwnerPassword string
}

// CreateInstitution makes an institution and its owner. An owner whose address
// is known keeps the account and the password they have.
func (s *Service) CreateInstitution(ctx context.Context, n NewInstitution) (*Institution, error) {
	return s.createInstitution(ctx, n, steps{password: true})
}

// OpenInstitution makes an institution for an owner who is not there to choose a
// password: if their address is unknown, they get an account that they sign in to
// by a mailed link. then is done in its transaction.
func (s *Service) OpenInstitution(ctx context.Context, n NewInstitution, then func(ctx context.Context, tx *db.Tx, i *Institution) error) (*Institution, error) {
	return s.createInstitution(ctx, n, steps{then: func(ctx context.Context, tx *db.Tx, i *Institution, _ int64) error { return then(ctx, tx, i) }})
}

// steps are what belongs to the making of an institution: whether its owner has
// a password, and what is done in its transaction before it and after.
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
	var hash any
	if do.password {
		if hash, err = s.cost.Hash(ctx, n.OwnerPassword); err != nil {
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
			ownerID, err := s.insertTx(ctx, tx, inst, n.OwnerName, email, hash)
			if err != nil || do.then == nil {
				return err
			}
			return do.then(ctx, tx, inst, ownerID)
		})
		switch {
		case err == nil:
			return inst, nil
		case db.UniqueOn(err, "institutions", "slug"):
			continue
		case db.UniqueOn(err, "institutions", "prefix"):
			return nil, fault.OfField("prefix", "The prefix "+n.Prefix+" belongs to another institution.")
		default:
			return nil, fmt.Errorf("making the institution: %w", err)
		}
	}
	return nil, fault.OfField("name", "Too many institutions have this name.")
}

func (n *NewInstitution) validate(password bool) (Email, error) {
	var bad fault.Fields
	if !validName(n.Name) {
		bad.Add("name", fmt.Sprintf("The name must have 1 to %d characters.", maxName))
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

// SetName gives an institution another name, which pages and mail show from then
// on. Certificates keep the texts that they were made with, and signatures the
// name in the key's certificate until the next key.
func (s *Service) SetName(ctx context.Context, id int64, name string) error {
	name = strings.TrimSpace(name)
	if !validName(name) {
		return fault.OfField("name", fmt.Sprintf("The name must have 1 to %d characters.", maxName))
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var was string
		err := tx.QueryRowContext(ctx, `SELECT name FROM institutions WHERE id = $1`, id).Scan(&was)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInstitution
		}
		if err != nil || was == name {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE institutions SET name = $1 WHERE id = $2`, name, id); err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, At: s.now(), Action: audit.InstitutionChanged, Detail: audit.Detail{"name": map[string]string{"from": was, "to": name}},
		})
	}); err != nil {
		return fmt.Errorf("renaming an institution: %w", err)
	}
	return nil
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

// slugOf makes a URL name of a name: its ASCII letters and digits, marks taken
// off, else the prefix.
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

func (s *Service) insertTx(ctx context.Context, tx *db.Tx, inst *Institution, ownerName string, email Email, hash any) (userID int64, err error) {
	now := db.Micros(inst.CreatedAt)
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
		inst.UUID, inst.Slug, inst.Name, inst.Prefix, now).Scan(&inst.ID); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO users (uuid, email, email_folded, name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (email_folded) DO UPDATE SET password_hash = coalesce(users.password_hash, excluded.password_hash) RETURNING id`,
		uuid.Must(uuid.NewV7()).String(), email.Text, email.Folded, ownerName, hash, now).Scan(&userID); err != nil {
		return 0, err
	}
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
	// With an owner there is nothing left to set up.
	_, err = tx.ExecContext(ctx, `DELETE FROM setup_links`)
	return userID, err
}

const institutionColumns = `id, uuid, slug, name, prefix, created_at`

func scanInstitution(row interface{ Scan(dest ...any) error }) (*Institution, error) {
	var i Institution
	var created int64
	err := row.Scan(&i.ID, &i.UUID, &i.Slug, &i.Name, &i.Prefix, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, fmt.Errorf("reading an institution: %w", err)
	}
	i.CreatedAt = db.Time(created)
	return &i, nil
}

// Institution gives the institution of an id.
func (s *Service) Institution(ctx context.Context, id int64) (*Institution, error) {
	return scanInstitution(s.db.QueryRowContext(ctx, `SELECT `+institutionColumns+` FROM institutions WHERE id = $1`, id))
}

// InstitutionBySlug gives the institution of a slug.
func (s *Service) InstitutionBySlug(ctx context.Context, slug string) (*Institution, error) {
	return scanInstitution(s.db.QueryRowContext(ctx, `SELECT `+institutionColumns+` FROM institutions WHERE slug = $1`, slug))
}

// HasOwner tells whether anyone has set the vault up.
func (s *Service) HasOwner(ctx context.Context) (bool, error) {
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM members LIMIT 1) AS one`).Scan(&n); err != nil {
		return false, fmt.Errorf("looking for an owner: %w", err)
	}
	return n > 0, nil
}
