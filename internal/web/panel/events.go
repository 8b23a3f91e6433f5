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
	// eventEvery is the interval between progress events. eventTime bounds one event stream;
	// browsers reconnect by themselves.
	eventEvery = time.Second
	eventTime  = 5 * time.Minute
)

// events streams progress to a page until the work is finished (HTML, 9.2 Server-sent events).
// panel.js writes the data into the page.
func (p *Panel) events(w http.ResponseWriter, r *http.Request, look func(ctx context.Context) (now any, finished bool, err error)) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(eventTime + time.Minute)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting the deadline of an event stream: %w", err)
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
				return nil // the stream has reached its time limit; browsers reconnect
			}
			return p.whole(r, err)
		}
		text, err := json.Marshal(now)
		if err != nil {
			return p.whole(r, err)
		}
		event := ": \n\n" // keeps intermediaries from closing an idle connection
		if string(text) != last {
			last = string(text)
			event = "data: " + last + "\n\n"
		}
		if _, err := w.Write([]byte(event)); err != nil {
			return nil // the client is gone
		}
		if err := c.Flush(); err != nil || finished {
			return nil // the client is gone
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Stopping:
			return nil // browsers reconnect, to another node or to the restarted one
		case <-tick.C:
		}
	}
}
