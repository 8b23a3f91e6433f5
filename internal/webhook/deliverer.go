package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// lanes is how many endpoints are served at once when nobody says.
	lanes = 64
	// pollTime is how often due deliveries are looked for when nobody tells of
	// one: retries, and what other processes have written.
	pollTime = 200 * time.Millisecond
	// gatherTime is the least time between two looks, restTime that after one
	// which found something: what is committed in between is found together, and
	// written down together. A single event is looked for at once.
	gatherTime = 5 * time.Millisecond
	restTime   = 20 * time.Millisecond
)

// DelivererConfig says how deliveries go out.
type DelivererConfig struct {
	// Transport makes connections; it must refuse addresses that may not be
	// reached, see package safehttp.
	Transport http.RoundTripper
	// Waits are those between attempts; none means Waits.
	Waits []time.Duration
	// Lanes bounds how many endpoints are served at once; 0 means 64.
	Lanes int
	// Poll is how often due deliveries are looked for; 0 means every 200 ms.
	Poll time.Duration
	// Notify tells an endpoint's owners of its health, in the transaction that
	// found it out; nil tells nobody.
	Notify  func(ctx context.Context, tx *db.Tx, n Notice) error
	Metrics *Metrics
	Log     *slog.Logger
}

// Deliverer sends what is due. Any number of them, in any number of processes,
// may work on one database: each leases an endpoint before it serves it. One
// endpoint that does not answer holds up nobody but itself.
type Deliverer struct {
	hooks     *Service
	transport http.RoundTripper
	waits     []time.Duration
	lanes     int
	poll      time.Duration
	notify    func(ctx context.Context, tx *db.Tx, n Notice) error
	metrics   *Metrics
	log       *slog.Logger

	// soft ends when no new attempt may begin, hard when those under way are cut.
	soft, hard           context.Context //nolint:containedctx // they are the deliverer's life, not a request's
	stopSoft, stopHard   context.CancelFunc
	dispatcher, servants sync.WaitGroup
	// freed is told when an endpoint was left.
	freed chan struct{}
	// busy counts endpoints being served, suspects those of them that failed last.
	busy, suspects atomic.Int64
	// crowded says that endpoints wait for a lane.
	crowded atomic.Bool
}

// NewDeliverer makes a deliverer; Start it.
func NewDeliverer(s *Service, c DelivererConfig) *Deliverer {
	d := &Deliverer{
		hooks: s, transport: c.Transport, waits: c.Waits, lanes: c.Lanes, poll: c.Poll, notify: c.Notify, metrics: c.Metrics, log: c.Log,
		freed: make(chan struct{}, 1),
	}
	if len(d.waits) == 0 {
		d.waits = Waits
	}
	if d.lanes == 0 {
		d.lanes = lanes
	}
	if d.poll == 0 {
		d.poll = pollTime
	}
	return d
}

// Start begins to deliver, until Stop.
func (d *Deliverer) Start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	d.hard, d.stopHard = context.WithCancel(ctx)
	d.soft, d.stopSoft = context.WithCancel(d.hard)
	d.dispatcher.Go(d.dispatch)
}

// Stop begins no new attempt and waits for those under way; when ctx ends they
// are cut, and made again by whoever delivers next.
func (d *Deliverer) Stop(ctx context.Context) {
	if d.stopSoft == nil {
		return
	}
	d.stopSoft()
	defer context.AfterFunc(ctx, d.stopHard)()
	d.dispatcher.Wait()
	d.servants.Wait()
	d.stopHard()
	if t, ok := d.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// dispatch looks for endpoints with something due, whenever there is reason to.
func (d *Deliverer) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.soft.Done():
			return
		case <-d.hooks.wake:
		case <-d.freed:
		case <-timer.C:
		}
		leased, err := d.scan(d.soft)
		if err != nil && d.soft.Err() == nil {
			d.log.ErrorContext(d.soft, "looking for due deliveries failed and will be tried again", slog.Any("error", err))
		}
		if leased > 0 {
			timer.Reset(restTime)
		} else {
			timer.Reset(gatherTime)
		}
		select {
		case <-d.soft.Done():
			return
		case <-timer.C:
		}
		timer.Reset(d.poll)
	}
}

// scan leases endpoints with something due and serves each in a lane of its own.
// Those that failed last have at most half of the lanes, and one of them when
// all are asked for: were many to hang, the others would not notice, and one that
// is back gets its turn.
func (d *Deliverer) scan(ctx context.Context) (leased int, err error) {
	free, suspects := d.lanes-int(d.busy.Load()), int(d.suspects.Load())
	if free <= 0 {
		d.crowded.Store(true)
		return 0, nil
	}
	doubtful, err := d.due(ctx, true, min(free, max(1, d.lanes/2)-suspects))
	if err != nil {
		return 0, err
	}
	take, err := d.due(ctx, false, free+1)
	if err != nil {
		return 0, err
	}
	d.crowded.Store(len(take) > free)
	if suspects == 0 && len(doubtful) > 0 && free > 1 {
		take = append(take[:min(len(take), free-1)], doubtful...)
	} else {
		take = append(take, doubtful...)
	}
	take = take[:min(len(take), free)]
	if len(take) == 0 {
		return 0, nil
	}
	leases, err := d.leaseAll(ctx, take)
	if err != nil {
		return 0, err
	}
	for _, l := range leases {
		d.busy.Add(1)
		if l.suspect {
			d.suspects.Add(1)
		}
		d.servants.Go(func() { d.serve(l) })
	}
	return len(leases), nil
}

// serve serves one endpoint and tells when it is left.
func (d *Deliverer) serve(l *lease) {
	defer func() {
		if l.suspect {
			d.suspects.Add(-1)
		}
		d.busy.Add(-1)
		select {
		case d.freed <- struct{}{}:
		default:
		}
	}()
	if err := d.run(l); err != nil {
		d.log.ErrorContext(d.hard, "serving an endpoint failed and will be tried again when its lease is over",
			slog.String("endpoint", l.uuid), slog.Any("error", err))
	}
}
