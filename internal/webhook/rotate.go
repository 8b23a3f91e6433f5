package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

// Rotate replaces the signing secret of an endpoint, and returns the new secret and the end of the
// overlap. For 24 hours the header webhook-signature contains a signature with each of the two secrets.
// X-Webhook-Signature, which contains one signature, uses the old secret until Promote is called or
// the 24 hours end. Rotate refuses a second rotation in this time if the new secret is not promoted.
func (s *Service) Rotate(ctx context.Context, institutionID int64, uuid string) (secret string, until time.Time, err error) {
	if secret, err = newSecret(); err != nil {
		return "", time.Time{}, err
	}
	sealed, err := s.ring.Seal(keyring.WebhookSecret, []byte(secret), []byte(uuid))
	if err != nil {
		return "", time.Time{}, err
	}
	now := s.now()
	until = now.Add(overlap).UTC()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		e, err := endpointTx(ctx, tx, institutionID, uuid)
		if err != nil {
			return err
		}
		// Only two secrets are stored. A third secret would replace one that a receiver may still use.
		if e.OverlapUntil != nil && now.Before(*e.OverlapUntil) && !e.Promoted {
			return fault.New(fault.BadRequest, "The secret is being rotated until "+e.OverlapUntil.Format(time.RFC3339)+". Promote the new secret first.")
		}
		var id int64
		err = tx.QueryRowContext(ctx, `
			UPDATE webhook_endpoints SET previous_secret = secret, previous_until = $3, secret = $4, promoted = false
			WHERE id = $1 AND (previous_until IS NULL OR promoted = true OR previous_until <= $2) RETURNING id`,
			e.ID, db.Micros(now), db.Micros(until), sealed).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.BadRequest, "Another request has just rotated this secret.")
		}
		if err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.WebhookRotated, institutionID, uuid, e.URL, audit.Detail{"overlap_until": until})
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("rotating the secret: %w", err)
	}
	return secret, until, nil
}

// Promote makes the new secret of a rotation the key of X-Webhook-Signature too. The
// header webhook-signature contains a signature with the old secret until the end of the overlap.
func (s *Service) Promote(ctx context.Context, institutionID int64, uuid string) error {
	return s.setStatus(ctx, audit.WebhookPromoted, institutionID, uuid, `
		UPDATE webhook_endpoints SET promoted = true
		WHERE institution_id = $1 AND uuid = $2 AND promoted = false AND previous_until > $3 RETURNING url`,
		"No rotation is in progress.", db.Micros(s.now()))
}

// SecretTimes maps the UUIDs of an institution's endpoints to the times of their last rotations. An
// endpoint without a rotation is not in the map: its secret is as old as the endpoint.
func (s *Service) SecretTimes(ctx context.Context, institutionID int64) (map[string]time.Time, error) {
	return audit.New(s.db).LastTimes(ctx, institutionID, audit.WebhookRotated)
}

// removeOldSecrets removes the old secrets of rotations whose overlap has ended.
func (s *Service) removeOldSecrets(ctx context.Context, now time.Time) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE webhook_endpoints SET previous_secret = NULL, previous_until = NULL, promoted = false WHERE previous_until <= $1`, db.Micros(now))
		return err
	})
}
