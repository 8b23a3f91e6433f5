package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/webhook"
)

// exhaust emits n events, and then marks all deliveries in the database as exhausted.
func (f *fixture) exhaust(t *testing.T, institution, certificate int64, n int) {
	t.Helper()
	f.emit(t, institution, certificate, n)
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE webhook_deliveries SET status = 'exhausted', tries = 10, finished_at = $1`, db.Micros(time.Now()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A replay uses half of the concurrent attempts, and live deliveries are sent first.
func TestReplayIsSentAfterLiveDeliveries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		var mu sync.Mutex
		active, maxActive := 0, 0
		gate := make(chan struct{})
		r := startReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
			mu.Lock()
			active++
			maxActive = max(maxActive, active)
			mu.Unlock()
			select {
			case <-gate:
			case <-req.Context().Done():
			}
			mu.Lock()
			active--
			mu.Unlock()
		})
		e, _ := f.endpointAt(t, inst, r.URL)
		f.exhaust(t, inst, certificate, 100)
		n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour))
		if err != nil || n != 100 {
			t.Fatalf("Replay = %d, %v; want 100", n, err)
		}
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour)); err != nil || n != 0 {
			t.Errorf("second Replay = %d, %v; want 0", n, err)
		}
		f.startDeliverer(t, webhook.DelivererConfig{})
		for range 2 {
			r.next(t)
		}
		f.emit(t, inst, certificate, 1)
		var live string
		if err := d.QueryRowContext(t.Context(), `SELECT uuid FROM webhook_events ORDER BY id DESC LIMIT 1`).Scan(&live); err != nil {
			t.Fatal(err)
		}
		gate <- struct{}{}
		gate <- struct{}{}
		if r.next(t).header.Get("Webhook-Id") != live {
			t.Error("the next request is a replay, want the live delivery")
		}
		mu.Lock()
		if maxActive > 2 {
			t.Errorf("%d concurrent replays, want at most 2", maxActive)
		}
		mu.Unlock()
		close(gate)
		f.waitUntil(t, "every delivery is sent", func() bool { return f.pending(t, 0) == 0 })
	})
}

// A replay includes all exhausted deliveries that were created since a time, except tests.
func TestReplaySelectsExhaustedSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		e, _ := f.endpointAt(t, inst, "https://receiver.example")
		backlog(t, d, inst, certificate, e.ID, 2500)
		if _, err := f.Test(t.Context(), inst, e.UUID, webhook.Created); err != nil {
			t.Fatal(err)
		}
		f.exhaust(t, inst, certificate, 1)
		// The test delivery is exhausted too. Replayable does not count it, and Replay does not send it again.
		counts, err := f.Counts(t.Context(), inst, e.UUID)
		if n, countErr := f.Replayable(t.Context(), inst, e.UUID); err != nil || countErr != nil || n != 2501 || counts[webhook.DeliveryExhausted] != 2502 {
			t.Errorf("Replayable = %d, %v; Counts = %v, %v; want 2501, and 2502 exhausted", n, countErr, counts, err)
		}
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour)); err != nil || n != 1 {
			t.Errorf("Replay of the last hour = %d, %v; want 1", n, err)
		}
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Unix(0, 0)); err != nil || n != 2500 {
			t.Errorf("Replay of all = %d, %v; want 2500", n, err)
		}
		list, err := f.Log(t.Context(), inst, e.UUID, webhook.LogQuery{Status: webhook.DeliveryPending, Limit: 100})
		if err != nil || len(list) != 100 || !list[0].Replay || list[0].Tries != 0 || list[0].DueAt == nil || list[0].FinishedAt != nil {
			t.Errorf("got %d pending deliveries, error = %v: %+v; want 100 replays with 0 tries and a due time", len(list), err, list)
		}
		if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Replay(t.Context(), inst, e.UUID, time.Unix(0, 0)); !fault.Is(err, fault.BadRequest) {
			t.Errorf("Replay to a paused endpoint: error = %v, want BadRequest", err)
		}
	})
}

// A test delivery is sent before the backlog, even if the breaker is open, and only once.
func TestTestIsSentFirst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		r := startReceiver(t, respondWith(http.StatusTeapot))
		e, _ := f.endpointAt(t, inst, r.URL)
		backlog(t, d, inst, f.certificate(t, inst), e.ID, 100)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE webhook_endpoints SET failures = 10, openings = 3, held_until = $1`, db.Micros(time.Now().Add(time.Hour)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		f.startDeliverer(t, webhook.DelivererConfig{Waits: []time.Duration{time.Hour}})
		id, err := f.Test(t.Context(), inst, e.UUID, webhook.Revoked)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(r.next(t).body, &body); err != nil || body["test"] != true || body["event"] != "certificate_application.revoked" || body["webhook_id"] != e.UUID ||
			body["trigger_context"] != "test" || body["uuid"] != "00000000-0000-0000-0000-000000000000" || body["application_id"] != 0.0 {
			t.Errorf("body of the test = %v, error = %v; want an example of certificate_application.revoked", body, err)
		}
		f.waitUntil(t, "the test delivery is exhausted", func() bool {
			got, err := f.Delivery(t.Context(), inst, id)
			if err != nil {
				t.Fatal(err)
			}
			return got.Status == webhook.DeliveryExhausted && got.Attempts == 1 && got.Test && got.Log[0].Probe
		})
		if _, err := f.Test(t.Context(), inst, e.UUID, "unknown.event"); !fault.Is(err, fault.Invalid) {
			t.Errorf("Test of an unknown event: error = %v, want Invalid", err)
		}
	})
}

