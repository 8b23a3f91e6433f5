package webhook_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// awaitTime is the maximum wait for an expected event.
const awaitTime = time.Minute

// loopback is the network of the receivers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// request is a request that a receiver got.
type request struct {
	method, path string
	header       http.Header
	body         []byte
	at           time.Time
}

// receiver is an HTTP server of an institution.
type receiver struct {
	*httptest.Server

	arrived chan request
}

// startReceiver starts a receiver with a handler. If the handler is nil, the receiver responds with
// status 204.
func startReceiver(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{arrived: make(chan request, 100_000)}
	r.Server = httptest.NewServer(r.handler(handler))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) handler(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.arrived <- request{method: req.Method, path: req.URL.Path, header: req.Header.Clone(), body: body, at: time.Now()}
		if handler == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		handler(w, req)
	})
}

// next waits for a request.
func (r *receiver) next(t *testing.T) request {
	t.Helper()
	select {
	case got := <-r.arrived:
		return got
	case <-time.After(awaitTime):
		t.Fatal("no request arrived")
		return request{}
	}
}

// respondWith returns a handler that responds with a status.
func respondWith(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// withRealClock replaces a fixture's clock with the real clock.
func (f *fixture) withRealClock() *fixture {
	f.Service = webhook.New(f.db, f.ring, time.Now)
	return f
}

// endpointAt creates an endpoint for a URL.
func (f *fixture) endpointAt(t *testing.T, institution int64, url string, headers ...webhook.Header) (endpoint *webhook.Endpoint, secret string) {
	t.Helper()
	endpoint, secret, err := f.Create(t.Context(), institution, url, nil, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint, secret
}

// emit emits n events in one transaction.
func (f *fixture) emit(t *testing.T, institution, certificate int64, n int) {
	t.Helper()
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		for range n {
			if err := f.EmitTx(t.Context(), tx, webhook.Event{
				Name: webhook.Approved, InstitutionID: institution, CertificateID: certificate, OccurredAt: time.Now(), UUID: "the-uuid",
				Title: "BSc <b> ü", ApplicantEmail: "jane@example.org", Source: "vault", TriggerContext: "single_upload", ReferenceID: "AAA-1",
				Status: "approved", FullName: "Jane", IssueDate: "2026-07-01",
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// startDeliverer starts a deliverer that may connect to loopback, and stops it when the test ends.
func (f *fixture) startDeliverer(t *testing.T, c webhook.DelivererConfig) *webhook.Deliverer {
	t.Helper()
	if c.Transport == nil {
		c.Transport = safehttp.Transport(safehttp.Options{Allow: loopback})
	}
	c.Log = slog.New(slog.DiscardHandler)
	d := webhook.NewDeliverer(f.Service, c)
	d.Start(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		d.Stop(ctx)
	})
	return d
}

// attempt is an attempt in the log, with the status of its delivery.
type attempt struct {
	status, outcome, failure      string
	code, number                  int
	responseHeaders, responseBody string
	truncated                     bool
}

// awaitAttempt waits until a delivery of an endpoint has the attempt with the given number, and
// returns the attempt.
func (f *fixture) awaitAttempt(t *testing.T, endpoint int64, number int) (a attempt) {
	t.Helper()
	f.waitUntil(t, "the attempt is recorded", func() bool {
		rows, err := f.db.QueryContext(t.Context(), `
			SELECT d.status, a.outcome, coalesce(a.error, ''), coalesce(a.status_code, 0), a.number, coalesce(a.response_headers, ''),
				coalesce(a.response_body, ''), a.truncated
			FROM webhook_deliveries d JOIN webhook_attempts a ON a.delivery_id = d.id WHERE d.endpoint_id = $1 AND a.number = $2`, endpoint, number)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		found := rows.Next()
		if found {
			err = rows.Scan(&a.status, &a.outcome, &a.failure, &a.code, &a.number, &a.responseHeaders, &a.responseBody, &a.truncated)
		}
		if err := errors.Join(err, rows.Err()); err != nil {
			t.Fatal(err)
		}
		return found
	})
	return a
}

// waitUntil waits until isTrue returns true. The message of a timeout contains condition, which describes the
// expected state.
func (f *fixture) waitUntil(t *testing.T, condition string, isTrue func() bool) {
	t.Helper()
	end := time.After(awaitTime)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("timeout while waiting until %s", condition)
		}
	}
}

// pending returns the number of pending deliveries of an endpoint, or of all endpoints if endpoint
// is 0.
func (f *fixture) pending(t *testing.T, endpoint int64) (n int) {
	t.Helper()
	if err := f.db.QueryRowContext(t.Context(),
		`SELECT count(*) FROM webhook_deliveries WHERE status = 'pending' AND (endpoint_id = $1 OR $1 = 0)`, endpoint).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
