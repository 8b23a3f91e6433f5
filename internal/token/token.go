// Package token creates, checks and revokes API tokens. A token belongs to an institution and has a set
// of permissions. Its secret is shown once, and only the hash and the first characters of the secret are
// stored. The API, not this package, decides what a permission allows.
package token

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	prefix       = "cvt_"
	secretLen    = 30
	checksumLen  = 6
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	hintLen      = len(prefix) + 6
	maxName      = 255
	touchEvery   = time.Minute
	maxLastTouch = 100_000
)

// Token is an API token without its secret.
type Token struct {
	ID            int64
	InstitutionID int64
	Name          string
	// Hint is the beginning of the secret, by which the owner recognizes the token.
	Hint        string
	Permissions []Permission
	// Creator is the name of the actor who created the token. It is empty for tokens that were created
	// before this field existed.
	Creator    string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
}

// Has reports whether the token has any of the permissions.
func (t *Token) Has(wanted ...Permission) bool {
	return slices.ContainsFunc(wanted, func(p Permission) bool { return slices.Contains(t.Permissions, p) })
}

// Service creates, checks and revokes tokens.
type Service struct {
	db  *db.DB
	now func() time.Time

	mu      sync.Mutex
	touched map[int64]time.Time
}

// New returns a service. now is its clock.
func New(d *db.DB, now func() time.Time) *Service {
	return &Service{db: d, now: now, touched: map[int64]time.Time{}}
}

// Create creates a token and returns it with its secret, which is not stored. If expires is nil,
// the token does not expire. The error is fault.Invalid if the input is not valid.
func (s *Service) Create(ctx context.Context, institutionID int64, name string, permissions []Permission, expires *time.Time) (*Token, string, error) {
	name = strings.TrimSpace(name)
	now := s.now().UTC()
	var bad fault.Fields
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName {
		bad.Add("name", fmt.Sprintf("The name must have 1 to %d characters.", maxName))
	} else if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		bad.Add("name", "The name must not contain control characters.")
	}
	if len(permissions) == 0 {
		bad.Add("permissions", "Choose at least one permission.")
	}
	for _, p := range permissions {
		if !p.Valid() {
			bad.Add("permissions", fmt.Sprintf("There is no permission %q. The permissions are: %s.", string(p), strings.ReplaceAll(join(All), " ", ", ")))
		}
	}
	if expires != nil && !expires.After(now) {
		bad.Add("expires", "The expiry must be in the future.")
	}
	if err := bad.Err(); err != nil {
		return nil, "", err
	}
	t := &Token{
		InstitutionID: institutionID, Name: name, Permissions: slices.Compact(slices.Sorted(slices.Values(permissions))), CreatedAt: now, ExpiresAt: expires,
	}
	var secret string
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if secret, err = insertTx(ctx, tx, t); err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.TokenCreated, t, audit.Detail{"permissions": t.Permissions, "expires_at": expires})
	})
	if err != nil {
		return nil, "", fmt.Errorf("creating the token: %w", err)
	}
	return t, secret, nil
}

// insertTx generates the secret of a token and inserts the token. The creator is the actor of the
// context.
func insertTx(ctx context.Context, tx *db.Tx, t *Token) (secret string, err error) {
	if secret, err = generate(); err != nil {
		return "", err
	}
	t.Hint, t.Creator = secret[:hintLen], audit.ActorOf(ctx).Name
	column, id := db.NewID(tx, "tokens")
	return secret, tx.QueryRowContext(ctx, `
		INSERT INTO tokens (`+column+`institution_id, name, hash, hint, permissions, creator, created_at, expires_at)
		VALUES (`+id+`$1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`,
		t.InstitutionID, t.Name, account.HashSecret(secret), t.Hint, join(t.Permissions), t.Creator, db.Micros(t.CreatedAt), micros(t.ExpiresAt)).Scan(&t.ID)
}

