package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// SweepInterval is the interval at which Sweep should run.
	SweepInterval = time.Minute
	// The owners of an institution get a notice when no delivery to an endpoint has succeeded for
	// warnAfter, and again after warnAgainAfter. After offAfter the endpoint is switched off.
	warnAfter      = time.Hour
	warnAgainAfter = 3 * 24 * time.Hour
	offAfter       = 5 * 24 * time.Hour
	// stoppedRetention is the maximum time for which deliveries wait for a stopped endpoint.
	stoppedRetention = 14 * 24 * time.Hour
	// logRetention is the time for which a finished delivery stays in the log.
	logRetention = 30 * 24 * time.Hour
	// sweepBatch is the maximum number of deliveries that one transaction changes or removes.
	sweepBatch = 1000
)

// Sweep sends the notices about failing endpoints, switches off endpoints that have failed for days,
// and exhausts deliveries that waited too long for a stopped endpoint. It also removes deleted
// endpoints, old log entries and the old secrets of rotations. Several nodes may call Sweep
// concurrently.
func (d *Deliverer) Sweep(ctx context.Context) error {
	now := d.hooks.now()
	for _, step := range []func(context.Context, time.Time) error{d.warn, d.switchOff, d.expire, d.removeDeleted, d.removeOldLog, d.hooks.removeOldSecrets} {
		if err := step(ctx, now); err != nil {
			return fmt.Errorf("sweeping webhooks: %w", err)
		}
	}
	return nil
}

// warn sends the notices about failing endpoints, one for each stage.
func (d *Deliverer) warn(ctx context.Context, now time.Time) error {
	return d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
		// If an endpoint began to fail less than warnAfter ago, its notices were about an earlier series
		// of failures.
		if _, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET warned = 0 WHERE warned > 0 AND failing_since > $1`,
			db.Micros(now.Add(-warnAfter))); err != nil {
			return err
		}
		for _, stage := range []struct {
			number int
			after  time.Duration
			kind   NoticeKind
		}{{2, warnAgainAfter, NoticeStillFailing}, {1, warnAfter, NoticeFailing}} {
			rows, err := tx.QueryContext(ctx, `
				UPDATE webhook_endpoints SET warned = $1 WHERE status = 'active' AND warned < $1 AND failing_since <= $2 AND failed_at > $3
				RETURNING institution_id, uuid, url, failing_since`,
				stage.number, db.Micros(now.Add(-stage.after)), db.Micros(now.Add(-streakGap)))
			if err != nil {
				return err
			}
			list, err := scanNotices(rows, stage.kind)
			if err != nil {
				return err
			}
			for _, n := range list {
				if err := d.notifyTx(ctx, tx, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func scanNotices(rows *sql.Rows, kind NoticeKind) (list []Notice, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		n := Notice{Kind: kind}
		var since int64
		if err := rows.Scan(&n.InstitutionID, &n.Endpoint, &n.URL, &since); err != nil {
			return nil, err
		}
		n.Since = db.Time(since)
		list = append(list, n)
	}
	return list, rows.Err()
}

func (d *Deliverer) switchOff(ctx context.Context, now time.Time) error {
	ids, err := db.Column[int64](d.hooks.db.QueryContext(ctx, `SELECT id FROM webhook_endpoints WHERE status = 'active' AND failing_since <= $1 AND failed_at > $2 ORDER BY id`,
		db.Micros(now.Add(-offAfter)), db.Micros(now.Add(-streakGap))))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := d.hooks.db.Tx(ctx, func(tx *db.Tx) error { return d.switchOffTx(ctx, tx, id, ReasonFailing, now) }); err != nil {
			return err
		}
	}
	return nil
}

// expire exhausts deliveries that waited too long for a stopped endpoint, oldest first and in batches.
func (d *Deliverer) expire(ctx context.Context, now time.Time) error {
	before := db.Micros(now.Add(-stoppedRetention))
	stopped, err := db.Column[int64](d.hooks.db.QueryContext(ctx,
		`SELECT id FROM webhook_endpoints WHERE status NOT IN ('active', 'deleted') AND stopped_at < $1 ORDER BY id`, before))
	if err != nil {
		return err
	}
	for _, id := range stopped {
		for n := int64(sweepBatch); n == sweepBatch; {
			err := d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
				res, err := tx.ExecContext(ctx, `
					UPDATE webhook_deliveries SET status = 'exhausted', finished_at = $3 WHERE id IN (
						SELECT id FROM (
							SELECT id, created_at FROM webhook_deliveries WHERE endpoint_id = $1 AND status = 'pending' ORDER BY id LIMIT $4
						) AS oldest WHERE created_at < $2)`, id, before, db.Micros(now), sweepBatch)
				if err != nil {
					return err
				}
				n, err = res.RowsAffected()
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// removeOldLog removes deliveries that finished long ago, with their attempts. It also removes old
// events without a certificate and without deliveries, such as those of tests. The events of a
// certificate stay, because they are the certificate's history.
func (d *Deliverer) removeOldLog(ctx context.Context, now time.Time) error {
	before := db.Micros(now.Add(-logRetention))
	for {
		ids, err := db.Column[int64](d.hooks.db.QueryContext(ctx, `SELECT id FROM webhook_deliveries WHERE finished_at < $1 ORDER BY finished_at LIMIT $2`, before, sweepBatch))
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			args := []any{before}
			for _, id := range ids {
				args = append(args, id)
			}
			// After the SELECT, a member may have queued a delivery again.
			old := `SELECT id FROM webhook_deliveries WHERE finished_at < $1 AND id IN (` + db.Placeholders(2, len(ids)) + `)`
			if err := d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
				for _, statement := range []string{`DELETE FROM webhook_attempts WHERE delivery_id IN (` + old + `)`, `DELETE FROM webhook_deliveries WHERE id IN (` + old + `)`} {
					if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
		}
		if len(ids) < sweepBatch {
			break
		}
	}
	return d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			DELETE FROM webhook_events WHERE certificate_id IS NULL AND occurred_at < $1
				AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.id)`, before)
		return err
	})
}