// A finished delivery can be sent again, but not to a paused endpoint.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		r := startReceiver(t, nil)
		e, _ := f.endpointAt(t, inst, r.URL)
		f.startDeliverer(t, webhook.DelivererConfig{})
		f.emit(t, inst, f.certificate(t, inst), 1)
		first := r.next(t)
		f.waitUntil(t, "the attempt is recorded", func() bool { return f.pending(t, 0) == 0 })
		list, err := f.Log(t.Context(), inst, "", webhook.LogQuery{Limit: 10})
		if err != nil || len(list) != 1 {
			t.Fatalf("log = %+v, error = %v; want one delivery", list, err)
		}
		if err := f.Redeliver(t.Context(), inst, list[0].ID); err != nil {
			t.Fatal(err)
		}
		again := r.next(t)
		if again.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || !bytes.Equal(again.body, first.body) {
			t.Errorf("redelivery: webhook-id = %s, body = %s, want %s and %s", again.header.Get("Webhook-Id"), again.body, first.header.Get("Webhook-Id"), first.body)
		}
		f.awaitAttempt(t, e.ID, 2)
		if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
			t.Fatal(err)
		}
		if err := f.Redeliver(t.Context(), inst, list[0].ID); !fault.Is(err, fault.BadRequest) {
			t.Errorf("Redeliver to a paused endpoint: error = %v, want BadRequest", err)
		}
	})
}

// An institution can neither read nor change the endpoints of another institution.
func TestEndpointsAreIsolatedByInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		mine, theirs := f.institution(t, "AAA"), f.institution(t, "BBB")
		e, _ := f.endpointAt(t, mine, "https://receiver.example")
		f.exhaust(t, mine, f.certificate(t, mine), 1)
		list, err := f.Log(t.Context(), mine, e.UUID, webhook.LogQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		for name, operation := range map[string]func() error{
			"endpoint":  func() error { _, err := f.Endpoint(ctx, theirs, e.UUID); return err },
			"pause":     func() error { return f.Pause(ctx, theirs, e.UUID) },
			"resume":    func() error { return f.Resume(ctx, theirs, e.UUID) },
			"rotate":    func() error { _, _, err := f.Rotate(ctx, theirs, e.UUID); return err },
			"promote":   func() error { return f.Promote(ctx, theirs, e.UUID) },
			"test":      func() error { _, err := f.Test(ctx, theirs, e.UUID, webhook.Created); return err },
			"replay":    func() error { _, err := f.Replay(ctx, theirs, e.UUID, time.Unix(0, 0)); return err },
			"redeliver": func() error { return f.Redeliver(ctx, theirs, list[0].ID) },
			"delivery":  func() error { _, err := f.Delivery(ctx, theirs, list[0].ID); return err },
			"log":       func() error { _, err := f.Log(ctx, theirs, e.UUID, webhook.LogQuery{Limit: 1}); return err },
		} {
			if err := operation(); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s by another institution: error = %v, want NotFound", name, err)
			}
		}
		if all, err := f.Log(ctx, theirs, "", webhook.LogQuery{Limit: 10}); err != nil || len(all) != 0 {
			t.Errorf("log of another institution = %v, error = %v; want no deliveries", all, err)
		}
		if all, err := f.List(ctx, theirs); err != nil || len(all) != 0 {
			t.Errorf("endpoints of another institution = %v, error = %v; want no endpoints", all, err)
		}
		now, err := f.Endpoint(ctx, mine, e.UUID)
		if err != nil || now.Status != webhook.Active || now.OverlapUntil != nil || f.pending(t, e.ID) != 0 {
			t.Errorf("after the operations of another institution: endpoint = %+v, error = %v; want no change", now, err)
		}
	})
}

