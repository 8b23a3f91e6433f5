package webhook

import (
	"testing"
	"time"
)

var (
	epoch   = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	refused = result{outcome: Unreachable}
	success = result{outcome: Delivered, code: 200}
)

func responded(code int) result { return result{outcome: Responded, code: code} }

// The breaker counts only outcomes that show that a receiver is down or overloaded. Ten of these
// outcomes open the breaker. A response that is not counted resets the count.
func TestBreakerCountsOnlyOutages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		results []result
		open    bool
	}{
		"ten refused":           {repeat(refused, 10), true},
		"nine refused":          {repeat(refused, 9), false},
		"ten timeouts":          {repeat(result{outcome: TimedOut}, 10), true},
		"ten TLS failures":      {repeat(result{outcome: Untrusted}, 10), true},
		"ten responses 429":     {repeat(responded(429), 10), true},
		"ten responses 503":     {repeat(responded(503), 10), true},
		"mixed":                 {append(repeat(refused, 5), repeat(responded(503), 5)...), true},
		"hundred responses 500": {repeat(responded(500), 100), false},
		"hundred responses 302": {repeat(responded(302), 100), false},
		"hundred unknown names": {repeat(result{outcome: Unresolved}, 100), false},
		"hundred blocked":       {repeat(result{outcome: Blocked}, 100), false},
		"hundred broken":        {repeat(result{outcome: Broken}, 100), false},
		"with a success":        {append(append(repeat(refused, 9), success), repeat(refused, 9)...), false},
		"with a response 500":   {append(append(repeat(refused, 9), responded(500)), repeat(refused, 9)...), false},
		"with an unknown name":  {append(append(repeat(refused, 9), result{outcome: Unresolved}), refused), true},
		"thirteen refused":      {repeat(refused, 13), true},
	} {
		h := schedule(RetryDelays)
		for i := range tc.results {
			h.update(&tc.results[i], epoch)
		}
		if h.halfOpen() != tc.open || h.inBackoff(epoch) != tc.open {
			t.Errorf("%s: halfOpen = %v, inBackoff = %v, want %v for both", name, h.halfOpen(), h.inBackoff(epoch), tc.open)
		}
		if tc.open && h.backoffUntil.Sub(epoch) != 5*time.Second {
			t.Errorf("%s: the breaker opened for %v, want 5s", name, h.backoffUntil.Sub(epoch))
		}
	}
}

func repeat(r result, n int) (list []result) {
	for range n {
		list = append(list, r)
	}
	return list
}

func TestBreakerDoublesToFiveMinutesAndCloses(t *testing.T) {
	t.Parallel()
	open := func(waits []time.Duration, probes int, probe result) (h health, inBackoff []time.Duration) {
		h = schedule(waits)
		for range breakAfter {
			h.update(&result{outcome: Unreachable}, epoch)
		}
		inBackoff = append(inBackoff, h.backoffUntil.Sub(epoch))
		for range probes {
			at := h.backoffUntil
			if h.inBackoff(at) || !h.inBackoff(at.Add(-1)) {
				t.Fatalf("inBackoff = %v at backoffUntil and %v just before, want false and true", h.inBackoff(at), h.inBackoff(at.Add(-1)))
			}
			probe.probe = true
			h.update(&probe, at)
			inBackoff = append(inBackoff, h.backoffUntil.Sub(at))
		}
		return h, inBackoff
	}
	_, inBackoff := open(RetryDelays, 8, refused)
	for i, seconds := range []float64{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		if inBackoff[i].Seconds() != seconds {
			t.Errorf("opening %d lasts %v, want %v s", i+1, inBackoff[i], seconds)
		}
	}
	if _, inBackoff := open([]time.Duration{time.Hour}, 2, refused); inBackoff[0] != time.Hour || inBackoff[2] != time.Hour {
		t.Errorf("first wait of an hour: openings last %v, want 1h each", inBackoff)
	}
	// A probe without a response does not close the breaker.
	for _, probe := range []result{{outcome: Unresolved}, {outcome: Blocked}, {outcome: Broken}} {
		if h, _ := open(RetryDelays, 1, probe); !h.inBackoff(h.backoffUntil.Add(-1)) || h.openings != 2 {
			t.Errorf("after a probe with outcome %s: openings = %d, backoffUntil = %v, want 2 openings and a backoff", probe.outcome, h.openings, h.backoffUntil)
		}
	}
	for _, probe := range []result{success, responded(500), responded(404)} {
		if h, _ := open(RetryDelays, 1, probe); h.halfOpen() || h.failures != 0 || !h.closed {
			t.Errorf("after a probe with status %d: health = %+v, want no failures, no openings and closed = true", probe.code, h)
		}
	}
}

func TestVerdictFollowsSchedule(t *testing.T) {
	t.Parallel()
	h := schedule(RetryDelays)
	d := &delivery{}
	for i, wait := range RetryDelays {
		r := &result{delivery: d, outcome: Responded, code: 500}
		h.update(r, epoch)
		f := h.verdictOf(r, epoch)
		if f.status != DeliveryPending || f.tries != i+1 {
			t.Fatalf("after %d tries: verdict = %+v, want pending with the same number of tries", i+1, f)
		}
		if got := f.due.Sub(epoch); got < wait*8/10 || got > wait*12/10 {
			t.Errorf("after %d tries: wait = %v, want %v ± 20 %%", i+1, got, wait)
		}
		d.tries = f.tries
	}
	r := &result{delivery: d, outcome: Responded, code: 500}
	if f := h.verdictOf(r, epoch); f.status != DeliveryExhausted || f.tries != len(RetryDelays)+1 {
		t.Errorf("after the last try: verdict = %+v, want exhausted after all tries", f)
	}
}

