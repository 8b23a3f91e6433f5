package token

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MaxOverlap is the maximum time for which the old token of a rotation continues to work.
const MaxOverlap = 30 * 24 * time.Hour

// ValidAt reports whether the token works at a time.
func (t *Token) ValidAt(now time.Time) bool {
	return t.RevokedAt == nil && (t.ExpiresAt == nil || t.ExpiresAt.After(now))
}

// Rotate creates a token that replaces another token. The new token has the name and the permissions
// of the old token. Its lifetime begins now and is as long as that of the old token before the first
// rotation of the old token. The old token continues to work for the overlap, so that programs can
// change to the new token, but not longer than without the rotation. If the overlap is 0, the old
// token is revoked. Rotate refuses a token that no longer works. It returns the new token, its secret
// and the changed old token.
func (s *Service) Rotate(ctx context.Context, institutionID, id int64, overlap time.Duration) (created *Token, secret string, old *Token, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return nil, "", nil, fault.OfField("overlap", fmt.Sprintf("The old token can continue to work for at most %d days.", MaxOverlap/(24*time.Hour)))
	}
	now := s.now().UTC()
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if old, err = getTx(ctx, tx, institutionID, id); err != nil {
			return err
		}
		if !old.ValidAt(now) {
			return fault.New(fault.BadRequest, "This token no longer works. Create a new token instead.")
		}
		created = &Token{InstitutionID: institutionID, Name: old.Name, Permissions: old.Permissions, CreatedAt: now}
		lifetime, err := lifetimeTx(ctx, tx, old)
		if err != nil {
			return err
		}
		if lifetime > 0 {
			end := now.Add(lifetime)
			created.ExpiresAt = &end
		}
		end := now.Add(overlap)
		if old.ExpiresAt == nil || end.Before(*old.ExpiresAt) {
			old.ExpiresAt = &end
		}
		if overlap == 0 {
			old.RevokedAt = &now
		}
		if _, err := tx.ExecContext(ctx, `UPDATE tokens SET expires_at = $2, revoked_at = $3, lifetime = $4 WHERE id = $1`,
			old.ID, db.Micros(*old.ExpiresAt), micros(old.RevokedAt), lifetime.Microseconds()); err != nil {
			return err
		}
		if secret, err = insertTx(ctx, tx, created); err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.TokenRotated, created, audit.Detail{"old": old.ID, "old_ends_at": old.ExpiresAt, "expires_at": created.ExpiresAt})
	})
	if err != nil {
		return nil, "", nil, fmt.Errorf("rotating a token: %w", err)
	}
	return created, secret, old, nil
}

// lifetimeTx returns the lifetime of a token before its first rotation, or 0 if it had no expiry then.
func lifetimeTx(ctx context.Context, tx *db.Tx, t *Token) (time.Duration, error) {
	var stored sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT lifetime FROM tokens WHERE id = $1`, t.ID).Scan(&stored); err != nil {
		return 0, err
	}
	switch {
	case stored.Valid:
		return time.Duration(stored.Int64) * time.Microsecond, nil
	case t.ExpiresAt == nil:
		return 0, nil
	default:
		return t.ExpiresAt.Sub(t.CreatedAt), nil
	}
}

// micros returns a time in microseconds, as it is stored, or nil if t is nil.
func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	m := db.Micros(*t)
	return &m
}
