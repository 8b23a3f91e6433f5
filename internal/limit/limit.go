// Package limit decides whether a request may run. It counts requests, and it stores the responses
// to requests that must not run twice.
//
// Requests are counted in memory, per process and for the current minute. A count needs no durable
// write, and a restart resets it. Idempotency keys are in the database, because they must survive a
// crash.
package limit

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// Window is the period over which requests are counted.
	Window = time.Minute
	// maxKeys limits the memory that callers with many addresses can use. If there are more keys,
	// new keys share one counter until the window ends.
	maxKeys = 200_000
	// ipv6Network is the prefix length of the IPv6 network that one subscriber usually has.
	ipv6Network = 64
)

// Counter counts requests by key in fixed windows.
type Counter struct {
	max int
	now func() time.Time

	mu    sync.Mutex
	end   time.Time
	count map[string]int
}

// NewCounter returns a counter of at most limit requests per window and key; 0
// means no limit.
func NewCounter(limit int, now func() time.Time) *Counter {
	return &Counter{max: limit, now: now, count: map[string]int{}}
}

// Decision is the state of a key after a request was counted.
type Decision struct {
	// Limit is 0 if there is no limit.
	Limit, Remaining int
	Allowed          bool
	// RetryAfter is the time until the window ends.
	RetryAfter time.Duration
}

// Take counts one request for a key.
func (c *Counter) Take(key string) Decision {
	if c.max == 0 {
		return Decision{Allowed: true}
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.end) {
		clear(c.count)
		c.end = now.Add(Window)
	}
	if _, ok := c.count[key]; !ok && len(c.count) >= maxKeys {
		key = ""
	}
	c.count[key]++
	n := c.count[key]
	return Decision{Limit: c.max, Remaining: max(0, c.max-n), Allowed: n <= c.max, RetryAfter: c.end.Sub(now)}
}

// AddressKey returns the key of a client's address. For IPv6 it is the /64 network, since one
// subscriber can use all addresses of that network.
func AddressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(ipv6Network)
		if err == nil {
			return p.String()
		}
	}
	return a.String()
}
