package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

const (
	// DeliveryPending means that the delivery waits for an attempt.
	DeliveryPending DeliveryStatus = "pending"
	// DeliveryDelivered means that the receiver accepted the delivery.
	DeliveryDelivered DeliveryStatus = "delivered"
	// DeliveryExhausted means that the vault does not try again. A member can queue the delivery again.
	DeliveryExhausted DeliveryStatus = "exhausted"
)

// DeliveryStatuses lists all states of a delivery.
var DeliveryStatuses = []DeliveryStatus{DeliveryPending, DeliveryDelivered, DeliveryExhausted}

func (n *lane) recordTx(ctx context.Context, tx *db.Tx, results []*result, leave bool, now time.Time) error {
	h, until, holder := &n.lease.health, int64(0), ""
	if !leave {
		until, holder = db.Micros(now.Add(leaseTime)), n.node
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE webhook_endpoints SET leased_until = $3, failures = $4, openings = $5, held_until = $6, failing_since = $7, failed_at = $8, delivered_at = $9,
			leased_by = $10
		WHERE id = $1 AND lease = $2`,
		n.lease.id, n.lease.number, until, h.failures, h.openings, zeroed(h.backoffUntil), optional(h.failingSince), optional(h.failedAt), optional(h.deliveredAt), holder)
	if err != nil {
		return err
	}
	if err := checkLease(res); err != nil {
		return err
	}
	if len(results) == 0 {
		return nil
	}
	if err := n.deliveriesTx(ctx, tx, results, now); err != nil {
		return err
	}
	if err := attemptsTx(ctx, tx, n.lease, results); err != nil {
		return err
	}
	return n.healthTx(ctx, tx, now)
}

// checkLease returns errFenced if an update of the leased endpoint changed no row.
func checkLease(res sql.Result) error {
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("counting the changed endpoints: %w", err)
	}
	if n != 1 {
		return errFenced
	}
	return nil
}

// zeroed returns a time for a column in which 0 means none.
func zeroed(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

// optional returns a time for a column in which null means none.
func optional(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	m := db.Micros(t)
	return &m
}

// deliveriesTx stores the new states of deliveries. One statement updates all successful deliveries,
// which are the majority. No statement has a condition on the status, because PostgreSQL might then
// choose the index of pending deliveries and scan the backlog. The lease guarantees that no other
// deliverer changes these deliveries.
func (n *lane) deliveriesTx(ctx context.Context, tx *db.Tx, results []*result, now time.Time) error {
	args := []any{db.Micros(now)}
	for _, r := range results {
		d := r.delivery
		if r.verdict.status == DeliveryDelivered {
			args = append(args, d.id)
			continue
		}
		var finished *int64
		if r.verdict.status == DeliveryExhausted {
			finished = optional(now)
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE webhook_deliveries SET status = $2, attempts = attempts + 1, tries = $3, due_at = $4, finished_at = $5
			WHERE id = $1`, d.id, string(r.verdict.status), r.verdict.tries, zeroed(r.verdict.due), finished); err != nil {
			return err
		}
	}
	if len(args) == 1 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE webhook_deliveries SET status = 'delivered', attempts = attempts + 1, finished_at = $1
		WHERE id IN (`+db.Placeholders(2, len(args)-1)+`)`, args...)
	return err
}

const attemptColumns = 13

// attemptsTx writes the log of attempts.
func attemptsTx(ctx context.Context, tx *db.Tx, l *lease, results []*result) error {
	var rows strings.Builder
	args := make([]any, 0, attemptColumns*len(results))
	for i, r := range results {
		if i > 0 {
			rows.WriteString(", ")
		}
		fmt.Fprintf(&rows, "(%s)", db.Placeholders(len(args)+1, attemptColumns))
		sent, err := logged(r.requestHeader, l.custom)
		if err != nil {
			return err
		}
		var failure, header, response *string
		var code *int
		if r.err != "" {
			failure = &r.err
		}
		truncated := r.truncated
		if r.code != 0 {
			text, err := logged(r.responseHeader, nil)
			if err != nil {
				return err
			}
			body := r.responseBody
			if len(body) > maxLogged {
				body, truncated = body[:maxLogged], true
			}
			sanitizedBody := sanitized(body)
			code, header, response = &r.code, &text, &sanitizedBody
		}
		args = append(args, r.delivery.id, r.delivery.attempts+1, r.probe, db.Micros(r.began), r.took.Microseconds(), string(r.outcome), failure,
			l.url, sent, code, header, response, truncated)
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO webhook_attempts (delivery_id, number, probe, started_at, duration, outcome, error, url, request_headers, status_code,
			response_headers, response_body, truncated) VALUES `+rows.String(), args...)
	return err
}

// healthTx switches the endpoint off after a response with status 410, and calls recoveredTx if
// deliveries succeed again after failures.
func (n *lane) healthTx(ctx context.Context, tx *db.Tx, now time.Time) error {
	h := &n.lease.health
	if h.gone {
		return n.switchOffTx(ctx, tx, n.lease.id, ReasonGone, now)
	}
	if h.recovered && h.failingSince.IsZero() {
		return n.recoveredTx(ctx, tx, n.lease.id, now)
	}
	return nil
}
