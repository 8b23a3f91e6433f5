package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	// leaseTime is the duration of a lease. After beginTime and the maximum duration of the last
	// attempt, 7 seconds remain to record the results and for clock differences between nodes.
	leaseTime = beginTime + attemptTime + 7*time.Second
	// beginTime is the time after the start or renewal of a lease in which attempts begin.
	beginTime = 3 * time.Second
)

// errFenced means that a deliverer has lost its lease: another deliverer leased the endpoint, the
// endpoint was deleted, or the lease was freed, for example by FreeDeadLeases.
var errFenced = errors.New("another deliverer has leased the endpoint")

// dueEndpoint is an endpoint with due deliveries.
type dueEndpoint struct {
	id            int64
	unhealthy     bool
	fresh, replay bool
}

// lease is the time-limited right of this deliverer to serve an endpoint.
type lease struct {
	dueEndpoint

	uuid, url     string
	institutionID int64
	// number is the fencing token. Each new lease, the deletion of the endpoint and the functions that
	// free leases increase it. Results are recorded only if it is unchanged.
	number int64
	// leasedAt is the start of the lease, and renewedAt its start or last renewal.
	leasedAt, renewedAt time.Time
	keys                keys
	custom              []Header
	health              health
}

// due returns active endpoints that have due deliveries, have no current lease and are not in backoff.
// The endpoint that was served longest ago comes first. If unhealthy is true, due returns only
// endpoints with a failure count above 0, otherwise only endpoints with the failure count 0. The
// query reads at most two deliveries of each endpoint and never scans a backlog.
func (d *Deliverer) due(ctx context.Context, unhealthy bool, limit int) (list []dueEndpoint, err error) {
	if limit <= 0 {
		return nil, nil
	}
	// The limit is the expression $3 + 0, because SQLite plans a statement again for each execution if its
	// limit is only a parameter. The subqueries read the first live delivery and the first replay in the
	// order of the index. With EXISTS, PostgreSQL may scan the table instead.
	const first = `(SELECT d.due_at FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.status = 'pending' AND d.replay = `
	const rest = ` ORDER BY d.due_at, d.id LIMIT 1)`
	now := db.Micros(d.hooks.now())
	rows, err := d.hooks.db.QueryContext(ctx, `
		SELECT id, fresh, replay FROM (
			SELECT e.id, e.served_at, `+first+`false`+rest+` AS fresh, `+first+`true`+rest+` AS replay
			FROM webhook_endpoints e WHERE e.status = 'active' AND e.leased_until <= $1 AND e.held_until <= $1 AND (e.failures > 0) = $2
		) AS waiting WHERE fresh <= $1 OR replay <= $1 ORDER BY served_at, id LIMIT $3 + 0`, now, unhealthy, limit)
	if err != nil {
		return nil, fmt.Errorf("searching for due deliveries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		f := dueEndpoint{unhealthy: unhealthy}
		var fresh, replay sql.NullInt64
		if err := rows.Scan(&f.id, &fresh, &replay); err != nil {
			return nil, fmt.Errorf("searching for due deliveries: %w", err)
		}
		f.fresh, f.replay = fresh.Valid && fresh.Int64 <= now, replay.Valid && replay.Int64 <= now
		list = append(list, f)
	}
	return list, rows.Err()
}

// leaseAll leases endpoints in one transaction. It omits endpoints that were leased, stopped or put
// in backoff since the search, and endpoints whose keys cannot be read.
func (d *Deliverer) leaseAll(ctx context.Context, take []dueEndpoint) (list []*lease, err error) {
	now := d.hooks.now()
	// A fixed order prevents deadlocks between two deliverers.
	slices.SortFunc(take, func(a, b dueEndpoint) int { return cmp.Compare(a.id, b.id) })
	// TxRelaxed may lose the leases in a power failure. The endpoints can then be leased again at once.
	err = d.hooks.db.TxRelaxed(ctx, func(tx *db.Tx) error {
		list = list[:0]
		for _, f := range take {
			l, err := d.leaseTx(ctx, tx, f, now)
			switch {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			default:
				list = append(list, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("leasing endpoints: %w", err)
	}
	// An endpoint whose keys cannot be read must not delay other endpoints. After its lease
	// expires, it is leased again and the error is logged again.
	return slices.DeleteFunc(list, func(l *lease) bool { return len(l.keys.standard) == 0 }), nil
}

func (d *Deliverer) leaseTx(ctx context.Context, tx *db.Tx, f dueEndpoint, now time.Time) (*lease, error) {
	l := &lease{dueEndpoint: f, leasedAt: now, renewedAt: now, health: schedule(d.waits)}
	var sealed, previous, custom []byte
	var until, since, failed, delivered sql.NullInt64
	var inBackoff int64
	var r rotation
	err := tx.QueryRowContext(ctx, `
		UPDATE webhook_endpoints SET lease = lease + 1, leased_until = $2, served_at = $3, leased_by = $4
		WHERE id = $1 AND status = 'active' AND leased_until <= $3 AND held_until <= $3
		RETURNING uuid, institution_id, url, lease, secret, previous_secret, previous_until, promoted, headers,
			failures, openings, held_until, failing_since, failed_at, delivered_at`,
		f.id, db.Micros(now.Add(leaseTime)), db.Micros(now), d.node).
		Scan(&l.uuid, &l.institutionID, &l.url, &l.number, &sealed, &previous, &until, &r.promoted, &custom,
			&l.health.failures, &l.health.openings, &inBackoff, &since, &failed, &delivered)
	if err != nil {
		return nil, err
	}
	if inBackoff != 0 {
		l.health.backoffUntil = db.Time(inBackoff)
	}
	for _, t := range []struct {
		from sql.NullInt64
		to   *time.Time
	}{{since, &l.health.failingSince}, {failed, &l.health.failedAt}, {delivered, &l.health.deliveredAt}, {until, &r.until}} {
		if t.from.Valid {
			*t.to = db.Time(t.from.Int64)
		}
	}
	if err := d.hooks.decrypt(l, sealed, previous, custom, r, now); err != nil {
		d.log.ErrorContext(ctx, "decrypting the secrets of an endpoint failed", slog.String("endpoint", l.uuid), slog.Any("error", err))
	}
	return l, nil
}

// decrypt decrypts the secrets and headers of an endpoint, and sets the keys and headers of the
// lease.
func (s *Service) decrypt(l *lease, sealed, previous, custom []byte, r rotation, now time.Time) error {
	secret, err := s.ring.Open(keyring.WebhookSecret, sealed, []byte(l.uuid))
	if err != nil {
		return err
	}
	if len(previous) > 0 {
		old, err := s.ring.Open(keyring.WebhookSecret, previous, []byte(l.uuid))
		if err != nil {
			return err
		}
		r.secret = string(old)
	}
	if len(custom) > 0 {
		text, err := s.ring.Open(keyring.WebhookHeaders, custom, []byte(l.uuid))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &l.custom); err != nil {
			return fmt.Errorf("reading the endpoint's headers: %w", err)
		}
	}
	l.keys, err = keysAt(now, string(secret), r)
	return err
}

// FreeLeases ends all leases. Call it only if no other process can have a lease, for example when the
// only process starts.
func (s *Service) FreeLeases(ctx context.Context) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error { return FreeLeasesTx(ctx, tx) })
}

// FreeLeasesTx is FreeLeases in the caller's transaction.
func FreeLeasesTx(ctx context.Context, tx *db.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET lease = lease + 1, leased_until = 0, leased_by = '' WHERE leased_until <> 0`); err != nil {
		return fmt.Errorf("ending leases: %w", err)
	}
	return nil
}

// freeOwnLeases ends the leases that remain when this deliverer stops. A lease remains if its lane
// failed, or if the deliverer stopped while it committed the lease.
func (d *Deliverer) freeOwnLeases(ctx context.Context) error {
	if d.node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := d.hooks.db.TxRelaxed(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET lease = lease + 1, leased_until = 0, leased_by = '' WHERE leased_until <> 0 AND leased_by = $1`, d.node)
		return err
	})
	if err != nil {
		return fmt.Errorf("ending the leases of this deliverer: %w", err)
	}
	return nil
}

// FreeDeadLeases ends the leases of dead nodes, so that other nodes can lease the endpoints at once.
func (d *Deliverer) FreeDeadLeases(ctx context.Context) error {
	var freed int64
	err := d.hooks.db.Tx(ctx, func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `
			UPDATE webhook_endpoints SET lease = lease + 1, leased_until = 0, leased_by = ''
			WHERE leased_until <> 0 AND leased_by <> '' AND NOT `+job.NodeAlive(`leased_by`, `$1`), db.Micros(d.hooks.now().Add(-job.DeadAfter)))
		if err != nil {
			return err
		}
		freed, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return fmt.Errorf("ending the leases of dead nodes: %w", err)
	}
	if freed > 0 {
		d.hooks.wakeUp()
	}
	return nil
}
