package webhook_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// backlog queues n deliveries for an endpoint.
func backlog(tb testing.TB, d *db.DB, institution, certificate, endpoint int64, n int) {
	tb.Helper()
	if err := d.Tx(tb.Context(), func(tx *db.Tx) error {
		var event int64
		if err := tx.QueryRowContext(tb.Context(), `
			INSERT INTO webhook_events (uuid, institution_id, certificate_id, name, payload, occurred_at)
			VALUES ('backlog', $1, $2, 'certificate_application.created', '{}', 1) RETURNING id`, institution, certificate).Scan(&event); err != nil {
			return err
		}
		_, err := tx.ExecContext(tb.Context(), `
			WITH RECURSIVE counter (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM counter WHERE i < $3)
			INSERT INTO webhook_deliveries (event_id, endpoint_id, body, status, due_at, created_at)
			SELECT $1, $2, '{"event": "certificate_application.created"}', 'pending', i, 1 FROM counter`, event, endpoint, n)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
}

// silent returns a handler that does not respond until the test ends.
func silent(t *testing.T) http.HandlerFunc {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
}

// An endpoint with a long queue that accepts connections and never responds does not delay other
// endpoints. There are at most 8 attempts at this endpoint until all other deliveries have arrived.
func TestDeadEndpointDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	const healthy = 50
	queued, events := 20_000, 40
	if testing.Short() {
		queued, events = 2_000, 10
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		dead, alive := f.institution(t, "AAA"), f.institution(t, "BBB")
		certificate := f.certificate(t, dead)
		deadReceiver := startReceiver(t, silent(t))
		e, _ := f.endpointAt(t, dead, deadReceiver.URL)
		backlog(t, d, dead, certificate, e.ID, queued)
		f.startDeliverer(t, webhook.DelivererConfig{})
		deadReceiver.next(t)
		r := startReceiver(t, nil)
		for range healthy {
			f.endpointAt(t, alive, r.URL)
		}
		for range events {
			f.emit(t, alive, certificate, 1)
		}
		counts := map[string]int{}
		for range healthy * events {
			got := r.next(t)
			counts[got.header.Get("X-Webhook-ID")]++
		}
		for endpoint, n := range counts {
			if n != events {
				t.Errorf("endpoint %s received %d events, want %d", endpoint, n, events)
			}
		}
		if len(counts) != healthy {
			t.Errorf("%d endpoints received events, want %d", len(counts), healthy)
		}
		if n := f.pending(t, e.ID); n != queued {
			t.Errorf("the dead endpoint has %d pending deliveries, want %d", n, queued)
		}
		if n := len(deadReceiver.arrived); n > 7 {
			t.Errorf("%d attempts were made at the dead endpoint, want at most 8", n+1)
		}
	})
}

// Many unresponsive endpoints leave half of the lanes to other endpoints.
func TestManyDeadEndpointsLeaveFreeLanes(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	dead, alive := f.institution(t, "AAA"), f.institution(t, "BBB")
	certificate := f.certificate(t, dead)
	deadReceiver, r := startReceiver(t, silent(t)), startReceiver(t, nil)
	const many, lanes = 40, 8
	for range many {
		f.endpointAt(t, dead, deadReceiver.URL)
	}
	f.endpointAt(t, alive, r.URL)
	// Endpoints with a failure count above 0 use at most half of the lanes.
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE webhook_endpoints SET failures = 3 WHERE institution_id = $1`, dead)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.startDeliverer(t, webhook.DelivererConfig{Lanes: lanes})
	f.emit(t, dead, certificate, 1)
	for range lanes / 2 {
		deadReceiver.next(t)
	}
	for range 10 {
		f.emit(t, alive, certificate, 1)
		r.next(t)
	}
	if n := len(deadReceiver.arrived); n != 0 {
		t.Errorf("%d attempts at dead endpoints, want %d", lanes/2+n, lanes/2)
	}
}

// Several deliverers share the work, and none sends deliveries of an endpoint that another
// deliverer has leased.
func TestDeliverersShareTheWork(t *testing.T) {
	t.Parallel()
	const nodes, endpoints, events = 4, 12, 60
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		var mu sync.Mutex
		var maxActive int
		active := map[string]int{}
		r := startReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
			id := req.Header.Get("X-Webhook-Id")
			mu.Lock()
			active[id]++
			maxActive = max(maxActive, active[id])
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			active[id]--
			mu.Unlock()
		})
		for range endpoints {
			f.endpointAt(t, inst, r.URL)
		}
		// The clock does not advance, so that no lease expires on a slow machine.
		now := time.Now().Add(time.Hour)
		for range nodes {
			// Each deliverer has its own service, as if it ran in its own process.
			node := &fixture{db: d, ring: f.ring, Service: webhook.New(d, f.ring, func() time.Time { return now })}
			node.startDeliverer(t, webhook.DelivererConfig{Poll: 5 * time.Millisecond})
		}
		f.emit(t, inst, certificate, events)
		counts := map[string]int{}
		for range endpoints * events {
			got := r.next(t)
			counts[got.header.Get("X-Webhook-ID")+got.header.Get("Webhook-Id")]++
		}
		f.waitUntil(t, "all attempts are recorded", func() bool { return f.pending(t, 0) == 0 })
		if len(r.arrived) != 0 || len(counts) != endpoints*events {
			t.Errorf("%d different deliveries and %d additional requests arrived, want %d and 0", len(counts), len(r.arrived), endpoints*events)
		}
		if maxActive > 4 {
			t.Errorf("%d concurrent attempts at one endpoint, want at most 4", maxActive)
		}
	})
}

// Stop completes and records the running attempts and begins no new attempts. If the context of
// Stop ends before the attempts are complete, the next deliverer repeats them.
func TestStopCompletesAttempts(t *testing.T) {
	t.Parallel()
	for name, completed := range map[string]bool{"completed": true, "cancelled": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
			inst := f.institution(t, "AAA")
			release := make(chan struct{})
			r := startReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
				select {
				case <-release:
				case <-req.Context().Done():
				}
			})
			e, _ := f.endpointAt(t, inst, r.URL)
			d := f.startDeliverer(t, webhook.DelivererConfig{})
			f.emit(t, inst, f.certificate(t, inst), 10)
			for range 4 {
				r.next(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan struct{})
			go func() { d.Stop(ctx); close(stopped) }()
			<-d.Stopping()
			if completed {
				close(release)
			} else {
				cancel()
			}
			<-stopped
			want := 10
			if completed {
				want = 6
			}
			if n := f.pending(t, e.ID); n != want {
				t.Errorf("after Stop: %d deliveries are pending, want %d", n, want)
			}
			var leased int
			if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_endpoints WHERE leased_until <> 0`).Scan(&leased); err != nil || leased != 0 {
				t.Errorf("after Stop: %d endpoints are leased, want 0; error = %v", leased, err)
			}
		})
	}
}
