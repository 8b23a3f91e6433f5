package webhook_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// script is a receiver in memory. respond returns the status of a response, or 0 for a refused
// connection.
type script struct {
	mu       sync.Mutex
	respond  func(at time.Time) int
	requests []request
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.requests = append(s.requests, request{path: req.URL.Path, header: canonical(req.Header), body: body, at: now})
	code := s.respond(now)
	if code == 0 {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// canonical returns headers with canonical names, as a server reads them.
func canonical(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		out[http.CanonicalHeaderKey(name)] = values
	}
	return out
}

// all returns the requests so far.
func (s *script) all() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *script) sent() int { return len(s.all()) }

// bubble is a fixture in simulated time, with one endpoint, a deliverer and a sweep.
type bubble struct {
	*fixture
	*script

	start       time.Time
	institution int64
	certificate int64
	endpoint    *webhook.Endpoint
	secret      string

	noticesMu sync.Mutex
	notices   []webhook.Notice
}

// received returns the notices that the owners have received so far.
func (b *bubble) received() []webhook.Notice {
	b.noticesMu.Lock()
	defer b.noticesMu.Unlock()
	return slices.Clone(b.notices)
}

// inBubble runs a test in simulated time. The deliverer polls at the interval pace, and the sweep runs
// after every ten intervals. With a long interval, simulated days take little time.
func inBubble(t *testing.T, pace time.Duration, respond func(since time.Duration) int, f func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{fixture: open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock(), start: time.Now()}
		b.script = &script{respond: func(at time.Time) int { return respond(at.Sub(b.start)) }}
		b.institution = b.fixture.institution(t, "AAA")
		b.certificate = b.fixture.certificate(t, b.institution)
		b.endpoint, b.secret = b.endpointAt(t, b.institution, "https://receiver.example/hook")
		d := b.startDeliverer(t, webhook.DelivererConfig{
			Transport: b.script, Poll: pace,
			Notify: func(_ context.Context, _ *db.Tx, n webhook.Notice) error {
				b.noticesMu.Lock()
				defer b.noticesMu.Unlock()
				b.notices = append(b.notices, n)
				return nil
			},
		})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			tick := time.NewTicker(10 * pace)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if err := d.Sweep(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				}
			}
		})
		t.Cleanup(func() { close(stop); wg.Wait() })
		f(t, b)
	})
}

// skipIfShort skips a test of many simulated days in short mode.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipping many days of simulated time in short mode")
	}
}

// sleepUntil sleeps until the given time after the start.
func (b *bubble) sleepUntil(after time.Duration) {
	time.Sleep(after - time.Since(b.start))
	synctest.Wait()
}

