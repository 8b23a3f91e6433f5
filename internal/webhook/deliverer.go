package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/trace"
)

const (
	// lanes is the default of DelivererConfig.Lanes.
	lanes = 64
	// pollTime is the default of DelivererConfig.Poll. Retries that become due, and deliveries that
	// other processes wrote, cause no wake-up, so they may wait for this time.
	pollTime = time.Second
	// gatherTime is the minimum time between two searches, and restTime the minimum time after a
	// search that leased endpoints. Deliveries that are committed in this time are read and recorded
	// together. A delivery that is committed after this time is found at once.
	gatherTime = 5 * time.Millisecond
	restTime   = 20 * time.Millisecond
)

// DelivererConfig configures a Deliverer.
type DelivererConfig struct {
	// Transport makes connections. It must refuse addresses that must not be reached; see package
	// safehttp.
	Transport http.RoundTripper
	// Waits are the waits between attempts; nil means RetryDelays.
	Waits []time.Duration
	// Lanes is the maximum number of endpoints that are served concurrently; 0 means 64.
	Lanes int
	// Poll is the interval between two searches for due deliveries; 0 means 1 s.
	Poll time.Duration
	// Notify informs the owners of an endpoint about the endpoint's health, in the transaction tx. If Notify
	// is nil, owners get no notices.
	Notify  func(ctx context.Context, tx *db.Tx, n Notice) error
	Metrics *Metrics
	// Tracer records traces. It may be nil.
	Tracer *trace.Tracer
	Log    *slog.Logger
	// Node is the name under which this process sends heartbeats.
	Node string
	// Off means that the deliverer sends nothing. Deliveries stay due.
	Off bool
}

// Deliverer sends due deliveries. Any number of deliverers, in any number of processes, may work on
// one database: a deliverer leases an endpoint before it serves the endpoint. An endpoint that does
// not respond does not delay other endpoints.
type Deliverer struct {
	hooks     *Service
	transport http.RoundTripper
	waits     []time.Duration
	lanes     int
	poll      time.Duration
	notify    func(ctx context.Context, tx *db.Tx, n Notice) error
	metrics   *Metrics
	tracer    *trace.Tracer
	log       *slog.Logger
	node      string
	off       bool

	// soft ends when no new attempt may begin. hard ends when running attempts are cancelled.
	soft, hard          context.Context //nolint:containedctx // the contexts belong to the deliverer, not to a request
	stopSoft, stopHard  context.CancelFunc
	dispatcher, workers sync.WaitGroup
	// freed receives a value when a lane becomes free.
	freed chan struct{}
	// busy counts the endpoints that are being served. unhealthy counts the endpoints among them that
	// had a failure count above 0 when they were leased.
	busy, unhealthy atomic.Int64
	// crowded is true if the last search found no free lane, or more endpoints without failures than
	// free lanes.
	crowded atomic.Bool
}

// NewDeliverer returns a Deliverer; call Start to run it.
func NewDeliverer(s *Service, c DelivererConfig) *Deliverer {
	d := &Deliverer{
		hooks: s, transport: c.Transport, waits: c.Waits, lanes: c.Lanes, poll: c.Poll, notify: c.Notify, metrics: c.Metrics, tracer: c.Tracer,
		log: c.Log, node: c.Node, off: c.Off, freed: make(chan struct{}, 1),
	}
	if len(d.waits) == 0 {
		d.waits = RetryDelays
	}
	if d.lanes == 0 {
		d.lanes = lanes
	}
	if d.poll == 0 {
		d.poll = pollTime
	}
	return d
}

// Start starts the deliverer, which runs until Stop is called. The end of ctx does not stop the
// deliverer. Start does nothing if the deliverer is off.
func (d *Deliverer) Start(ctx context.Context) {
	if d.off {
		return
	}
	ctx = context.WithoutCancel(ctx)
	d.hard, d.stopHard = context.WithCancel(ctx)
	d.soft, d.stopSoft = context.WithCancel(d.hard)
	d.dispatcher.Go(d.dispatch)
}

// Stop prevents new attempts and waits for the running attempts. When ctx ends, Stop cancels the
// running attempts, and another deliverer repeats them. Finally, Stop ends the remaining leases and
// closes idle connections.
func (d *Deliverer) Stop(ctx context.Context) {
	if d.stopSoft == nil {
		return
	}
	d.stopSoft()
	defer context.AfterFunc(ctx, d.stopHard)()
	d.dispatcher.Wait()
	d.workers.Wait()
	d.stopHard()
	if err := d.freeOwnLeases(context.WithoutCancel(ctx)); err != nil {
		d.log.WarnContext(ctx, "other servers deliver some webhooks late", slog.Any("error", err))
	}
	if t, ok := d.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// dispatch searches for endpoints with due deliveries on each wake-up and at intervals.
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
			d.log.ErrorContext(d.soft, "searching for due deliveries failed and will be retried", slog.Any("error", err))
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

// scan leases endpoints with due deliveries and serves each endpoint in its own lane. Endpoints
// with a failure count above 0 are unhealthy. They use at most half of the lanes, so that many
// unresponsive endpoints do not delay healthy endpoints. If no unhealthy endpoint is being served and
// more than one lane is free, scan reserves one lane for an unhealthy endpoint. Without this lane,
// healthy endpoints could use all lanes, and an endpoint that works again would not be detected.
func (d *Deliverer) scan(ctx context.Context) (leased int, err error) {
	free, unhealthy := d.lanes-int(d.busy.Load()), int(d.unhealthy.Load())
	if free <= 0 {
		d.crowded.Store(true)
		return 0, nil
	}
	failing, err := d.due(ctx, true, min(free, max(1, d.lanes/2)-unhealthy))
	if err != nil {
		return 0, err
	}
	take, err := d.due(ctx, false, free+1)
	if err != nil {
		return 0, err
	}
	d.crowded.Store(len(take) > free)
	if unhealthy == 0 && len(failing) > 0 && free > 1 {
		take = append(take[:min(len(take), free-1)], failing...)
	} else {
		take = append(take, failing...)
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
		if l.unhealthy {
			d.unhealthy.Add(1)
		}
		d.workers.Go(func() { d.serve(l) })
	}
	return len(leases), nil
}

// serve serves one endpoint and signals when its lane is free.
func (d *Deliverer) serve(l *lease) {
	defer func() {
		if l.unhealthy {
			d.unhealthy.Add(-1)
		}
		d.busy.Add(-1)
		select {
		case d.freed <- struct{}{}:
		default:
		}
	}()
	if err := d.run(l); err != nil {
		d.log.ErrorContext(d.hard, "sending the deliveries of an endpoint failed and will be retried when its lease expires",
			slog.String("endpoint", l.uuid), slog.Any("error", err))
	}
}
