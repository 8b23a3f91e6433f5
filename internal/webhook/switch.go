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
)

// Reason is the reason why an endpoint was switched off.
type Reason string

const (
	// ReasonGone means that the receiver responded with status 410.
	ReasonGone Reason = "gone"
	// ReasonFailing means that no delivery succeeded for five days.
	ReasonFailing Reason = "failing"
)

// Pause stops sending to an endpoint until Resume. Running attempts are completed, and a node that
// serves the endpoint may begin attempts for a few more seconds.
func (s *Service) Pause(ctx context.Context, institutionID int64, uuid string) error {
	return s.setStatus(ctx, audit.WebhookPaused, institutionID, uuid, `
		UPDATE webhook_endpoints SET status = 'paused', stopped_at = $3, stop_reason = NULL
		WHERE institution_id = $1 AND uuid = $2 AND status = 'active' RETURNING url`, "This endpoint is already paused.", db.Micros(s.now()))
}

// Resume makes a paused or switched-off endpoint active again and resets its health. Waiting deliveries
// are sent as soon as they are due.
func (s *Service) Resume(ctx context.Context, institutionID int64, uuid string) error {
	return s.setStatus(ctx, audit.WebhookResumed, institutionID, uuid, `
		UPDATE webhook_endpoints SET status = 'active', stopped_at = NULL, stop_reason = NULL, failures = 0, openings = 0, held_until = 0,
			failing_since = NULL, failed_at = NULL, warned = 0
		WHERE institution_id = $1 AND uuid = $2 AND status NOT IN ('active', 'deleted') RETURNING url`, "This endpoint is already active.")
}

// setStatus executes the statement update, which changes one endpoint. If the endpoint exists but
// update changes no row, setStatus returns a fault with the message refusal.
func (s *Service) setStatus(ctx context.Context, action audit.Action, institutionID int64, uuid, update, refusal string, args ...any) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var rawURL string
		err := tx.QueryRowContext(ctx, update, append([]any{institutionID, uuid}, args...)...).Scan(&rawURL)
		if errors.Is(err, sql.ErrNoRows) {
			if _, err := endpointTx(ctx, tx, institutionID, uuid); err != nil {
				return err
			}
			return fault.New(fault.BadRequest, refusal)
		}
		if err != nil {
			return err
		}
		s.wakeTx(tx)
		return s.recordTx(ctx, tx, action, institutionID, uuid, rawURL, nil)
	})
	if err != nil {
		return fmt.Errorf("changing the status of the endpoint: %w", err)
	}
	return nil
}

// switchOffTx switches an endpoint off and sends a notice.
func (d *Deliverer) switchOffTx(ctx context.Context, tx *db.Tx, id int64, reason Reason, now time.Time) error {
	n := Notice{Kind: NoticeSwitchedOff, Reason: reason}
	var since sql.NullInt64
	err := tx.QueryRowContext(ctx, `
		UPDATE webhook_endpoints SET status = 'switched_off', stopped_at = $2, stop_reason = $3 WHERE id = $1 AND status = 'active'
		RETURNING institution_id, uuid, url, failing_since`, id, db.Micros(now), string(reason)).Scan(&n.InstitutionID, &n.Endpoint, &n.URL, &since)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // no longer active
	}
	if err != nil {
		return fmt.Errorf("switching the endpoint off: %w", err)
	}
	n.Since = db.Time(since.Int64)
	if err := recordTx(ctx, tx, now, audit.WebhookSwitchedOff, n.InstitutionID, n.Endpoint, n.URL, audit.Detail{"reason": reason}); err != nil {
		return err
	}
	return d.notifyTx(ctx, tx, n)
}

// recoveredTx sends a notice that deliveries to an endpoint succeed again, if there was a notice that
// the endpoint fails.
func (d *Deliverer) recoveredTx(ctx context.Context, tx *db.Tx, id int64, now time.Time) error {
	n := Notice{Kind: NoticeRecovered, Since: now}
	err := tx.QueryRowContext(ctx, `UPDATE webhook_endpoints SET warned = 0 WHERE id = $1 AND warned > 0 RETURNING institution_id, uuid, url`, id).
		Scan(&n.InstitutionID, &n.Endpoint, &n.URL)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clearing the warning of the endpoint: %w", err)
	}
	return d.notifyTx(ctx, tx, n)
}

func (d *Deliverer) notifyTx(ctx context.Context, tx *db.Tx, n Notice) error {
	if d.notify == nil {
		return nil
	}
	return d.notify(ctx, tx, n)
}