// The pages of the log have no gaps, for one endpoint and for all endpoints.
func TestLogPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		e, _ := f.endpointAt(t, inst, "https://receiver.example")
		f.endpointAt(t, inst, "https://other.example")
		f.emit(t, inst, certificate, 20)
		for status, part := range map[string]int{"delivered": 0, "exhausted": 1} {
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				_, err := tx.ExecContext(t.Context(), `UPDATE webhook_deliveries SET status = $1, finished_at = 1 WHERE (id / 2) % 3 = $2`, status, part)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, endpoint := range []string{e.UUID, ""} {
			var before int64
			total := 0
			for {
				list, err := f.Log(t.Context(), inst, endpoint, webhook.LogQuery{Before: before, Limit: 7})
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					break
				}
				for _, delivery := range list {
					if before != 0 && delivery.ID >= before || endpoint != "" && delivery.Endpoint != endpoint {
						t.Fatalf("after delivery %d: got delivery %d of endpoint %s, want a lower id of endpoint %q", before, delivery.ID, delivery.Endpoint, endpoint)
					}
					before = delivery.ID
					total++
				}
			}
			want := map[bool]int{true: 20, false: 40}[endpoint != ""]
			if total != want {
				t.Errorf("got %d deliveries on all pages, want %d", total, want)
			}
			// Page back from the oldest delivery, which total includes already, to the newest.
			total = 1
			for after := before; ; {
				list, err := f.Log(t.Context(), inst, endpoint, webhook.LogQuery{After: after, Limit: 7})
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					break
				}
				for i := range list {
					if list[i].ID <= after || i > 0 && list[i].ID >= list[i-1].ID {
						t.Fatalf("the page after delivery %d has delivery %d at index %d, want higher ids than %d, newest first", after, list[i].ID, i, after)
					}
				}
				after = list[0].ID
				total += len(list)
			}
			if total != want {
				t.Errorf("got %d deliveries when paging back, want %d", total, want)
			}
		}
		for _, bad := range []webhook.LogQuery{{Limit: 0}, {Limit: 101}, {Limit: 1, Status: "unknown"}} {
			if _, err := f.Log(t.Context(), inst, e.UUID, bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("query %+v: error = %v, want Invalid", bad, err)
			}
		}
	})
}

// Events that are emitted while an endpoint is paused are sent after it is resumed.
func TestPausedEndpointKeepsItsEvents(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	inst := f.institution(t, "AAA")
	certificate := f.certificate(t, inst)
	r := startReceiver(t, nil)
	e, _ := f.endpointAt(t, inst, r.URL)
	if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
		t.Fatal(err)
	}
	if err := f.Pause(t.Context(), inst, e.UUID); !fault.Is(err, fault.BadRequest) {
		t.Errorf("second Pause: error = %v, want BadRequest", err)
	}
	f.startDeliverer(t, webhook.DelivererConfig{})
	f.emit(t, inst, certificate, 5)
	list, err := f.List(t.Context(), inst)
	if err != nil || len(list) != 1 || list[0].Status != webhook.Paused || list[0].Waiting != 5 || strings.Contains(list[0].URL, "whsec_") {
		t.Errorf("list = %+v, error = %v; want one paused endpoint with 5 waiting deliveries and without its secret", list, err)
	}
	if err := f.Resume(t.Context(), inst, e.UUID); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.next(t)
	}
	if err := f.Resume(t.Context(), inst, e.UUID); !fault.Is(err, fault.BadRequest) {
		t.Errorf("second Resume: error = %v, want BadRequest", err)
	}
}
