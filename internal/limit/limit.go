// Package limit decides whether a request may run. It counts requests, and it stores the responses
// to requests that must not run twice.
//
// Requests are counted in memory, per process and for the current minute. A count needs no durable
// write, and a restart resets it. Several processes share the counts of frequent keys. Idempotency
// keys are in the database, because they must survive a crash.
package limit

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the period over which requests are counted.
	Window = time.Minute
	// maxKeys limits the memory that callers with many addresses can use. If a counter has maxKeys
	// keys, a new address is counted by its wide network until the window ends. Therefore an attack
	// from up to maxKeys wide networks affects only new addresses in the same networks.
	maxKeys = 200_000
	// ipv6Network is the prefix length of the IPv6 network that one subscriber usually has.
	ipv6Network = 64
	// wideIPv4 and wideIPv6 are the prefix lengths of wide networks. A wide network usually belongs
	// to one organization or to one region of a provider.
	wideIPv4, wideIPv6 = 16, 48
)

// Counter counts requests by key in fixed windows.
type Counter struct {
	max int
	now func() time.Time

	mu    sync.Mutex
	end   time.Time
	count map[string]int
	// limits has the limits of the keys of this window that have a limit other than max.
	limits map[string]int

	// name is the name under which the counts are shared, or "" if they are not.
	name string
	// others has the counts of the other processes in this window. The counters of a process share this map,
	// which is never changed. shared has the counts of this process that the other processes can read.
	others, shared map[digest]int
	// changed reports whether a request was counted since the last exchange.
	changed bool

	refused atomic.Int64
}

// NewCounter returns a counter that allows limit requests per window and key; 0 means no limit.
func NewCounter(limit int, now func() time.Time) *Counter {
	return &Counter{max: limit, now: now, count: map[string]int{}, limits: map[string]int{}}
}

// Decision is the state of a key after a request was counted.
type Decision struct {
	// Limit is 0 if there is no limit.
	Limit, Remaining int
	Allowed          bool
	// RetryAfter is the time until the window ends, or 0 if there is no limit.
	RetryAfter time.Duration
}

// Take counts one request for a key.
func (c *Counter) Take(key string) Decision {
	return c.TakeWithin(key, c.max)
}

// TakeWithin is like Take, but with the limit most; 0 means no limit. All requests of a key with a limit
// of its own must be counted with TakeWithin.
func (c *Counter) TakeWithin(key string, most int) Decision {
	if most == 0 {
		return Decision{Allowed: true}
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.end) {
		c.begin(now)
	}
	if _, ok := c.count[key]; !ok && len(c.count) >= maxKeys {
		key = wideKey(key)
		// The counter has up to maxKeys further keys for wide networks. All wide networks beyond
		// this number share one count.
		if _, ok := c.count[key]; !ok && len(c.count) >= 2*maxKeys {
			key = ""
		}
	}
	if most != c.max {
		c.limits[key] = most
	}
	c.count[key]++
	c.changed = true
	n := c.count[key]
	if len(c.others) > 0 {
		n += c.others[c.digest(key)]
	}
	if n > most {
		c.refused.Add(1)
	}
	return Decision{Limit: most, Remaining: max(0, most-n), Allowed: n <= most, RetryAfter: c.end.Sub(now)}
}

// limitOf returns the limit of a key in this window.
func (c *Counter) limitOf(key string) int {
	if most, ok := c.limits[key]; ok {
		return most
	}
	return c.max
}

// Refused returns the number of requests that exceeded the limit since the counter was created.
func (c *Counter) Refused() int64 { return c.refused.Load() }

// begin begins a new window. The windows of processes that share their counts begin at the same time.
func (c *Counter) begin(now time.Time) {
	clear(c.count)
	clear(c.limits)
	c.others = nil
	clear(c.shared)
	c.end = now.Add(Window)
	if c.name != "" {
		c.end = now.Truncate(Window).Add(Window)
	}
}

// AddressKey returns the key of a client's address. The key of an IPv6 address is its /64 network,
// since one subscriber can use all addresses of that network. All unknown addresses have the same
// key, which is not the key of any known address.
func AddressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return network(a, ipv6Network)
	}
	if !a.IsValid() {
		return "unknown"
	}
	return a.String()
}

// Networks returns the keys of the /56 and the /48 network of an IPv6 address. An attacker who has
// one of these networks has many /64 networks. Networks returns nil for other addresses.
func Networks(a netip.Addr) []string {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return nil
	}
	return []string{network(a, 56), network(a, 48)}
}

// wideKey returns the key of the wide network that contains the address in a key from AddressKey.
// It returns "" for a key without an address.
func wideKey(key string) string {
	address, _, _ := strings.Cut(key, "/")
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case a.Is4():
		return network(a, wideIPv4)
	default:
		return network(a, wideIPv6)
	}
}

func network(a netip.Addr, bits int) string {
	p, err := a.Prefix(bits)
	if err != nil {
		return a.String()
	}
	return p.String()
}
