package webhook

import (
	"testing"
	"time"
)

var (
	epoch   = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	refused = result{outcome: Unreachable}
	fine    = result{outcome: Delivered, code: 200}
)

func answered(code int) result { return result{outcome: Answered, code: code} }

// Only outcomes that show that a receiver is down or overloaded count. Ten in a row open the
// breaker, and any other answer restarts the count.
func TestBreakerCountsOnlyOutages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		results []result
		open    bool
	}{
		"ten refused":              {repeat(refused, 10), true},
		"nine refused":             {repeat(refused, 9), false},
		"ten timeouts":             {repeat(result{outcome: TimedOut}, 10), true},
		"ten of TLS":               {repeat(result{outcome: Untrusted}, 10), true},
		"ten of 429":               {repeat(answered(429), 10), true},
		"ten of 503":               {repeat(answered(503), 10), true},
		"mixed":                    {append(repeat(refused, 5), repeat(answered(503), 5)...), true},
		"hundred of 500":           {repeat(answered(500), 100), false},
		"hundred of 302":           {repeat(answered(302), 100), false},
		"hundred without name":     {repeat(result{outcome: Unresolved}, 100), false},
		"hundred blocked":          {repeat(result{outcome: Blocked}, 100), false},
		"hundred broken":           {repeat(result{outcome: Broken}, 100), false},
		"a success between":        {append(append(repeat(refused, 9), fine), repeat(refused, 9)...), false},
		"a 500 between":            {append(append(repeat(refused, 9), answered(500)), repeat(refused, 9)...), false},
		"an unknown name between":  {append(append(repeat(refused, 9), result{outcome: Unresolved}), refused), true},
		"those in flight, no more": {repeat(refused, 13), true},
	} {
		h := schedule(Waits)
		for i := range tc.results {
			h.note(&tc.results[i], epoch)
		}
		if h.halfOpen() != tc.open || h.inBackoff(epoch) != tc.open {
			t.Errorf("%s: open %v, not %v", name, h.halfOpen(), tc.open)
		}
		if tc.open && h.backoffUntil.Sub(epoch) != 5*time.Second {
			t.Errorf("%s: first open for %v", name, h.backoffUntil.Sub(epoch))
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
			h.note(&result{outcome: Unreachable}, epoch)
		}
		inBackoff = append(inBackoff, h.backoffUntil.Sub(epoch))
		for range probes {
			at := h.backoffUntil
			if h.inBackoff(at) || !h.inBackoff(at.Add(-1)) {
				t.Fatal("the breaker does not allow an attempt after its time, or allows one before")
			}
			probe.probe = true
			h.note(&probe, at)
			inBackoff = append(inBackoff, h.backoffUntil.Sub(at))
		}
		return h, inBackoff
	}
	_, inBackoff := open(Waits, 8, refused)
	for i, seconds := range []float64{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		if inBackoff[i].Seconds() != seconds {
			t.Errorf("opening %d is for %v, not %v s", i+1, inBackoff[i], seconds)
		}
	}
	if _, inBackoff := open([]time.Duration{time.Hour}, 2, refused); inBackoff[0] != time.Hour || inBackoff[2] != time.Hour {
		t.Errorf("with a first wait of an hour open for %v", inBackoff)
	}
	// Only an answer closes the breaker. Otherwise a probe that found no address would let the whole
	// backlog through.
	for _, probe := range []result{{outcome: Unresolved}, {outcome: Blocked}, {outcome: Broken}} {
		if h, _ := open(Waits, 1, probe); !h.inBackoff(h.backoffUntil.Add(-1)) || h.openings != 2 {
			t.Errorf("a probe that ended in %s let others through", probe.outcome)
		}
	}
	for _, probe := range []result{fine, answered(500), answered(404)} {
		if h, _ := open(Waits, 1, probe); h.halfOpen() || h.failures != 0 || !h.closed {
			t.Errorf("a probe that was answered with %d left the breaker open", probe.code)
		}
	}
}

func TestVerdictFollowsSchedule(t *testing.T) {
	t.Parallel()
	h := schedule(Waits)
	d := &delivery{}
	for i, wait := range Waits {
		r := &result{delivery: d, outcome: Answered, code: 500}
		h.note(r, epoch)
		f := h.verdictOf(r, epoch)
		if f.status != DeliveryPending || f.tries != i+1 {
			t.Fatalf("after %d tries: %+v", i+1, f)
		}
		if got := f.due.Sub(epoch); got < wait*8/10 || got > wait*12/10 {
			t.Errorf("after %d tries it waits %v, not %v ± 20 %%", i+1, got, wait)
		}
		d.tries = f.tries
	}
	r := &result{delivery: d, outcome: Answered, code: 500}
	if f := h.verdictOf(r, epoch); f.status != DeliveryExhausted || f.tries != len(Waits)+1 {
		t.Errorf("after the last try: %+v", f)
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
		t.Errorf("waits of 100 s are between %v and %v", least, most)
	}
}

