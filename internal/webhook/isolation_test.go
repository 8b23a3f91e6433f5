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

// silent does not answer until the test ends.
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

// One endpoint with a long queue accepts connections and never answers. The others must not be
// delayed: all their deliveries arrive before the first attempts at the unresponsive endpoint time
// out, and its backlog is not read.
func TestDeadEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	const healthy = 50
	queued, events := 20_000, 40
	if testing.Short() {
		queued, events = 2_000, 10
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		dead, alive := f.institution(t, "AAA"), f.institution(t, "BBB")
		certificate := f.certificate(t, dead)
		gone := receive(t, silent(t))
		e, _ := f.at(t, dead, gone.URL)
		backlog(t, d, dead, certificate, e.ID, queued)
		f.deliver(t, webhook.DelivererConfig{})
		gone.next(t)
		r := receive(t, nil)
		for range healthy {
			f.at(t, alive, r.URL)
		}
		for range events {
			f.emit(t, alive, certificate, 1)
		}
		seen := map[string]int{}
		for range healthy * events {
			got := r.next(t)
			seen[got.header.Get("X-Webhook-ID")]++
		}
		for endpoint, n := range seen {
			if n != events {
				t.Errorf("endpoint %s was sent %d of %d", endpoint, n, events)
			}
		}
		if len(seen) != healthy {
			t.Errorf("%d of %d endpoints were sent something", len(seen), healthy)
		}
		if n := f.pending(t, e.ID); n != queued {
			t.Errorf("of the dead endpoint's %d deliveries %d wait", queued, n)
		}
		if n := len(gone.arrived); n > 7 {
			t.Errorf("%d attempts at the dead endpoint went out", n+1)
		}
	})
}

// Many unresponsive endpoints leave half of the lanes to the others.
func TestManyDeadEndpointsLeaveFreeLanes(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
	dead, alive := f.institution(t, "AAA"), f.institution(t, "BBB")
	certificate := f.certificate(t, dead)
	gone, r := receive(t, silent(t)), receive(t, nil)
	const many, lanes = 40, 8
	for range many {
		f.at(t, dead, gone.URL)
	}
	f.at(t, alive, r.URL)
	// Their last attempts have failed.
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE webhook_endpoints SET failures = 3 WHERE institution_id = $1`, dead)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.deliver(t, webhook.DelivererConfig{Lanes: lanes})
	f.emit(t, dead, certificate, 1)
	for range lanes / 2 {
		gone.next(t)
	}
	for range 10 {
		f.emit(t, alive, certificate, 1)
		r.next(t)
	}
	if n := len(gone.arrived); n != 0 {
		t.Errorf("%d more dead endpoints have a lane", n)
	}
}

// Several deliverers share the work, and none sends what another has leased.
func TestDeliverersShareTheWork(t *testing.T) {
	t.Parallel()
	const nodes, endpoints, events = 4, 12, 60
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		var mu sync.Mutex
		var most int
		under := map[string]int{}
		r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
			id := req.Header.Get("X-Webhook-Id")
			mu.Lock()
			under[id]++
			most = max(most, under[id])
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			under[id]--
			mu.Unlock()
		})
		for range endpoints {
			f.at(t, inst, r.URL)
		}
		// Their clock stands still, so that no lease expires on a slow machine.
		now := time.Now().Add(time.Hour)
		for range nodes {
			// Each has its own service, as in another process.
			node := &fixture{db: d, ring: f.ring, Service: webhook.New(d, f.ring, func() time.Time { return now })}
			node.deliver(t, webhook.DelivererConfig{Poll: 5 * time.Millisecond})
		}
		f.emit(t, inst, certificate, events)
		seen := map[string]int{}
		for range endpoints * events {
			got := r.next(t)
			seen[got.header.Get("X-Webhook-ID")+got.header.Get("Webhook-Id")]++
		}
		f.until(t, "all is recorded", func() bool { return f.pending(t, 0) == 0 })
		if len(r.arrived) != 0 || len(seen) != endpoints*events {
			t.Errorf("%d deliveries arrived, %d of them once more", len(seen), len(r.arrived))
		}
		if most > 4 {
			t.Errorf("%d attempts at one endpoint were under way at once", most)
		}
	})
}

// Stop completes and records the attempts under way and begins no new one. If its context ends
// first, the next deliverer repeats them.
func TestStopCompletesAttempts(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]bool{"in time": true, "cut": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
			inst := f.institution(t, "AAA")
			release := make(chan struct{})
			r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
				select {
				case <-release:
				case <-req.Context().Done():
				}
			})
			e, _ := f.at(t, inst, r.URL)
			d := f.deliver(t, webhook.DelivererConfig{})
			f.emit(t, inst, f.certificate(t, inst), 10)
			for range 4 {
				r.next(t)
			}
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			stopped := make(chan struct{})
			go func() { d.Stop(ctx); close(stopped) }()
			<-d.Stopping()
			if patient {
				close(release)
			} else {
				cut()
			}
			<-stopped
			want := 10
			if patient {
				want = 6
			}
			if n := f.pending(t, e.ID); n != want {
				t.Errorf("%d deliveries wait, not %d", n, want)
			}
			var leased int
			if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_endpoints WHERE leased_until <> 0`).Scan(&leased); err != nil || leased != 0 {
				t.Errorf("%d endpoints are leased still, %v", leased, err)
			}
		})
	}
}
