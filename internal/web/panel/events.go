package panel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// eventEvery is how often progress is told, and eventTime for how long one
	// request is told it; browsers ask again by themselves.
	eventEvery = time.Second
	eventTime  = 5 * time.Minute
)

// events tells a page how far something is, as it goes, until it is finished (HTML,
// 9.2 Server-sent events). What is told is what panel.js writes into the page.
func (p *Panel) events(w http.ResponseWriter, r *http.Request, look func(ctx context.Context) (now any, finished bool, err error)) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(eventTime + time.Minute)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("giving events time: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithTimeout(r.Context(), eventTime)
	defer cancel()
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	last := ""
	for {
		now, finished, err := look(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil // the time is over, and browsers ask again
			}
			return p.whole(r, err)
		}
		text, err := json.Marshal(now)
		if err != nil {
			return p.whole(r, err)
		}
		event := ": \n\n" // keeps what is between from closing the connection
		if string(text) != last {
			last = string(text)
			event = "data: " + last + "\n\n"
		}
		if _, err := w.Write([]byte(event)); err != nil {
			return nil // nobody listens any more
		}
		if err := c.Flush(); err != nil || finished {
			return nil // nobody listens any more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Stopping:
			return nil // browsers ask whoever comes after
		case <-tick.C:
		}
	}
}
