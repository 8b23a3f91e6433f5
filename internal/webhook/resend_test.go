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

// exhaust creates n deliveries of an endpoint whose attempts have all failed.
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

// A replay uses half of the width, and live deliveries go first.
func TestReplayRunsBehindLiveDeliveries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		var mu sync.Mutex
		under, most := 0, 0
		gate := make(chan struct{})
		r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			select {
			case <-gate:
			case <-req.Context().Done():
			}
			mu.Lock()
			under--
			mu.Unlock()
		})
		e, _ := f.at(t, inst, r.URL)
		f.exhaust(t, inst, certificate, 100)
		n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour))
		if err != nil || n != 100 {
			t.Fatalf("%d are replayed, %v", n, err)
		}
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour)); err != nil || n != 0 {
			t.Errorf("%d are replayed twice, %v", n, err)
		}
		f.deliver(t, webhook.DelivererConfig{})
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
			t.Error("a live delivery waits behind a replay")
		}
		mu.Lock()
		if most > 2 {
			t.Errorf("%d replays were under way at once", most)
		}
		mu.Unlock()
		close(gate)
		f.until(t, "all is sent", func() bool { return f.pending(t, 0) == 0 })
	})
}

// A replay includes all exhausted deliveries created since the time, however many, but no tests.
func TestReplaySelectsExhaustedSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		e, _ := f.at(t, inst, "https://receiver.example")
		backlog(t, d, inst, certificate, e.ID, 2500)
		if _, err := f.Test(t.Context(), inst, e.UUID, webhook.Created); err != nil {
			t.Fatal(err)
		}
		f.exhaust(t, inst, certificate, 1)
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Now().Add(-time.Hour)); err != nil || n != 1 {
			t.Errorf("of the last hour %d are replayed, %v", n, err)
		}
		if n, err := f.Replay(t.Context(), inst, e.UUID, time.Unix(0, 0)); err != nil || n != 2500 {
			t.Errorf("%d are replayed, %v", n, err)
		}
		list, err := f.Log(t.Context(), inst, e.UUID, webhook.LogQuery{Status: webhook.DeliveryPending, Limit: 100})
		if err != nil || len(list) != 100 || !list[0].Replay || list[0].Tries != 0 || list[0].DueAt == nil || list[0].FinishedAt != nil {
			t.Errorf("%d are pending, %v: %+v", len(list), err, list)
		}
		if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Replay(t.Context(), inst, e.UUID, time.Unix(0, 0)); !fault.Is(err, fault.BadRequest) {
			t.Errorf("a replay to a paused endpoint: %v", err)
		}
	})
}

