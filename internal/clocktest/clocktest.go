// Package clocktest provides a clock for tests.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a clock that changes only when Set or Advance is called.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// At returns a clock with the time t. A test whose queue runs jobs should pass the
// current time, because the queue compares the times of jobs with the system clock.
func At(t time.Time) *Clock { return &Clock{at: t} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set sets the clock to t.
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
