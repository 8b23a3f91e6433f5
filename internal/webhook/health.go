package webhook

import (
	"math/rand/v2"
	"time"
)

// RetryDelays are the waits before the second, third, ... attempt of a delivery. If the attempt after the
// last wait fails, the delivery is exhausted.
var RetryDelays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// breakAfter is the number of counted failures that opens an endpoint's breaker. A success, or a
	// response that is not counted, resets the count.
	breakAfter = 10
	// maxOpening is the longest time for which the breaker stays open before it allows one attempt. If
	// the first wait of the schedule is longer, that wait is the longest time.
	maxOpening = 5 * time.Minute
	// maxRetryAfter is the longest time for which a receiver can postpone a delivery with Retry-After.
	maxRetryAfter = 24 * time.Hour
	// spread is the maximum fraction by which a wait is randomly longer or shorter, so that deliveries
	// that failed together are not retried together.
	spread = 0.2
	// streakGap ends a series of failures: if there was no attempt for this time, the next failure
	// starts a new series. streakGap is longer than the longest of RetryDelays.
	streakGap = 48 * time.Hour
)

// Outcome is the result of an attempt.
type Outcome string

const (
	// Delivered means that a response with status 2xx was read in time.
	Delivered Outcome = "delivered"
	// Responded means that the receiver responded with another status.
	Responded Outcome = "answered"
	// TimedOut means that no complete response arrived in time.
	TimedOut Outcome = "timeout"
	// Unreachable means that the connection was refused, or that there is no route to the host.
	Unreachable Outcome = "unreachable"
	// Untrusted means that the TLS handshake failed.
	Untrusted Outcome = "tls"
	// Unresolved means that the lookup of the host name failed.
	Unresolved Outcome = "dns"
	// Blocked means that package safehttp refused the address.
	Blocked Outcome = "blocked"
	// Broken means any other error, such as a closed connection, a response that is not HTTP, or an
	// invalid URL.
	Broken Outcome = "broken"
)

// Outcomes lists all outcomes of an attempt.
var Outcomes = []Outcome{Delivered, Responded, TimedOut, Unreachable, Untrusted, Unresolved, Blocked, Broken}

// health is the state of an endpoint's circuit breaker. The breaker is closed while openings is 0,
// open until backoffUntil, and then half open: a single attempt decides whether the breaker closes.
type health struct {
	waits              []time.Duration
	first, longest     time.Duration
	failures, openings int
	backoffUntil       time.Time
	// failingSince is the start of the current series of failures. The value is zero if the last attempt
	// succeeded.
	failingSince, failedAt, deliveredAt time.Time
	// The following fields report changes since the health was last recorded: recovered is a first
	// success after failures, opened and closed are changes of the breaker, and gone is a response
	// with status 410.
	recovered, opened, closed, gone bool
}

// schedule returns the health of an endpoint without failures, for a list of waits.
func schedule(waits []time.Duration) health {
	return health{waits: waits, first: waits[0], longest: max(waits[0], maxOpening)}
}

// counts reports whether the breaker counts the result as a failure of the receiver. It does not count
// the status 500, because it may concern only one delivery.
func (r *result) counts() bool {
	switch r.outcome {
	case TimedOut, Unreachable, Untrusted:
		return true
	case Responded:
		return r.code == 429 || r.code == 503
	default:
		return false
	}
}

// update updates the health with a result.
func (h *health) update(r *result, now time.Time) {
	if r.outcome == Delivered {
		h.recovered = h.recovered || !h.failingSince.IsZero()
		h.failingSince, h.deliveredAt = time.Time{}, now
		h.close()
		return
	}
	if h.failingSince.IsZero() || now.Sub(h.failedAt) > streakGap {
		h.failingSince = now
	}
	h.failedAt = now
	h.gone = h.gone || r.outcome == Responded && r.code == 410
	switch {
	case r.counts():
		h.failures++
		switch {
		case r.probe:
			h.open(now)
		case h.openings == 0 && h.failures >= breakAfter:
			h.open(now)
		}
		// Retry-After applies to the endpoint, not only to one delivery.
		if r.outcome == Responded && r.retryAfter > 0 {
			if until := now.Add(min(r.retryAfter, h.longest)); until.After(h.backoffUntil) {
				h.backoffUntil = until
			}
		}
	case r.outcome == Responded:
		// Any response shows that the receiver is reachable.
		h.close()
	case r.probe:
		// A probe that did not reach the receiver must not cause the backlog to be sent.
		h.open(now)
	}
}

// open opens the breaker. Each consecutive opening is twice as long as the previous opening, up to
// h.longest.
func (h *health) open(now time.Time) {
	wait := h.first
	for range h.openings {
		if wait >= h.longest {
			break
		}
		wait *= 2
	}
	h.opened = h.opened || h.openings == 0
	h.openings++
	h.backoffUntil = now.Add(min(wait, h.longest))
}

func (h *health) close() {
	h.closed = h.closed || h.openings > 0
	h.failures, h.openings, h.backoffUntil = 0, 0, time.Time{}
}

// halfOpen reports whether the next attempt decides whether the breaker closes.
func (h *health) halfOpen() bool { return h.openings > 0 }

// inBackoff reports whether the endpoint must not receive deliveries at the time now.
func (h *health) inBackoff(now time.Time) bool { return h.gone || now.Before(h.backoffUntil) }

// verdict is the new state of a delivery after an attempt.
type verdict struct {
	status DeliveryStatus
	tries  int
	due    time.Time
}

// verdictOf returns the new state of a delivery. Call update before verdictOf.
func (h *health) verdictOf(r *result, now time.Time) verdict {
	d := r.delivery
	switch {
	case r.outcome == Delivered:
		return verdict{status: DeliveryDelivered, tries: d.tries}
	case d.test:
		// The user who runs a test waits for the result and can repeat the test.
		return verdict{status: DeliveryExhausted, tries: d.tries + 1}
	case h.gone:
		// The delivery stays pending until the endpoint is resumed.
		return verdict{status: DeliveryPending, tries: d.tries, due: now}
	case r.probe && h.halfOpen():
		// A failed probe that leaves the breaker open does not count as a try of the delivery. The next
		// probe sends another delivery if one is due.
		return verdict{status: DeliveryPending, tries: d.tries, due: h.backoffUntil}
	case d.tries >= len(h.waits):
		return verdict{status: DeliveryExhausted, tries: d.tries + 1}
	}
	wait := jitter(h.waits[d.tries])
	// RFC 9110, 10.2.3: Retry-After is the minimum wait.
	wait = max(wait, min(r.retryAfter, maxRetryAfter))
	return verdict{status: DeliveryPending, tries: d.tries + 1, due: now.Add(wait)}
}

func jitter(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (1 - spread + 2*spread*rand.Float64())) //nolint:gosec // load spreading needs no cryptographic randomness
}
