package token

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MaxOverlap is the longest time for which the old token of a rotation keeps
// working.
const MaxOverlap = 30 * 24 * time.Hour

// ValidAt reports whether the token is valid at a time.
func (t *Token) ValidAt(now time.Time) bool {
	return t.RevokedAt == nil && (t.ExpiresAt == nil || t.ExpiresAt.After(now))
}

// Rotate creates a token that replaces another one. It has the same name and
// permissions and the same lifetime, counted from now. The old token keeps
// working for the overlap, so that programs can change over, but never longer
// than it would have; without an overlap it ends at once. Rotate returns both
// tokens as they are after the change.
func (s *Service) Rotate(ctx context.Context, institutionID, id int64, overlap time.Duration) (made *Token, secret string, old *Token, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return nil, "", nil, fault.OfField("overlap", fmt.Sprintf("The old token can work on for %d days at most.", MaxOverlap/(24*time.Hour)))
	}
	now := s.now().UTC()
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if old, err = getTx(ctx, tx, institutionID, id); err != nil {
			return err
		}
		if !old.ValidAt(now) {
			return fault.New(fault.BadRequest, "This token does not work any more: make a new one instead.")
		}
		made = &Token{InstitutionID: institutionID, Name: old.Name, Permissions: old.Permissions, CreatedAt: now}
		if old.ExpiresAt != nil {
			end := now.Add(old.ExpiresAt.Sub(old.CreatedAt))
			made.ExpiresAt = &end
		}
		end := now.Add(overlap)
		if old.ExpiresAt == nil || end.Before(*old.ExpiresAt) {
			old.ExpiresAt = &end
		}
		if overlap == 0 {
			old.RevokedAt = &now
		}
		if _, err := tx.ExecContext(ctx, `UPDATE tokens SET expires_at = $2, revoked_at = $3 WHERE id = $1`,
			old.ID, db.Micros(*old.ExpiresAt), micros(old.RevokedAt)); err != nil {
			return err
		}
		if secret, err = insertTx(ctx, tx, made); err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.TokenRotated, made, audit.Detail{"old": old.ID, "old_ends_at": old.ExpiresAt, "expires_at": made.ExpiresAt})
	})
	if err != nil {
		return nil, "", nil, fmt.Errorf("rotating a token: %w", err)
	}
	return made, secret, old, nil
}

// micros returns a time as it is stored, or nil for no time.
func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	m := db.Micros(*t)
	return &m
}
