// Package clocktest has the clock by which tests tell time. It is for tests only.
package clocktest

import (
	"sync"
	"time"
)

// Clock stands still until it is told to go on.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// At gives a clock that shows a time. With a queue it must be the present, with
// which the queue's own begins.
func At(t time.Time) *Clock { return &Clock{at: t} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance has the clock go on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
