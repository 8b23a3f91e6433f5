// Package clocktest provides a clock for tests. It is for tests only.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a clock that moves only when Advance is called.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// At returns a clock that shows a time. A test with a queue must start it at
// the present time, because the queue starts with the system clock.
func At(t time.Time) *Clock { return &Clock{at: t} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set makes the clock show t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
