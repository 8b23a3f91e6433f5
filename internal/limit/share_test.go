package limit_test

import (
	"context"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/limit"
)

// After an exchange, the limit of a key applies to the sum of the requests to all processes.
func TestProcessesShareTheirCounts(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	at := newClock()
	type process struct {
		*limit.Shared

		tokens, addresses *limit.Counter
	}
	open := func(node string) process {
		p := process{limit.NewShared(d, node, at.now), limit.NewCounter(100, at.now), limit.NewCounter(100, at.now)}
		p.Add("token", p.tokens)
		p.Add("address", p.addresses)
		return p
	}
	exchange := func(list ...process) {
		t.Helper()
		for _, p := range list {
			if err := p.Exchange(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(c *limit.Counter, key string, n int) (last limit.Decision) {
		for range n {
			last = c.Take(key)
		}
		return last
	}
	rows := func() (n int) {
		t.Helper()
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM rate_counts`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first, second := open("first"), open("second")
	take(first.tokens, "7", 60)
	take(first.tokens, "rare", 10)
	exchange(first)
	take(second.tokens, "7", 30)
	exchange(second)
	if n := rows(); n != 2 {
		t.Errorf("%d counts are stored, want 2: one of each process for the frequent key", n)
	}
	take(first.tokens, "7", 1)
	exchange(first)
	if got := take(first.tokens, "7", 1); got.Remaining != 8 || !got.Allowed {
		t.Errorf("decision of the first process = %+v, want allowed with 8 remaining requests", got)
	}
	exchange(first)
	take(second.tokens, "7", 1)
	exchange(second)
	if got := take(second.tokens, "7", 7); got.Remaining != 0 || !got.Allowed {
		t.Errorf("decision of the second process on the last of 100 requests = %+v, want allowed", got)
	}
	if got := take(second.tokens, "7", 1); got.Allowed {
		t.Errorf("decision of the second process after 100 requests = %+v, want refused", got)
	}
	exchange(second)
	if got := take(second.tokens, "rare", 1); got.Remaining != 99 {
		t.Errorf("a key that is rare in each process has %d remaining requests, want 99", got.Remaining)
	}
	if got := take(second.addresses, "7", 1); got.Remaining != 99 {
		t.Errorf("the same key of another counter has %d remaining requests, want 99", got.Remaining)
	}
	// A third process, which has counted no request of the key, also refuses it.
	third := open("third")
	take(third.tokens, "other", 1)
	take(third.addresses, "other", 1)
	exchange(third)
	if got := take(third.tokens, "7", 11); got.Allowed {
		t.Errorf("decision of the third process = %+v, want refused", got)
	}
	at.advance(limit.Window)
	// Requests to both counters begin the window at the same time.
	var both sync.WaitGroup
	both.Go(func() { third.addresses.Take("8") })
	both.Go(func() { third.tokens.Take("8") })
	both.Wait()
	if got := take(third.tokens, "7", 1); got.Remaining != 99 {
		t.Errorf("in the next window %d requests remain, want 99", got.Remaining)
	}
	exchange(third)
	if n := rows(); n != 0 {
		t.Errorf("%d counts of the last window are stored, want 0", n)
	}
}

// If an exchange fails, the next exchange shares the same counts, even without a further request.
func TestFailedExchangeIsRepeated(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	at := newClock()
	shared, c := limit.NewShared(d, "first", at.now), limit.NewCounter(100, at.now)
	shared.Add("token", c)
	for range 60 {
		c.Take("7")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shared.Exchange(canceled); err == nil {
		t.Fatal("an exchange with a canceled context returned nil, want an error")
	}
	if err := shared.Exchange(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := d.QueryRowContext(t.Context(), `SELECT coalesce(sum(n), 0) FROM rate_counts`).Scan(&n); err != nil || n != 60 {
		t.Errorf("after the second exchange, the stored counts are %d (error %v), want 60", n, err)
	}
}
