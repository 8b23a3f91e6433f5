package webhook

import (
	"math/rand/v2"
	"time"
)

// Waits are the waits before the second, third, ... attempt of a delivery; after
// the last of them it is exhausted.
var Waits = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// breakAfter failures in a row open an endpoint's breaker.
	breakAfter = 10
	// maxOpening is how long the breaker stays open at most before it lets one
	// attempt through.
	maxOpening = 5 * time.Minute
	// maxRetryAfter bounds for how long a receiver can put off one delivery.
	maxRetryAfter = 24 * time.Hour
	// spread is the part of a wait by which it is longer or shorter at random, so
	// that what failed together does not come back together.
	spread = 0.2
	// streakGap ends a time of failing: nothing was tried for so long that what
	// fails now is another matter. It is longer than the longest wait.
	streakGap = 48 * time.Hour
)

// Outcome is how an attempt ended.
type Outcome string

const (
	// Delivered is any answer of 2xx, read in time.
	Delivered Outcome = "delivered"
	// Answered is any other answer.
	Answered Outcome = "answered"
	// TimedOut had no whole answer in time.
	TimedOut Outcome = "timeout"
	// Unreachable found nobody to connect to.
	Unreachable Outcome = "unreachable"
	// Untrusted failed at TLS.
	Untrusted Outcome = "tls"
	// Unresolved found no address for the name.
	Unresolved Outcome = "dns"
	// Blocked was refused by the guard against private addresses.
	Blocked Outcome = "blocked"
	// Broken is a connection that broke, or an answer that is no HTTP.
	Broken Outcome = "broken"
)

// Outcomes are all ends of an attempt.
var Outcomes = []Outcome{Delivered, Answered, TimedOut, Unreachable, Untrusted, Unresolved, Blocked, Broken}

// health is how an endpoint does. Its breaker is closed while openings is 0, open
// until heldUntil, and then half open: one attempt decides.
type health struct {
	waits              []time.Duration
	first, longest     time.Duration
	failures, openings int
	heldUntil          time.Time
	// failingSince is when nothing but failures began; none when the last attempt
	// succeeded.
	failingSince, failedAt, deliveredAt time.Time
	// What happened since it was last written down: a first success after
	// failures, the breaker opened or closed, an answer of 410.
	recovered, opened, closed, gone bool
}

// schedule gives a healthy endpoint under a list of waits.
func schedule(waits []time.Duration) health {
	return health{waits: waits, first: waits[0], longest: max(waits[0], maxOpening)}
}

// counts tells whether the breaker counts an outcome: those by which a receiver
// that is down or overloaded is known. An answer of 500 is about one delivery.
func (r *result) counts() bool {
	switch r.outcome {
	case TimedOut, Unreachable, Untrusted:
		return true
	case Answered:
		return r.code == 429 || r.code == 503
	default:
		return false
	}
}

// note takes a result into account.
func (h *health) note(r *result, now time.Time) {
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
	h.gone = h.gone || r.outcome == Answered && r.code == 410
	switch {
	case r.counts():
		h.failures++
		switch {
		case r.probe:
			h.open(now)
		case h.openings == 0 && h.failures >= breakAfter:
			h.open(now)
		}
		// Who asks to be left alone is left alone, by all its deliveries.
		if r.outcome == Answered && r.retryAfter > 0 {
			if until := now.Add(min(r.retryAfter, h.longest)); until.After(h.heldUntil) {
				h.heldUntil = until
			}
		}
	case r.outcome == Answered:
		// It is there.
		h.close()
	case r.probe:
		// Nothing that would let the rest through.
		h.open(now)
	}
}

// open opens the breaker, each time in a row for twice as long.
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
	h.heldUntil = now.Add(min(wait, h.longest))
}

func (h *health) close() {
	h.closed = h.closed || h.openings > 0
	h.failures, h.openings, h.heldUntil = 0, 0, time.Time{}
}

// halfOpen tells whether the next attempt decides about the breaker.
func (h *health) halfOpen() bool { return h.openings > 0 }

// held tells whether nothing may be sent at a time.
func (h *health) held(now time.Time) bool { return h.gone || now.Before(h.heldUntil) }

// fate is what becomes of a delivery after an attempt.
type fate struct {
	status DeliveryStatus
	tries  int
	due    time.Time
}

// fateOf decides about a delivery, after note.
func (h *health) fateOf(r *result, now time.Time) fate {
	d := r.delivery
	switch {
	case r.outcome == Delivered:
		return fate{status: DeliveryDelivered, tries: d.tries}
	case d.test:
		// Whoever tests is waiting for the answer and asks again by hand.
		return fate{status: DeliveryExhausted, tries: d.tries + 1}
	case h.gone:
		// It is kept for the day when the endpoint is switched on again.
		return fate{status: DeliveryPending, tries: d.tries, due: now}
	case r.probe && h.halfOpen():
		// While the breaker is open the clocks of deliveries stand still: to have
		// been the probe costs no try. The next probe is another one's turn.
		return fate{status: DeliveryPending, tries: d.tries, due: h.heldUntil}
	case d.tries >= len(h.waits):
		return fate{status: DeliveryExhausted, tries: d.tries + 1}
	}
	wait := jitter(h.waits[d.tries])
	// RFC 9110, 10.2.3: not before that.
	wait = max(wait, min(r.retryAfter, maxRetryAfter))
	return fate{status: DeliveryPending, tries: d.tries + 1, due: now.Add(wait)}
}

func jitter(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (1 - spread + 2*spread*rand.Float64())) //nolint:gosec // spreading load, not guarding a secret
}
