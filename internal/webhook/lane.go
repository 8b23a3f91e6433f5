package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// quantum is the maximum number of deliveries that are read, sent and recorded together.
	quantum = 32
	// width is the maximum number of concurrent attempts at one endpoint.
	width = 4
	// replayShare divides quantum and width for replays, which halves the speed of replays.
	replayShare = 2
	// writeTime is the minimum time limit for recording a quantum, even if its lease expires earlier.
	writeTime = 5 * time.Second
)

// lane serves one leased endpoint.
type lane struct {
	*Deliverer

	lease *lease
	// mu guards the lease's health during attempts.
	mu sync.Mutex
}

// run serves an endpoint and then releases it. It sends live deliveries until fetch returns fewer
// than the limit, and then at most half a quantum of replays.
func (d *Deliverer) run(l *lease) error {
	n := &lane{Deliverer: d, lease: l}
	replay := !l.fresh
	for {
		limit := n.limit(replay)
		list, err := n.fetch(d.hard, replay, limit)
		if err != nil {
			return err
		}
		results := n.attempt(list, replay)
		full, next := len(list) == limit, !replay && l.replay
		leave := n.leave() || replay || !full && !next
		if err := n.record(results, leave); err != nil {
			return err
		}
		if leave {
			return nil
		}
		replay = !full
	}
}

func (n *lane) limit(replay bool) int {
	switch {
	case n.lease.health.halfOpen():
		return 1
	case replay:
		return quantum / replayShare
	default:
		return quantum
	}
}

// leave reports whether the lane must release the endpoint. The lane also releases an endpoint that it
// has served for beginTime, so that changes to the endpoint's row take effect.
func (n *lane) leave() bool {
	now := n.hooks.now()
	return n.soft.Err() != nil || n.crowded.Load() || n.lease.health.inBackoff(now) || now.Sub(n.lease.leasedAt) >= beginTime
}

// fetch reads the due live deliveries of the endpoint, or its due replays, in the order of their
// due time.
func (n *lane) fetch(ctx context.Context, replay bool, limit int) (list []delivery, err error) {
	rows, err := n.hooks.db.QueryContext(ctx, `
		SELECT d.id, d.body, d.attempts, d.tries, e.uuid, e.name, `+isTest+`
		FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
		WHERE d.endpoint_id = $1 AND d.status = 'pending' AND d.replay = $2 AND d.due_at <= $3
		ORDER BY d.due_at, d.id LIMIT $4 + 0`, n.lease.id, replay, db.Micros(n.hooks.now()), limit)
	if err != nil {
		return nil, fmt.Errorf("reading due deliveries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var dl delivery
		var name string
		if err := rows.Scan(&dl.id, &dl.body, &dl.attempts, &dl.tries, &dl.eventID, &name, &dl.test); err != nil {
			return nil, fmt.Errorf("reading due deliveries: %w", err)
		}
		dl.name = Name(name)
		list = append(list, dl)
	}
	return list, rows.Err()
}

// attempt sends deliveries concurrently, until begin reports that no more attempts may begin. Replays also
// end if a live delivery was committed. The results do not contain attempts that this process cancelled.
func (n *lane) attempt(list []delivery, replay bool) (results []*result) {
	workers := width
	if replay {
		workers /= replayShare
	}
	generation := n.hooks.generation.Load()
	work := make(chan *delivery)
	var wg sync.WaitGroup
	for range min(workers, len(list)) {
		wg.Go(func() {
			for dl := range work {
				probe, ok := n.begin()
				// Live deliveries that were committed in the meantime are sent before the next
				// replay.
				if !ok || replay && n.hooks.generation.Load() != generation {
					continue
				}
				if r := n.send(n.hard, n.lease, dl, probe); !r.cut {
					n.mu.Lock()
					now := n.hooks.now()
					n.lease.health.update(r, now)
					r.verdict = n.lease.health.verdictOf(r, now)
					results = append(results, r)
					n.mu.Unlock()
					n.metrics.attempt(r)
				}
			}
		})
	}
	for i := range list {
		work <- &list[i]
	}
	close(work)
	wg.Wait()
	return results
}

// begin reports whether one more attempt may begin, and whether the attempt is a probe, which
// decides whether the breaker closes. The results of concurrent attempts may change both values, so
// begin must be called before each attempt.
func (n *lane) begin() (probe, ok bool) {
	if n.soft.Err() != nil {
		return false, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.hooks.now()
	return n.lease.health.halfOpen(), now.Sub(n.lease.renewedAt) < beginTime && !n.lease.health.inBackoff(now)
}

// record stores the results of attempts, and releases the endpoint or renews its lease, in one
// transaction. If the transaction fails with errFenced, record logs a warning and returns nil.
func (n *lane) record(results []*result, leave bool) error {
	began := n.hooks.now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.hard), max(writeTime, n.lease.renewedAt.Add(leaseTime).Sub(began)))
	defer cancel()
	err := n.hooks.db.Tx(ctx, func(tx *db.Tx) error { return n.recordTx(ctx, tx, results, leave, began) })
	if errors.Is(err, errFenced) {
		// If the endpoint still exists, the next lane of the endpoint repeats these attempts.
		n.log.WarnContext(ctx, "attempts to deliver to an endpoint are not recorded, because its lease has ended", slog.String("endpoint", n.lease.uuid),
			slog.Int("attempts", len(results)))
		return nil
	}
	if err != nil {
		return fmt.Errorf("recording attempts: %w", err)
	}
	n.lease.renewedAt = began
	n.logHealth(ctx, results)
	return nil
}

// logHealth logs the changes of an endpoint's health, and resets recovered, opened and closed.
func (n *lane) logHealth(ctx context.Context, results []*result) {
	if len(results) == 0 {
		return
	}
	h := &n.lease.health
	log := n.log.With(slog.String("endpoint", n.lease.uuid))
	if h.gone {
		log.WarnContext(ctx, "an endpoint was switched off because it responded with status 410")
	}
	if h.opened {
		log.WarnContext(ctx, "deliveries to an endpoint failed repeatedly and wait", slog.Time("until", h.backoffUntil))
	}
	if h.closed {
		log.InfoContext(ctx, "an endpoint responds again")
	}
	h.recovered, h.opened, h.closed = false, false, false
}