// While the breaker is open, deliveries do not age: a probe costs no try, and the next probe is
// another delivery.
func TestProbeCostsNoTry(t *testing.T) {
	t.Parallel()
	h := schedule(Waits)
	for range breakAfter {
		h.note(&result{outcome: Unreachable}, epoch)
	}
	d := &delivery{tries: 9}
	r := &result{delivery: d, outcome: Unreachable, probe: true}
	h.note(r, h.backoffUntil)
	if f := h.verdictOf(r, epoch); f.status != DeliveryPending || f.tries != 9 || !f.due.Equal(h.backoffUntil) {
		t.Errorf("after a failed probe: %+v", f)
	}
	// If a probe was answered, the answer decides about its delivery.
	r = &result{delivery: d, outcome: Answered, code: 500, probe: true}
	h.note(r, h.backoffUntil)
	if f := h.verdictOf(r, epoch); f.status != DeliveryExhausted {
		t.Errorf("after an answered probe: %+v", f)
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
			t.Errorf("Retry-After: %s is %v, not %v", value, got, want)
		}
	}
	h := schedule(Waits)
	r := &result{delivery: &delivery{}, outcome: Answered, code: 429, retryAfter: time.Hour}
	h.note(r, epoch)
	if f := h.verdictOf(r, epoch); f.due.Sub(epoch) != time.Hour {
		t.Errorf("the delivery waits %v, not the hour it was asked to", f.due.Sub(epoch))
	}
	if got := h.backoffUntil.Sub(epoch); got != maxOpening {
		t.Errorf("the endpoint is left alone for %v", got)
	}
	// A receiver cannot shorten the wait.
	r = &result{delivery: &delivery{tries: 3}, outcome: Answered, code: 503, retryAfter: time.Second}
	if f := h.verdictOf(r, epoch); f.due.Sub(epoch) < 90*time.Minute {
		t.Errorf("the delivery waits %v only", f.due.Sub(epoch))
	}
}

func TestGoneKeepsTheDelivery(t *testing.T) {
	t.Parallel()
	h := schedule(Waits)
	r := &result{delivery: &delivery{tries: 9}, outcome: Answered, code: 410}
	h.note(r, epoch)
	if f := h.verdictOf(r, epoch); !h.gone || !h.inBackoff(epoch.Add(time.Hour)) || f.status != DeliveryPending || f.tries != 9 {
		t.Errorf("after 410: %+v, gone %v", f, h.gone)
	}
}

func TestFailingSince(t *testing.T) {
	t.Parallel()
	h := schedule(Waits)
	h.note(&result{outcome: Unreachable}, epoch)
	h.note(&result{outcome: Answered, code: 500}, epoch.Add(28*time.Hour))
	if !h.failingSince.Equal(epoch) {
		t.Errorf("failing since %v", h.failingSince)
	}
	// After a week without attempts a failure starts a new series.
	later := epoch.Add(8 * 24 * time.Hour)
	h.note(&result{outcome: Unreachable}, later)
	if !h.failingSince.Equal(later) {
		t.Errorf("failing since %v, though nothing was tried for a week", h.failingSince)
	}
	h.note(&result{outcome: Delivered}, later)
	if !h.failingSince.IsZero() || !h.recovered {
		t.Error("a success does not end the time of failing")
	}
}

func TestKeysOfARotation(t *testing.T) {
	t.Parallel()
	first, second := "whsec_AQID", "whsec_BAUG"
	r := rotation{secret: first, until: epoch.Add(overlap)}
	for name, tc := range map[string]struct {
		at       time.Time
		promoted bool
		plain    string
		standard int
	}{
		"in the overlap":          {epoch, false, first, 2},
		"promoted":                {epoch, true, second, 2},
		"at the end":              {epoch.Add(overlap - 1), false, first, 2},
		"over":                    {epoch.Add(overlap), false, second, 1},
		"over, and promoted once": {epoch.Add(overlap), true, second, 1},
	} {
		r.promoted = tc.promoted
		k, err := keysAt(tc.at, second, r)
		if err != nil || k.plain != tc.plain || len(k.standard) != tc.standard || string(k.standard[0]) != "\x04\x05\x06" {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
}
