package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxLabel = 100
	// maxShares is the maximum number of open links to one certificate.
	maxShares = 100
	// maxShareLife is the maximum lifetime of a link that expires.
	maxShareLife = 10 * 366 * 24 * time.Hour
)

// ErrManyShares means that a certificate has too many open links.
var ErrManyShares = fault.New(fault.BadRequest, fmt.Sprintf("A certificate can have at most %d open links. Revoke one first.", maxShares))

// Share is a link that a certificate's holder creates to show the certificate to others.
type Share struct {
	UUID string
	// Label is the holder's note on the purpose of the link; it may be empty.
	Label string
	// Public links may be indexed by search engines.
	Public    bool
	CreatedAt time.Time
	// ExpiresAt is nil for a link that does not expire. RevokedAt is nil for a link that was not
	// revoked.
	ExpiresAt, RevokedAt *time.Time
	// Open reports whether the link shows the certificate now.
	Open bool
}

// NewShare has the data of a link to create.
type NewShare struct {
	Label  string
	Public bool
	// Expires is the last day of the link as YYYY-MM-DD, or "" if the link does not expire.
	Expires string
}

// CreateShare creates a link to a certificate of the holder. It returns the secret, of which only
// the hash is stored. The error is fault.Invalid, fault.BadRequest or fault.TooMany, or
// fault.NotFound if the address of the certificate was corrected after the caller read c: the
// person may no longer be the holder of the certificate.
func (s *Service) CreateShare(ctx context.Context, h Holder, c *cert.Certificate, n NewShare) (secret string, share *Share, err error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	share = &Share{UUID: uuid.Must(uuid.NewV7()).String(), Label: strings.Join(strings.Fields(n.Label), " "), Public: n.Public, CreatedAt: now, Open: true}
	var bad fault.Fields
	if len([]rune(share.Label)) > maxLabel || !account.CleanText(share.Label) {
		bad.Add("label", fmt.Sprintf("The name must be text of at most %d characters.", maxLabel))
	}
	var expires sql.NullInt64
	if n.Expires != "" {
		day, err := time.Parse(time.DateOnly, n.Expires)
		end := day.AddDate(0, 0, 1)
		if err != nil || !end.After(now) || end.After(now.Add(maxShareLife)) {
			bad.Add("expires", "The last day must be a date from today on, within ten years.")
		}
		share.ExpiresAt, expires = &end, sql.NullInt64{Int64: db.Micros(end), Valid: true}
	}
	if err := bad.Err(); err != nil {
		return "", nil, err
	}
	secret = account.NewSecret()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.allowTx(ctx, tx, h.key(), sharing); err != nil {
			return err
		}
		// The lock makes a concurrent correction of the address wait. The correction then revokes this
		// link too.
		status, email, err := s.certs.LockTx(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if email != c.Email {
			return errNoLink
		}
		var n int
		if err := tx.QueryRowContext(ctx, `
			SELECT count(*) FROM shares WHERE certificate_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`,
			c.ID, db.Micros(now)).Scan(&n); err != nil {
			return fmt.Errorf("creating a link: %w", err)
		}
		switch {
		case status != cert.Approved:
			return fault.New(fault.BadRequest, "Only an approved certificate can be shared.")
		case n >= maxShares:
			return ErrManyShares
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO shares (uuid, certificate_id, hash, label, listed, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			share.UUID, c.ID, account.HashSecret(secret), share.Label, share.Public, db.Micros(now), expires); err != nil {
			return fmt.Errorf("creating a link: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return secret, share, nil
}

const shareColumns = `uuid, label, listed, created_at, expires_at, revoked_at`

func (s *Service) scanShare(row interface{ Scan(dest ...any) error }, before ...any) (*Share, error) {
	var x Share
	var created int64
	var expires, revoked sql.NullInt64
	if err := row.Scan(append(before, &x.UUID, &x.Label, &x.Public, &created, &expires, &revoked)...); err != nil {
		return nil, err
	}
	x.CreatedAt, x.ExpiresAt, x.RevokedAt = db.Time(created), db.OptionalTime(expires), db.OptionalTime(revoked)
	x.Open = x.RevokedAt == nil && (x.ExpiresAt == nil || s.now().Before(*x.ExpiresAt))
	return &x, nil
}

// Shares returns the links to a certificate: the open links first, then the revoked and expired links,
// each from the newest to the oldest. It returns at most twice maxShares links. The caller must have
// checked that the user is the holder.
func (s *Service) Shares(ctx context.Context, c *cert.Certificate) ([]*Share, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+shareColumns+` FROM shares WHERE certificate_id = $1
		ORDER BY CASE WHEN revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) THEN 0 ELSE 1 END, id DESC LIMIT $3`,
		c.ID, db.Micros(s.now()), 2*maxShares)
	if err != nil {
		return nil, fmt.Errorf("reading links: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Share, error) { return s.scanShare(rows) })
	if err != nil {
		return nil, fmt.Errorf("reading links: %w", err)
	}
	return list, nil
}

// RevokeShare revokes a link to a certificate. The caller must have checked that the user is the holder.
// A second call is not an error. The error is fault.NotFound if the certificate has no such link.
func (s *Service) RevokeShare(ctx context.Context, c *cert.Certificate, id string) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE shares SET revoked_at = coalesce(revoked_at, $1) WHERE certificate_id = $2 AND uuid = $3`,
			db.Micros(s.now()), c.ID, id)
		if err != nil {
			return fmt.Errorf("revoking a link: %w", err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errNoLink)
		}
		return nil
	})
}

// revokeSharesTx revokes all links that the holder of a certificate created.
func (s *Service) revokeSharesTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE shares SET revoked_at = $1 WHERE certificate_id = $2 AND revoked_at IS NULL`,
		db.Micros(s.now()), certificateID); err != nil {
		return fmt.Errorf("revoking links: %w", err)
	}
	return nil
}

// Shared returns the link with a secret and the certificate that the link shows. If the link is
// unknown, revoked or expired, the error is fault.NotFound.
func (s *Service) Shared(ctx context.Context, secret string) (*Share, *cert.Certificate, error) {
	var certificate int64
	share, err := s.scanShare(s.db.QueryRowContext(ctx, `SELECT certificate_id, `+shareColumns+` FROM shares WHERE hash = $1`, account.HashSecret(secret)), &certificate)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, errNoLink
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a link: %w", err)
	}
	if !share.Open {
		return nil, nil, errNoLink
	}
	list, err := s.certs.ByIDs(ctx, []int64{certificate})
	if err != nil {
		return nil, nil, err
	}
	if len(list) != 1 {
		return nil, nil, errNoLink
	}
	return share, list[0], nil
}
