package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/webhook"
)

// After a change of an endpoint, its pending deliveries are sent to the new URL with the new
// headers.
func TestChangedEndpoint(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		mine, other := f.institution(t, "AAA"), f.institution(t, "BBB")
		certificate := f.certificate(t, mine)
		moved := startReceiver(t, nil)
		e, secret := f.endpointAt(t, mine, "https://old.example.org/hook?key=secret", webhook.Header{Name: "X-Gateway", Value: "old"})
		f.emit(t, mine, certificate, 1)
		address := moved.URL + "/new?key=secret"
		change := webhook.Change{
			URL: &address, Events: &[]webhook.Name{webhook.Revoked, webhook.Approved, webhook.Approved}, Headers: &[]webhook.Header{{Name: "X-Gateway", Value: "new"}},
		}
		if err := f.Update(t.Context(), other, e.UUID, change); !fault.Is(err, fault.NotFound) {
			t.Fatalf("Update by another institution: error = %v, want NotFound", err)
		}
		if err := f.Update(t.Context(), mine, e.UUID, change); err != nil {
			t.Fatal(err)
		}
		got, err := f.Endpoint(t.Context(), mine, e.UUID)
		if err != nil || got.URL != address || !slices.Equal(got.Events, []webhook.Name{webhook.Approved, webhook.Revoked}) {
			t.Fatalf("after Update: endpoint = %+v, error = %v; want the new URL and the events Approved and Revoked", got, err)
		}
		f.startDeliverer(t, webhook.DelivererConfig{})
		if req := moved.next(t); req.header.Get("X-Gateway") != "new" || !strings.Contains(string(req.body), e.UUID) {
			t.Errorf("headers = %v, want X-Gateway \"new\", and the endpoint's UUID in the body", req.header)
		}
		// Values that are not set stay unchanged.
		if err := f.Update(t.Context(), mine, e.UUID, webhook.Change{Events: &[]webhook.Name{}}); err != nil {
			t.Fatal(err)
		}
		if got, err = f.Endpoint(t.Context(), mine, e.UUID); err != nil || got.URL != address || len(got.Events) != 0 {
			t.Errorf("after a change of the events: endpoint = %+v, error = %v; want the same URL and an empty list of events", got, err)
		}
		f.emit(t, mine, certificate, 1)
		if req := moved.next(t); req.header.Get("X-Gateway") != "new" {
			t.Errorf("after a change of the events: X-Gateway = %q, want new", req.header.Get("X-Gateway"))
		}
		var detail string
		if err := d.QueryRowContext(t.Context(), `SELECT detail FROM audit_entries WHERE action = 'webhook.changed' ORDER BY id LIMIT 1`).Scan(&detail); err != nil ||
			strings.Contains(detail, "key") || strings.Contains(detail, secret) || !strings.Contains(detail, "https://old.example.org") {
			t.Errorf("audit detail = %s, error = %v; want the origin of the old URL, no query and no secret", detail, err)
		}
	})
}

func TestChangeRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), ""))
	mine := f.institution(t, "AAA")
	e := f.endpoint(t, mine)
	bad := "ftp://x"
	err := f.Update(t.Context(), mine, e.UUID, webhook.Change{URL: &bad, Events: &[]webhook.Name{"x"}, Headers: &[]webhook.Header{{Name: "Host", Value: "x"}}})
	fields := []string{}
	if failed, ok := err.(*fault.Error); ok { //nolint:errorlint // the operation returns an unwrapped error
		for _, f := range failed.Fields {
			fields = append(fields, f.Name)
		}
	}
	if !slices.Equal(fields, []string{"url", "events", "headers"}) {
		t.Errorf("invalid fields = %v, error = %v; want url, events, headers", fields, err)
	}
}