func TestWaitsAreSpread(t *testing.T) {
	t.Parallel()
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		w := jitter(100 * time.Second)
		least, most = min(least, w), max(most, w)
	}
	if least < 80*time.Second || most > 120*time.Second || least > 85*time.Second || most < 115*time.Second {
		t.Errorf("waits of 100 s are between %v and %v, want 80 s to 120 s", least, most)
	}
}

// A failed probe does not count as a try of its delivery. The delivery is due again when the backoff
// ends.
func TestFailedProbeIsNotCounted(t *testing.T) {
	t.Parallel()
	h := schedule(RetryDelays)
	for range breakAfter {
		h.update(&result{outcome: Unreachable}, epoch)
	}
	d := &delivery{tries: 9}
	r := &result{delivery: d, outcome: Unreachable, probe: true}
	h.update(r, h.backoffUntil)
	if f := h.verdictOf(r, epoch); f.status != DeliveryPending || f.tries != 9 || !f.due.Equal(h.backoffUntil) {
		t.Errorf("after a failed probe: verdict = %+v, want pending with 9 tries, due at backoffUntil", f)
	}
	// If the receiver responded to a probe, the response decides the state of the delivery.
	r = &result{delivery: d, outcome: Responded, code: 500, probe: true}
	h.update(r, h.backoffUntil)
	if f := h.verdictOf(r, epoch); f.status != DeliveryExhausted {
		t.Errorf("after a probe with status 500: verdict = %+v, want exhausted", f)
	}
}

func TestRetryAfterIsHonouredAndBounded(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "120": 2 * time.Minute, "86400": 24 * time.Hour, "86401": 24 * time.Hour, "99999999999999999999999": 24 * time.Hour,
		"soon": 0, "1.5": 0, epoch.Add(time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"): time.Hour,
		epoch.Add(-time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"):       0,
		epoch.Add(1000 * time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"): 24 * time.Hour,
	} {
		if got := retryAfter(value, epoch); got != want {
			t.Errorf("Retry-After %q: wait = %v, want %v", value, got, want)
		}
	}
	h := schedule(RetryDelays)
	r := &result{delivery: &delivery{}, outcome: Responded, code: 429, retryAfter: time.Hour}
	h.update(r, epoch)
	if f := h.verdictOf(r, epoch); f.due.Sub(epoch) != time.Hour {
		t.Errorf("the delivery waits %v, want 1h", f.due.Sub(epoch))
	}
	if got := h.backoffUntil.Sub(epoch); got != maxOpening {
		t.Errorf("the endpoint waits %v, want %v", got, maxOpening)
	}
	// A receiver cannot shorten the wait.
	r = &result{delivery: &delivery{tries: 3}, outcome: Responded, code: 503, retryAfter: time.Second}
	if f := h.verdictOf(r, epoch); f.due.Sub(epoch) < 90*time.Minute {
		t.Errorf("the delivery waits %v, want at least 90m", f.due.Sub(epoch))
	}
}

func TestStatus410KeepsDeliveryPending(t *testing.T) {
	t.Parallel()
	h := schedule(RetryDelays)
	r := &result{delivery: &delivery{tries: 9}, outcome: Responded, code: 410}
	h.update(r, epoch)
	if f := h.verdictOf(r, epoch); !h.gone || !h.inBackoff(epoch.Add(time.Hour)) || f.status != DeliveryPending || f.tries != 9 {
		t.Errorf("after status 410: verdict = %+v, gone = %v; want pending with 9 tries, and a permanent backoff", f, h.gone)
	}
}

func TestFailingSince(t *testing.T) {
	t.Parallel()
	h := schedule(RetryDelays)
	h.update(&result{outcome: Unreachable}, epoch)
	h.update(&result{outcome: Responded, code: 500}, epoch.Add(28*time.Hour))
	if !h.failingSince.Equal(epoch) {
		t.Errorf("failingSince = %v, want %v, the first failure", h.failingSince, epoch)
	}
	// A failure after more than streakGap without attempts starts a new series.
	later := epoch.Add(8 * 24 * time.Hour)
	h.update(&result{outcome: Unreachable}, later)
	if !h.failingSince.Equal(later) {
		t.Errorf("failingSince = %v, want %v, the first failure after the gap", h.failingSince, later)
	}
	h.update(&result{outcome: Delivered}, later)
	if !h.failingSince.IsZero() || !h.recovered {
		t.Errorf("after a success: failingSince = %v, recovered = %v, want no failingSince and true", h.failingSince, h.recovered)
	}
}

func TestKeysAt(t *testing.T) {
	t.Parallel()
	first, second := "whsec_AQID", "whsec_BAUG"
	r := rotation{secret: first, until: epoch.Add(overlap)}
	for name, tc := range map[string]struct {
		at       time.Time
		promoted bool
		plain    string
		standard int
	}{
		"during the overlap":          {epoch, false, first, 2},
		"promoted":                    {epoch, true, second, 2},
		"just before the end":         {epoch.Add(overlap - 1), false, first, 2},
		"after the overlap":           {epoch.Add(overlap), false, second, 1},
		"after the overlap, promoted": {epoch.Add(overlap), true, second, 1},
	} {
		r.promoted = tc.promoted
		k, err := keysAt(tc.at, second, r)
		if err != nil || k.plain != tc.plain || len(k.standard) != tc.standard || string(k.standard[0]) != "\x04\x05\x06" {
			t.Errorf("%s: keys = %+v, error = %v; want the plain key %s and %d standard keys, the new one first", name, k, err, tc.plain, tc.standard)
		}
	}
}