// A test goes before all pending deliveries, through an open breaker, and once.
func TestTestGoesFirst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		r := receive(t, answers(http.StatusTeapot))
		e, _ := f.at(t, inst, r.URL)
		backlog(t, d, inst, f.certificate(t, inst), e.ID, 100)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE webhook_endpoints SET failures = 10, openings = 3, held_until = $1`, db.Micros(time.Now().Add(time.Hour)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		f.deliver(t, webhook.DelivererConfig{Waits: []time.Duration{time.Hour}})
		id, err := f.Test(t.Context(), inst, e.UUID, webhook.Revoked)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(r.next(t).body, &body); err != nil || body["test"] != true || body["event"] != "certificate_application.revoked" || body["webhook_id"] != e.UUID ||
			body["trigger_context"] != "test" || body["uuid"] != "00000000-0000-0000-0000-000000000000" || body["application_id"] != 0.0 {
			t.Errorf("the test is %v, %v", body, err)
		}
		f.until(t, "the test has ended", func() bool {
			got, err := f.Delivery(t.Context(), inst, id)
			if err != nil {
				t.Fatal(err)
			}
			return got.Status == webhook.DeliveryExhausted && got.Attempts == 1 && got.Test && got.Log[0].Probe
		})
		if _, err := f.Test(t.Context(), inst, e.UUID, "no.such"); !fault.Is(err, fault.Invalid) {
			t.Errorf("a test of an unknown event: %v", err)
		}
	})
}

// A delivery can be sent again in every status.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		r := receive(t, nil)
		e, _ := f.at(t, inst, r.URL)
		f.deliver(t, webhook.DelivererConfig{})
		f.emit(t, inst, f.certificate(t, inst), 1)
		first := r.next(t)
		f.until(t, "it is recorded", func() bool { return f.pending(t, 0) == 0 })
		list, err := f.Log(t.Context(), inst, "", webhook.LogQuery{Limit: 10})
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := f.Redeliver(t.Context(), inst, list[0].ID); err != nil {
			t.Fatal(err)
		}
		again := r.next(t)
		if again.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || !bytes.Equal(again.body, first.body) {
			t.Error("sent again it is another one")
		}
		f.last(t, e.ID, 2)
		if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
			t.Fatal(err)
		}
		if err := f.Redeliver(t.Context(), inst, list[0].ID); !fault.Is(err, fault.BadRequest) {
			t.Errorf("to a paused endpoint: %v", err)
		}
	})
}

// An institution can neither see nor change the endpoints of another.
func TestEndpointsAreIsolatedByInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		mine, theirs := f.institution(t, "AAA"), f.institution(t, "BBB")
		e, _ := f.at(t, mine, "https://receiver.example")
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
				t.Errorf("%s by another institution: %v", name, err)
			}
		}
		if all, err := f.Log(ctx, theirs, "", webhook.LogQuery{Limit: 10}); err != nil || len(all) != 0 {
			t.Errorf("another institution's log has %v, %v", all, err)
		}
		if all, err := f.List(ctx, theirs); err != nil || len(all) != 0 {
			t.Errorf("another institution's list has %v, %v", all, err)
		}
		now, err := f.Endpoint(ctx, mine, e.UUID)
		if err != nil || now.Status != webhook.Active || now.OverlapUntil != nil || f.pending(t, e.ID) != 0 {
			t.Errorf("another institution changed the endpoint: %+v, %v", now, err)
		}
	})
}

// The pages of the log have no gaps, with all statuses together.
func TestLogPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		e, _ := f.at(t, inst, "https://receiver.example")
		f.at(t, inst, "https://other.example")
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
				for _, one := range list {
					if before != 0 && one.ID >= before || endpoint != "" && one.Endpoint != endpoint {
						t.Fatalf("%d after %d", one.ID, before)
					}
					before = one.ID
					total++
				}
			}
			want := map[bool]int{true: 20, false: 40}[endpoint != ""]
			if total != want {
				t.Errorf("%d deliveries in the pages, not %d", total, want)
			}
			// The way back from the oldest delivery, which is counted once.
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
						t.Fatalf("%d before %d", list[i].ID, after)
					}
				}
				after = list[0].ID
				total += len(list)
			}
			if total != want {
				t.Errorf("%d deliveries on the way back, not %d", total, want)
			}
		}
		for _, bad := range []webhook.LogQuery{{Limit: 0}, {Limit: 101}, {Limit: 1, Status: "lost"}} {
			if _, err := f.Log(t.Context(), inst, e.UUID, bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// Events of a paused endpoint are all sent after it is resumed.
func TestPausedEndpointKeepsItsEvents(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
	inst := f.institution(t, "AAA")
	certificate := f.certificate(t, inst)
	r := receive(t, nil)
	e, _ := f.at(t, inst, r.URL)
	if err := f.Pause(t.Context(), inst, e.UUID); err != nil {
		t.Fatal(err)
	}
	if err := f.Pause(t.Context(), inst, e.UUID); !fault.Is(err, fault.BadRequest) {
		t.Errorf("paused twice: %v", err)
	}
	f.deliver(t, webhook.DelivererConfig{})
	f.emit(t, inst, certificate, 5)
	list, err := f.List(t.Context(), inst)
	if err != nil || len(list) != 1 || list[0].Status != webhook.Paused || list[0].Waiting != 5 || strings.Contains(list[0].URL, "whsec_") {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if err := f.Resume(t.Context(), inst, e.UUID); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.next(t)
	}
	if err := f.Resume(t.Context(), inst, e.UUID); !fault.Is(err, fault.BadRequest) {
		t.Errorf("resumed twice: %v", err)
	}
}