// generate returns a secret of 178 random bits with a checksum. With the checksum, a scanner of
// repositories can distinguish a real token from a similar string.
func generate() (string, error) {
	var b strings.Builder
	b.WriteString(prefix)
	for range secretLen {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("creating the token: %w", err)
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String() + checksum(b.String()[len(prefix):]), nil
}

// checksum returns the CRC-32 (IEEE) of the secret's random part in base 62, as
// six digits, the most significant first.
func checksum(random string) string {
	sum := crc32.ChecksumIEEE([]byte(random))
	var digits [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return string(digits[:])
}

// wellFormed reports whether a text has the form of a secret and a correct checksum. Other texts need no
// query of the database.
func wellFormed(secret string) bool {
	random, ok := strings.CutPrefix(secret, prefix)
	if !ok || len(random) != secretLen+checksumLen {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(checksum(random[:secretLen])), []byte(random[secretLen:])) == 1
}

const columns = `id, institution_id, name, hint, permissions, creator, created_at, expires_at, last_used_at, revoked_at`

// scan reads a token from a row. It scans the columns that follow those of the token into more.
func scan(row interface{ Scan(dest ...any) error }, more ...any) (*Token, error) {
	var t Token
	var permissions string
	var created int64
	var expires, used, revoked sql.NullInt64
	dest := append([]any{&t.ID, &t.InstitutionID, &t.Name, &t.Hint, &permissions, &t.Creator, &created, &expires, &used, &revoked}, more...)
	if err := row.Scan(dest...); err != nil {
		return nil, err
	}
	for p := range strings.FieldsSeq(permissions) {
		t.Permissions = append(t.Permissions, Permission(p))
	}
	t.CreatedAt = db.Time(created)
	t.ExpiresAt, t.LastUsedAt, t.RevokedAt = db.OptionalTime(expires), db.OptionalTime(used), db.OptionalTime(revoked)
	return &t, nil
}

// withInstitution is a query for a token and its institution. The caller appends the condition.
const withInstitution = `
	SELECT t.id, t.institution_id, t.name, t.hint, t.permissions, t.creator, t.created_at, t.expires_at, t.last_used_at, t.revoked_at, ` +
	account.InstitutionColumns + `
	FROM tokens t JOIN institutions i ON i.id = t.institution_id WHERE `

func scanWithInstitution(row *sql.Row) (*Token, *account.Institution, error) {
	var of account.InstitutionRow
	t, err := scan(row, of.Dest()...)
	if err != nil {
		return nil, nil, err
	}
	return t, of.Institution(), nil
}

// Authenticate returns the token that has the given secret, and the institution of the token. The error is
// fault.Unauthorized if the secret is malformed or the token is unknown, expired or revoked, and
// fault.Forbidden if the institution is disabled. With fault.Forbidden, Authenticate also returns the
// token and the institution. The query uses the hash of the secret, so that the response time reveals
// nothing about the secret.
func (s *Service) Authenticate(ctx context.Context, secret string) (*Token, *account.Institution, error) {
	if !wellFormed(secret) {
		return nil, nil, errUnauthorized
	}
	t, inst, err := scanWithInstitution(s.db.QueryRowContext(ctx, withInstitution+`t.hash = $1`, account.HashSecret(secret)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, errUnauthorized
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking up a token: %w", err)
	}
	if t.RevokedAt != nil || t.ExpiresAt != nil && !t.ExpiresAt.After(s.now()) {
		return nil, nil, errUnauthorized
	}
	err = inst.CheckEnabled()
	return t, inst, err
}

// CheckTx returns fault.Unauthorized if a token was revoked or has expired since it was
// authenticated, and fault.Forbidden if its institution was disabled. An operation calls CheckTx in its
// transaction, because the body of a request may take minutes to arrive.
func (s *Service) CheckTx(ctx context.Context, tx *db.Tx, t *Token) error {
	current, inst, err := scanWithInstitution(tx.QueryRowContext(ctx, withInstitution+`t.institution_id = $1 AND t.id = $2`, t.InstitutionID, t.ID))
	if errors.Is(err, sql.ErrNoRows) || err == nil && !current.ValidAt(s.now()) {
		return errUnauthorized
	}
	if err != nil {
		return fmt.Errorf("reading a token: %w", err)
	}
	return inst.CheckEnabled()
}

var errNoToken = fault.New(fault.NotFound, "This institution has no such token.")

var errUnauthorized = fault.New(fault.Unauthorized, "Unauthorized - Invalid API token")

// Touch records that a token was used, at most once a minute per process, because a durable write
// for each request would be too slow.
func (s *Service) Touch(ctx context.Context, t *Token) error {
	now := s.now()
	s.mu.Lock()
	if last, ok := s.touched[t.ID]; ok && now.Sub(last) < touchEvery {
		s.mu.Unlock()
		return nil
	}
	if len(s.touched) >= maxLastTouch {
		clear(s.touched)
	}
	s.touched[t.ID] = now
	s.mu.Unlock()
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE tokens SET last_used_at = $1 WHERE id = $2`, db.Micros(now), t.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording the use of a token: %w", err)
	}
	return nil
}

// List returns an institution's tokens, newest first.
func (s *Service) List(ctx context.Context, institutionID int64) (list []*Token, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM tokens WHERE institution_id = $1 ORDER BY id DESC`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = []*Token{}
	for rows.Next() {
		t, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("listing tokens: %w", err)
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// Get returns a token of an institution. The error is fault.NotFound if the institution has no such
// token.
func (s *Service) Get(ctx context.Context, institutionID, id int64) (*Token, error) {
	return getTx(ctx, s.db, institutionID, id)
}

func getTx(ctx context.Context, q db.Queryer, institutionID, id int64) (*Token, error) {
	t, err := scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM tokens WHERE institution_id = $1 AND id = $2`, institutionID, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoToken
	}
	if err != nil {
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	return t, nil
}

// Revoke revokes a token. A token that is already revoked is not changed. The error is
// fault.NotFound if the institution has no such token.
func (s *Service) Revoke(ctx context.Context, institutionID, id int64) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		t, err := scan(tx.QueryRowContext(ctx,
			`UPDATE tokens SET revoked_at = $1 WHERE id = $2 AND institution_id = $3 AND revoked_at IS NULL RETURNING `+columns,
			db.Micros(s.now()), id, institutionID))
		if err == nil {
			return s.recordTx(ctx, tx, audit.TokenRevoked, t, nil)
		}
		if errors.Is(err, sql.ErrNoRows) {
			err = tx.QueryRowContext(ctx, `SELECT id FROM tokens WHERE id = $1 AND institution_id = $2`, id, institutionID).Scan(&id)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return errNoToken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("revoking a token: %w", err)
	}
	return nil
}

func (s *Service) recordTx(ctx context.Context, tx *db.Tx, action audit.Action, t *Token, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: t.InstitutionID, At: s.now(), Action: action, Detail: detail,
		Subject: audit.Subject{Type: "token", ID: strconv.FormatInt(t.ID, 10), Name: t.Name},
	})
}
