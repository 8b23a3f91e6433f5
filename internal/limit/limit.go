// Package limit says whether a request may be done: it counts requests, and it
// remembers those that must not be done twice.
//
// Counting is in memory, of this process alone and of the present minute: it costs
// no durable write, and a restart forgives. Idempotency keys are in the database,
// since a promise that a crash breaks is none.
package limit

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// Window is the time over which requests are counted.
	Window = time.Minute
	// maxKeys bounds the memory that callers with many addresses can take; past
	// it new keys share one counter until the window ends.
	maxKeys = 200_000
	// ipv6Network is what one customer usually has of IPv6.
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

// NewCounter makes a counter of at most max requests a window and key; 0 does
// not limit.
func NewCounter(limit int, now func() time.Time) *Counter {
	return &Counter{max: limit, now: now, count: map[string]int{}}
}

// Answer is what a caller may still do.
type Answer struct {
	// Limit is 0 where there is none.
	Limit, Remaining int
	Allowed          bool
	// RetryAfter is when the window ends.
	RetryAfter time.Duration
}

// Take counts one request of a key.
func (c *Counter) Take(key string) Answer {
	if c.max == 0 {
		return Answer{Allowed: true}
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
	return Answer{Limit: c.max, Remaining: max(0, c.max-n), Allowed: n <= c.max, RetryAfter: c.end.Sub(now)}
}

// AddressKey is the key of a client's address: IPv6 by its /64, since one
// customer has that many addresses to change between.
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