func (b *bubble) readEndpoint(t *testing.T) *webhook.Endpoint {
	t.Helper()
	e, err := b.Endpoint(t.Context(), b.institution, b.endpoint.UUID)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A delivery that always fails is exhausted after all waits of the schedule.
func TestScheduleOfOneDelivery(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	inBubble(t, 30*time.Second, func(time.Duration) int { return 500 }, func(t *testing.T, b *bubble) {
		b.emit(t, b.institution, b.certificate, 1)
		b.sleepUntil(100 * time.Hour)
		requests := b.all()
		if len(requests) != len(webhook.RetryDelays)+1 {
			t.Fatalf("got %d attempts, want %d", len(requests), len(webhook.RetryDelays)+1)
		}
		for i, want := range webhook.RetryDelays {
			// A wait can be longer by the polling interval of 30 s.
			got := requests[i+1].at.Sub(requests[i].at)
			if got < want*8/10 || got > want*12/10+31*time.Second {
				t.Errorf("wait %d = %v, want %v ± 20 %%", i+1, got, want)
			}
		}
		list, err := b.Log(t.Context(), b.institution, b.endpoint.UUID, webhook.LogQuery{Limit: 10})
		if err != nil || len(list) != 1 || list[0].Status != webhook.DeliveryExhausted || list[0].Attempts != 10 || list[0].FinishedAt == nil || list[0].DueAt != nil {
			t.Errorf("log = %+v, error = %v; want one exhausted delivery with 10 attempts", list, err)
		}
	})
}

// A receiver is down for two days. The vault makes few attempts, no probe counts as a try of a
// delivery, and all pending deliveries arrive when the receiver works again.
func TestOutageOfTwoDays(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	const outage = 48 * time.Hour
	down := func(since time.Duration) int {
		if since < outage {
			return 0
		}
		return 200
	}
	inBubble(t, time.Minute, down, func(t *testing.T, b *bubble) {
		const events = 30
		b.emit(t, b.institution, b.certificate, events)
		b.sleepUntil(outage - time.Second)
		attempts := b.sent()
		// Ten failures open the breaker. The time between probes then doubles up to 5 minutes.
		if maxAttempts := 10 + 3 + int(outage/(5*time.Minute)) + 10; attempts > maxAttempts || attempts < 500 {
			t.Errorf("%d attempts in two days, want 500 to %d", attempts, maxAttempts)
		}
		if e := b.readEndpoint(t); !e.BreakerOpen || e.FailingSince == nil {
			t.Errorf("endpoint = %+v, want an open breaker and FailingSince", e)
		}
		if notices := b.received(); len(notices) != 1 || notices[0].Kind != webhook.NoticeFailing {
			t.Errorf("notices = %+v, want one of kind failing", notices)
		}
		list, err := b.Log(t.Context(), b.institution, b.endpoint.UUID, webhook.LogQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Status != webhook.DeliveryPending || d.Tries > 3 {
				t.Errorf("delivery during the outage = %+v, want pending with at most 3 tries", d)
			}
		}
		b.sleepUntil(outage + 7*time.Minute)
		if n := b.pending(t, 0); n != 0 {
			t.Errorf("%d deliveries are pending after the outage, want 0", n)
		}
		if notices := b.received(); len(notices) != 2 || notices[1].Kind != webhook.NoticeRecovered {
			t.Errorf("notices = %+v, want failing and recovered", notices)
		}
		if e := b.readEndpoint(t); e.BreakerOpen || e.FailingSince != nil || e.DeliveredAt == nil {
			t.Errorf("endpoint after the outage = %+v, want a closed breaker, no FailingSince and DeliveredAt", e)
		}
	})
}

// A receiver fails for 19 days. The owners get notices after an hour and after three days, the
// endpoint is switched off after five days, and its deliveries wait for two weeks.
func TestFailingEndpointIsSwitchedOff(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	const day = 24 * time.Hour
	var up atomic.Bool
	inBubble(t, 5*time.Minute, func(time.Duration) int {
		if up.Load() {
			return 204
		}
		return 503
	}, func(t *testing.T, b *bubble) {
		b.emit(t, b.institution, b.certificate, 20)
		notices := func(after time.Duration, want ...webhook.NoticeKind) {
			t.Helper()
			b.sleepUntil(after)
			var got []webhook.NoticeKind
			for _, n := range b.received() {
				if n.InstitutionID != b.institution || n.Endpoint != b.endpoint.UUID || n.URL != "https://receiver.example/hook" || n.Since.Sub(b.start).Abs() > time.Minute {
					t.Errorf("notice = %+v, want the institution, endpoint and URL of the test, and its start", n)
				}
				got = append(got, n.Kind)
			}
			if len(got) != len(want) {
				t.Fatalf("after %v: notices = %v, want %v", after, got, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("after %v: notices = %v, want %v", after, got, want)
				}
			}
		}
		notices(59 * time.Minute)
		notices(115*time.Minute, webhook.NoticeFailing)
		notices(71*time.Hour, webhook.NoticeFailing)
		notices(73*time.Hour, webhook.NoticeFailing, webhook.NoticeStillFailing)
		notices(119*time.Hour, webhook.NoticeFailing, webhook.NoticeStillFailing)
		notices(121*time.Hour, webhook.NoticeFailing, webhook.NoticeStillFailing, webhook.NoticeSwitchedOff)
		if e := b.readEndpoint(t); e.Status != webhook.SwitchedOff || e.StopReason != webhook.ReasonFailing {
			t.Errorf("endpoint = %+v, want switched off with reason failing", e)
		}
		n := b.sent()
		// New deliveries for the endpoint are stored, but not sent.
		b.emit(t, b.institution, b.certificate, 1)
		b.sleepUntil(18 * day)
		if b.sent() != n {
			t.Errorf("the switched-off endpoint received %d requests, want 0", b.sent()-n)
		}
		if n := b.pending(t, 0); n != 21 {
			t.Errorf("%d deliveries are pending, want 21", n)
		}
		b.emit(t, b.institution, b.certificate, 1)
		b.sleepUntil(19*day + 2*time.Hour)
		if n := b.pending(t, 0); n != 1 {
			t.Errorf("two weeks later %d deliveries are pending, want 1", n)
		}
		up.Store(true)
		if err := b.Resume(t.Context(), b.institution, b.endpoint.UUID); err != nil {
			t.Fatal(err)
		}
		b.sleepUntil(19*day + 3*time.Hour)
		if b.pending(t, 0) != 0 || b.sent() != n+1 {
			t.Errorf("after Resume the endpoint received %d events and %d are pending, want 1 and 0", b.sent()-n, b.pending(t, 0))
		}
		replayed, err := b.Replay(t.Context(), b.institution, b.endpoint.UUID, b.start)
		if err != nil || replayed != 21 {
			t.Errorf("Replay = %d, %v; want 21", replayed, err)
		}
		b.sleepUntil(19*day + 4*time.Hour)
		if b.sent() != n+22 {
			t.Errorf("after Resume and Replay the endpoint received %d events, want 22", b.sent()-n)
		}
		// The log is stored for 30 days.
		b.sleepUntil(49 * day)
		if n := b.count(t, "webhook_deliveries"); n != 22 {
			t.Errorf("the log has %d deliveries, want 22", n)
		}
		b.sleepUntil(50 * day)
		if d, a, e := b.count(t, "webhook_deliveries"), b.count(t, "webhook_attempts"), b.count(t, "webhook_events"); d != 0 || a != 0 || e != 22 {
			t.Errorf("after 30 days there are %d deliveries, %d attempts and %d events, want 0, 0 and 22", d, a, e)
		}
	})
}

// Each probe sends another delivery, so that a delivery that the receiver cannot process does not
// block the recovery.
func TestEachProbeSendsAnotherDelivery(t *testing.T) {
	t.Parallel()
	inBubble(t, 10*time.Second, func(time.Duration) int { return 0 }, func(t *testing.T, b *bubble) {
		b.emit(t, b.institution, b.certificate, 20)
		b.sleepUntil(time.Hour)
		ids := map[string]bool{}
		for _, r := range b.all()[b.sent()-8:] {
			ids[r.header.Get("Webhook-Id")] = true
		}
		if len(ids) != 8 {
			t.Errorf("the last 8 probes sent %d different deliveries, want 8", len(ids))
		}
	})
}

// After a rotation both secrets sign for 24 hours. Then the old secret is removed from the database.
func TestRotation(t *testing.T) {
	t.Parallel()
	inBubble(t, 5*time.Minute, func(time.Duration) int { return 200 }, func(t *testing.T, b *bubble) {
		check := func(when, plain string, standard ...string) {
			t.Helper()
			b.emit(t, b.institution, b.certificate, 1)
			time.Sleep(time.Second)
			synctest.Wait()
			r := b.all()[b.sent()-1]
			got := strings.Fields(r.header.Get("Webhook-Signature"))
			if r.header.Get("X-Webhook-Signature") != plainSignature(plain, r.body) {
				t.Errorf("%s: X-Webhook-Signature = %s, want %s", when, r.header.Get("X-Webhook-Signature"), plainSignature(plain, r.body))
			}
			if len(got) != len(standard) {
				t.Fatalf("%s: webhook-signature = %v, want %d signatures", when, got, len(standard))
			}
			for i, secret := range standard {
				if got[i] != standardSignature(t, secret, r) {
					t.Errorf("%s: signature %d of webhook-signature = %s, want that of secret %d", when, i+1, got[i], i+1)
				}
			}
		}
		check("before the rotation", b.secret, b.secret)
		second, until, err := b.Rotate(t.Context(), b.institution, b.endpoint.UUID)
		if err != nil || second == b.secret || time.Until(until) != 24*time.Hour {
			t.Fatalf("Rotate = %q, %v, %v; want a new secret and an overlap of 24h", second, until, err)
		}
		check("during the overlap", b.secret, second, b.secret)
		if _, _, err := b.Rotate(t.Context(), b.institution, b.endpoint.UUID); err == nil {
			t.Error("a second Rotate before Promote: error = nil, want an error")
		}
		if err := b.Promote(t.Context(), b.institution, b.endpoint.UUID); err != nil {
			t.Fatal(err)
		}
		if err := b.Promote(t.Context(), b.institution, b.endpoint.UUID); err == nil {
			t.Error("a second Promote: error = nil, want an error")
		}
		check("promoted", second, second, b.secret)
		third, _, err := b.Rotate(t.Context(), b.institution, b.endpoint.UUID)
		if err != nil {
			t.Fatal(err)
		}
		check("rotated again", second, third, second)
		time.Sleep(23 * time.Hour)
		check("after 23 hours", second, third, second)
		time.Sleep(80 * time.Minute)
		check("after a day", third, third)
		var stored int
		if err := b.db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_endpoints WHERE previous_secret IS NOT NULL`).Scan(&stored); err != nil || stored != 0 {
			t.Errorf("%d endpoints have an old secret, error = %v, want 0", stored, err)
		}
		if err := b.Promote(t.Context(), b.institution, b.endpoint.UUID); err == nil {
			t.Error("Promote without a rotation: error = nil, want an error")
		}
		if _, _, err := b.Rotate(t.Context(), b.institution+1, b.endpoint.UUID); err == nil {
			t.Error("Rotate by another institution: error = nil, want an error")
		}
	})
}
