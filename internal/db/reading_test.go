package db

import (
	"testing"
	"time"
)

// A slow reading of the server's clock does not replace an exact reading, unless the clock was changed
// or the exact reading is old.
func TestSlowReadingOfTheClock(t *testing.T) {
	t.Parallel()
	local, server := time.Now(), time.Unix(1_000_000, 0)
	last := &reading{server: server, local: local, uncertain: time.Millisecond}
	for name, c := range map[string]struct {
		after, uncertain, ahead time.Duration
		want                    bool
	}{
		"exact":                        {time.Second, time.Millisecond, 0, true},
		"slow":                         {time.Second, 500 * time.Millisecond, 400 * time.Millisecond, false},
		"slow, the clock was changed":  {time.Second, 500 * time.Millisecond, 20 * time.Second, true},
		"slow, the clock was put back": {time.Second, 500 * time.Millisecond, -20 * time.Second, true},
		"slow, but the last is old":    {10 * time.Minute, 500 * time.Millisecond, 400 * time.Millisecond, true},
	} {
		r := &reading{server: server.Add(c.after + c.ahead), local: local.Add(c.after), uncertain: c.uncertain}
		if got := r.replaces(last); got != c.want {
			t.Errorf("%s: replaces = %v, want %v", name, got, c.want)
		}
	}
}
