// Package clocktest has a clock for tests.
package clocktest

import (
	"sync"
	"time"
)

// Clock shows the same time until a test changes it.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// At returns a clock that shows t. A test that runs a queue must start at the present
// time, since the queue has a clock of its own.
func At(t time.Time) *Clock { return &Clock{at: t} }

// Now returns the time that the clock shows.
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