// A deleted endpoint is hidden and gets no deliveries. The sweep removes its deliveries, but no events.
func TestDeletedEndpoint(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		mine, other := f.institution(t, "AAA"), f.institution(t, "BBB")
		certificate := f.certificate(t, mine)
		r := startReceiver(t, nil)
		e, _ := f.endpointAt(t, mine, r.URL)
		remaining, _ := f.endpointAt(t, mine, r.URL)
		deliverer := f.startDeliverer(t, webhook.DelivererConfig{})
		f.emit(t, mine, certificate, 3)
		for range 6 {
			r.next(t)
		}
		f.waitUntil(t, "all attempts are recorded", func() bool { return f.pending(t, 0) == 0 })
		log, err := f.Log(t.Context(), mine, e.UUID, webhook.LogQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Delete(t.Context(), other, e.UUID); !fault.Is(err, fault.NotFound) {
			t.Fatalf("Delete by another institution: error = %v, want NotFound", err)
		}
		if err := f.Delete(t.Context(), mine, e.UUID); err != nil {
			t.Fatal(err)
		}
		list, err := f.List(t.Context(), mine)
		if err != nil || len(list) != 1 || list[0].UUID != remaining.UUID {
			t.Errorf("after Delete: list = %+v, error = %v; want only the remaining endpoint", list, err)
		}
		f.emit(t, mine, certificate, 1)
		if got := r.next(t); got.header.Get("X-Webhook-ID") != remaining.UUID {
			t.Error("the deleted endpoint received an event")
		}
		for operation, err := range map[string]error{
			"delete":    f.Delete(t.Context(), mine, e.UUID),
			"resume":    f.Resume(t.Context(), mine, e.UUID),
			"pause":     f.Pause(t.Context(), mine, e.UUID),
			"promote":   f.Promote(t.Context(), mine, e.UUID),
			"redeliver": f.Redeliver(t.Context(), mine, log[0].ID),
			"update":    f.Update(t.Context(), mine, e.UUID, webhook.Change{}),
			"rotate":    errorOfRotate(f.Rotate(t.Context(), mine, e.UUID)),
			"log":       errorOf(f.Log(t.Context(), mine, e.UUID, webhook.LogQuery{Limit: 1})),
			"delivery":  errorOf(f.Delivery(t.Context(), mine, log[0].ID)),
			"replay":    errorOf(f.Replay(t.Context(), mine, e.UUID, time.Now().Add(-time.Hour))),
		} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: error = %v, want NotFound", operation, err)
			}
		}
		if err := deliverer.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := d.QueryRowContext(t.Context(),
			`SELECT (SELECT count(*) FROM webhook_endpoints WHERE id = $1) + (SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1)`, e.ID).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("after Sweep: %d rows of the deleted endpoint remain, want 0; error = %v", rows, err)
		}
		if n := f.count(t, "webhook_events"); n != 4 {
			t.Errorf("%d events remain, want 4", n)
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }

func errorOfRotate(_ string, _ time.Time, err error) error { return err }

