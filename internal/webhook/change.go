package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Change contains the new values of an endpoint; nil leaves a value unchanged.
type Change struct {
	// Name is the new name of the endpoint; "" removes the name.
	Name *string
	URL  *string
	// Events replaces the list of subscribed events; an empty list means every event.
	Events *[]Name
	// Headers replaces the list of headers added to deliveries.
	Headers *[]Header
}

func (c *Change) check() error {
	var bad fault.Fields
	if c.Name != nil {
		trimmed := strings.TrimSpace(*c.Name)
		c.Name = &trimmed
		checkName(&bad, trimmed)
	}
	if c.URL != nil {
		trimmed := strings.TrimSpace(*c.URL)
		c.URL = &trimmed
		checkURL(&bad, trimmed)
	}
	if c.Events != nil {
		checkEvents(&bad, *c.Events)
	}
	if c.Headers != nil {
		checkHeaders(&bad, *c.Headers)
	}
	return bad.Err()
}

// Update changes the name, the URL, the subscribed events and the headers of an endpoint. Pending
// deliveries are sent to the new URL. Update creates no deliveries for past events. A new URL resets
// the endpoint's health.
func (s *Service) Update(ctx context.Context, institutionID int64, uuid string, c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	var headers []byte
	var err error
	if c.Headers != nil {
		if headers, err = s.sealHeaders(uuid, *c.Headers); err != nil {
			return err
		}
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		e, err := endpointTx(ctx, tx, institutionID, uuid)
		if err != nil {
			return err
		}
		before := *e
		if c.Name != nil {
			e.Name = *c.Name
		}
		if c.Events != nil {
			e.Events = sortedNames(*c.Events)
		}
		list, err := storedNames(e.Events)
		if err != nil {
			return err
		}
		if c.URL != nil && *c.URL != e.URL {
			e.URL = *c.URL
			if _, err := tx.ExecContext(ctx, `
				UPDATE webhook_endpoints SET failures = 0, openings = 0, held_until = 0, failing_since = NULL, failed_at = NULL, warned = 0 WHERE id = $1`,
				e.ID); err != nil {
				return err
			}
		}
		if c.Headers != nil {
			if _, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET headers = $2 WHERE id = $1`, e.ID, headers); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET url = $2, events = $3, name = $4 WHERE id = $1`, e.ID, e.URL, list, e.Name); err != nil {
			return err
		}
		s.wakeTx(tx)
		detail := audit.Detail{
			"url": map[string]string{"from": origin(before.URL), "to": origin(e.URL)}, "address_changed": before.URL != e.URL,
			"events": append([]Name{}, e.Events...), "headers_changed": c.Headers != nil,
		}
		if before.Name != e.Name {
			detail["name"] = map[string]string{"from": before.Name, "to": e.Name}
		}
		return s.recordTx(ctx, tx, audit.WebhookChanged, institutionID, uuid, e.URL, detail)
	})
	if err != nil {
		return fmt.Errorf("changing the endpoint: %w", err)
	}
	return nil
}

// Delete deletes an endpoint. Its secrets and headers are removed at once, and no deliverer leases
// the endpoint again. The sweep removes all deliveries of the endpoint, their attempts, and the
// endpoint itself. The events stay, because they are the history of their certificates.
func (s *Service) Delete(ctx context.Context, institutionID int64, uuid string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		e, err := endpointTx(ctx, tx, institutionID, uuid)
		if err != nil {
			return err
		}
		// Because of the new lease number, a deliverer that is sending to the endpoint now cannot record
		// results.
		if _, err := tx.ExecContext(ctx, `
			UPDATE webhook_endpoints SET status = 'deleted', stopped_at = $2, stop_reason = NULL, secret = $3, previous_secret = NULL, previous_until = NULL,
				promoted = false, headers = NULL, lease = lease + 1, leased_until = 0
			WHERE id = $1`, e.ID, db.Micros(s.now()), []byte{}); err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.WebhookDeleted, institutionID, uuid, e.URL, nil)
	})
	if err != nil {
		return fmt.Errorf("deleting the endpoint: %w", err)
	}
	return nil
}

// removeDeleted removes deleted endpoints, after their deliveries and attempts. It removes the
// deliveries in batches, because an endpoint may have many.
func (d *Deliverer) removeDeleted(ctx context.Context, _ time.Time) error {
	dead, err := db.Column[int64](d.hooks.db.QueryContext(ctx, `SELECT id FROM webhook_endpoints WHERE status = 'deleted' ORDER BY id`))
	if err != nil {
		return err
	}
	for _, id := range dead {
		for more := true; more; {
			if err := d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
				more, err = removeDeletedTx(ctx, tx, id)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeDeletedTx(ctx context.Context, tx *db.Tx, id int64) (more bool, err error) {
	const some = `(SELECT id FROM webhook_deliveries WHERE endpoint_id = $1 ORDER BY status, id LIMIT $2)`
	var one int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM webhook_deliveries WHERE endpoint_id = $1 LIMIT 1`, id).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = tx.ExecContext(ctx, `DELETE FROM webhook_endpoints WHERE id = $1 AND status = 'deleted'`, id)
		return false, err
	}
	if err != nil {
		return false, err
	}
	for _, statement := range []string{`DELETE FROM webhook_attempts WHERE delivery_id IN ` + some, `DELETE FROM webhook_deliveries WHERE id IN ` + some} {
		if _, err := tx.ExecContext(ctx, statement, id, sweepBatch); err != nil {
			return false, err
		}
	}
	return true, nil
}
