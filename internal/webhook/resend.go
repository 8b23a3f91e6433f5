package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// replayBatch is the maximum number of deliveries that one transaction of a replay changes. Other
// writers can write between two transactions.
const replayBatch = 1000

var errStopped = fault.New(fault.BadRequest, "This endpoint is paused. Resume it first.")

// Test queues an example of an event for an active endpoint and returns the id of the delivery. The
// delivery has a single attempt and is sent before other pending deliveries. Test also ends a backoff
// of the endpoint.
func (s *Service) Test(ctx context.Context, institutionID int64, endpoint string, name Name) (delivery int64, err error) {
	if !slices.Contains(Names, name) {
		return 0, fault.OfField("event", fmt.Sprintf("There is no event %q. The events are: %s.", string(name), joinNames(Names)))
	}
	now := s.now()
	p := example(name, endpoint, uuid.Must(uuid.NewV7()).String(), now)
	body, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("writing the test: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		// held_until = 0 ends the backoff, so that the test is sent even if the breaker is open.
		id, rawURL, err := s.activeTx(ctx, tx, `UPDATE webhook_endpoints SET held_until = 0 WHERE institution_id = $1 AND uuid = $2 AND status = 'active' RETURNING id, url`,
			institutionID, endpoint)
		if err != nil {
			return err
		}
		var event int64
		if err := tx.QueryRowContext(ctx, `
			INSERT INTO webhook_events (uuid, institution_id, name, payload, occurred_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
			p.EventID, institutionID, string(name), string(body), db.Micros(now)).Scan(&event); err != nil {
			return err
		}
		if err := s.recordTx(ctx, tx, audit.WebhookTested, institutionID, endpoint, rawURL, audit.Detail{"event": name}); err != nil {
			return err
		}
		s.wakeTx(tx)
		column, first := db.NewID(tx, "webhook_deliveries")
		return tx.QueryRowContext(ctx, `
			INSERT INTO webhook_deliveries (`+column+`event_id, endpoint_id, body, status, due_at, created_at) VALUES (`+first+`$1, $2, $3, 'pending', 0, $4) RETURNING id`,
			event, id, string(body), db.Micros(now)).Scan(&delivery)
	})
	if err != nil {
		return 0, fmt.Errorf("testing the endpoint: %w", err)
	}
	return delivery, nil
}

// activeTx executes a query that returns the id and the URL of an active endpoint. If the query returns
// no row but the endpoint exists, activeTx returns errStopped.
func (s *Service) activeTx(ctx context.Context, tx *db.Tx, query string, institutionID int64, endpoint string) (id int64, rawURL string, err error) {
	err = tx.QueryRowContext(ctx, query, institutionID, endpoint).Scan(&id, &rawURL)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, rawURL, err
	}
	if _, err := endpointTx(ctx, tx, institutionID, endpoint); err != nil {
		return 0, "", err
	}
	return 0, "", errStopped
}

// Redeliver queues a delivery again, regardless of its status, if its endpoint is active. The
// delivery is due at once and is sent before other pending deliveries of the endpoint.
func (s *Service) Redeliver(ctx context.Context, institutionID, delivery int64) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var endpoint string
		err := tx.QueryRowContext(ctx, `
			SELECT p.uuid FROM webhook_deliveries d JOIN webhook_endpoints p ON p.id = d.endpoint_id WHERE d.id = $1 AND p.institution_id = $2`,
			delivery, institutionID).Scan(&endpoint)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoDelivery
		}
		if err != nil {
			return err
		}
		_, rawURL, err := s.activeTx(ctx, tx, `SELECT id, url FROM webhook_endpoints WHERE institution_id = $1 AND uuid = $2 AND status = 'active'`, institutionID, endpoint)
		if err != nil {
			return err
		}
		if err := s.recordTx(ctx, tx, audit.WebhookRedelivered, institutionID, endpoint, rawURL, audit.Detail{"delivery": delivery}); err != nil {
			return err
		}
		s.wakeTx(tx)
		_, err = tx.ExecContext(ctx, `
			UPDATE webhook_deliveries SET status = 'pending', replay = false, tries = CASE WHEN status = 'pending' THEN tries ELSE 0 END,
				due_at = 0, finished_at = NULL
			WHERE id = $1`, delivery)
		return err
	})
	if err != nil {
		return fmt.Errorf("redelivering: %w", err)
	}
	return nil
}

// Replay queues all exhausted deliveries of an active endpoint that were created since a time,
// except tests. The deliveries are sent after live deliveries, and with half the number of concurrent
// attempts. Replay returns the number of queued deliveries, which has no limit. If the call is
// interrupted, the deliveries queued so far are sent, and a second call queues the rest.
func (s *Service) Replay(ctx context.Context, institutionID int64, endpoint string, since time.Time) (total int, err error) {
	e, err := s.Endpoint(ctx, institutionID, endpoint)
	if err != nil {
		return 0, err
	}
	if e.Status != Active {
		return 0, errStopped
	}
	// The replay does not include deliveries that are created after it began.
	began, after := s.now(), int64(0)
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		return s.recordTx(ctx, tx, audit.WebhookReplayed, institutionID, endpoint, e.URL, audit.Detail{"since": since.UTC()})
	}); err != nil {
		return 0, fmt.Errorf("replaying: %w", err)
	}
	for {
		n, last, err := s.replaySome(ctx, e.ID, after, since, began)
		if err != nil {
			return total, fmt.Errorf("replaying: %w", err)
		}
		if total += n; n < replayBatch {
			return total, nil
		}
		after = last
	}
}

// Replayable returns the number of deliveries of an endpoint that Replay would queue since the first
// delivery, up to 10,000.
func (s *Service) Replayable(ctx context.Context, institutionID int64, endpoint string) (n int, err error) {
	e, err := s.Endpoint(ctx, institutionID, endpoint)
	if err != nil {
		return 0, err
	}
	if err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM (
			SELECT 1 FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
			WHERE d.endpoint_id = $1 AND d.status = 'exhausted' AND NOT `+isTest+` LIMIT $2) AS counted`, e.ID, maxCount).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting deliveries: %w", err)
	}
	return n, nil
}

func (s *Service) replaySome(ctx context.Context, endpoint, after int64, since, began time.Time) (n int, last int64, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		ids, err := db.Column[int64](tx.QueryContext(ctx, `
			UPDATE webhook_deliveries SET status = 'pending', replay = true, tries = 0, due_at = $5, finished_at = NULL
			WHERE status = 'exhausted' AND id IN (
				SELECT d.id FROM webhook_deliveries d WHERE d.endpoint_id = $1 AND d.status = 'exhausted' AND d.id > $2
					AND d.created_at >= $3 AND d.created_at <= $4
					AND EXISTS (SELECT 1 FROM webhook_events e WHERE e.id = d.event_id AND NOT `+isTest+`)
				ORDER BY d.id LIMIT $6)
			RETURNING id`, endpoint, after, db.Micros(since), db.Micros(began), db.Micros(s.now()), replayBatch))
		if err != nil {
			return err
		}
		n, last = len(ids), 0
		for _, id := range ids {
			last = max(last, id)
		}
		s.wakeTx(tx)
		return nil
	})
	return n, last, err
}