// Log filters the deliveries within its time limit, and Counts counts them by status.
func TestLogSearch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		mine, other := f.institution(t, "AAA"), f.institution(t, "BBB")
		certificate := f.certificate(t, mine)
		first, second := f.endpoint(t, mine), f.endpoint(t, mine)
		f.endpoint(t, other)
		f.exhaust(t, mine, certificate, 2)
		if _, err := f.Test(t.Context(), mine, first.UUID, webhook.Created); err != nil {
			t.Fatal(err)
		}
		all, err := f.Log(t.Context(), mine, "", webhook.LogQuery{Limit: 100})
		if err != nil || len(all) != 5 {
			t.Fatalf("got %d deliveries, want 5; error = %v", len(all), err)
		}
		event := all[1].EventID
		for name, tc := range map[string]struct {
			institution int64
			endpoint    string
			q           webhook.LogQuery
			want        int
		}{
			"an event":                           {mine, "", webhook.LogQuery{EventID: event}, 2},
			"an event, one endpoint":             {mine, second.UUID, webhook.LogQuery{EventID: event}, 1},
			"an event, another institution":      {other, "", webhook.LogQuery{EventID: event}, 0},
			"a certificate":                      {mine, "", webhook.LogQuery{CertificateID: certificate}, 4},
			"a certificate, another institution": {other, "", webhook.LogQuery{CertificateID: certificate}, 0},
			"pending":                            {mine, "", webhook.LogQuery{CertificateID: certificate, Status: webhook.DeliveryPending}, 0},
			"exhausted":                          {mine, first.UUID, webhook.LogQuery{CertificateID: certificate, Status: webhook.DeliveryExhausted}, 2},
			"before a delivery":                  {mine, "", webhook.LogQuery{CertificateID: certificate, Before: all[3].ID}, 1},
			"an unknown event":                   {mine, "", webhook.LogQuery{EventID: "unknown"}, 0},
			"an event name":                      {mine, "", webhook.LogQuery{Event: webhook.Created}, 1},
			"another event name":                 {mine, "", webhook.LogQuery{Event: all[4].Event}, 4},
			"an event name, one endpoint":        {mine, second.UUID, webhook.LogQuery{Event: all[4].Event, Status: webhook.DeliveryExhausted}, 2},
			"an event name, after a delivery":    {mine, "", webhook.LogQuery{Event: all[4].Event, After: all[4].ID}, 3},
			"an event name, another institution": {other, "", webhook.LogQuery{Event: all[4].Event}, 0},
			"an event name and an event":         {mine, "", webhook.LogQuery{Event: webhook.Created, EventID: event}, 0},
			"a certificate and an event name":    {mine, "", webhook.LogQuery{CertificateID: certificate, Event: all[4].Event, Status: webhook.DeliveryExhausted}, 4},
		} {
			tc.q.Limit = 100
			got, err := f.Log(t.Context(), tc.institution, tc.endpoint, tc.q)
			if err != nil || len(got) != tc.want {
				t.Errorf("%s: got %d deliveries, want %d; error = %v", name, len(got), tc.want, err)
			}
		}
		if _, err := f.Log(t.Context(), mine, "", webhook.LogQuery{Event: "unknown.event", Limit: 1}); !fault.Is(err, fault.Invalid) {
			t.Errorf("unknown event name: error = %v, want Invalid", err)
		}
		f.SetLogTime(time.Nanosecond)
		for _, q := range []webhook.LogQuery{{}, {EventID: event}, {CertificateID: certificate}} {
			q.Limit = 100
			_, err := f.Log(t.Context(), mine, "", q)
			if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter <= 0 {
				t.Errorf("a search for %+v without time: error = %v, want Unavailable with RetryAfter", q, err)
			}
		}
		counts, err := f.Counts(t.Context(), mine, first.UUID)
		if err != nil || counts[webhook.DeliveryExhausted] != 2 || counts[webhook.DeliveryPending] != 1 || counts[webhook.DeliveryDelivered] != 0 {
			t.Errorf("counts = %v, error = %v; want 2 exhausted, 1 pending, 0 delivered", counts, err)
		}
	})
}

// The example of an event equals the body that a test of the event sends, except for ids and times. The test
// does not compare the contents of the field failure.
func TestExamplesMatchTests(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	mine := f.institution(t, "AAA")
	r := startReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	e, _ := f.endpointAt(t, mine, r.URL)
	f.startDeliverer(t, webhook.DelivererConfig{})
	for _, name := range webhook.Names {
		if _, err := f.Test(t.Context(), mine, e.UUID, name); err != nil {
			t.Fatal(err)
		}
		text, err := webhook.Example(name)
		if err != nil {
			t.Fatal(err)
		}
		var example, sent map[string]any
		if err := json.Unmarshal([]byte(text), &example); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.next(t).body, &sent); err != nil {
			t.Fatal(err)
		}
		for key, value := range example {
			switch key {
			case "webhook_id", "event_id", "timestamp", "issue_date", "expires_on", "failure":
				if _, ok := sent[key]; !ok {
					t.Errorf("%s: the body of the test delivery has no %s", name, key)
				}
			default:
				if sent[key] != value {
					t.Errorf("%s: %s = %v in the test delivery, want %v as in the example", name, key, sent[key], value)
				}
			}
		}
		if len(sent) != len(example) {
			t.Errorf("%s: sent %v, want the fields of the example %v", name, sent, example)
		}
	}
}
