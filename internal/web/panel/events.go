package panel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/identity"
)

const (
	// eventEvery is the interval at which the progress is read. eventTime is the time limit of one
	// event stream, after which browsers reconnect.
	eventEvery = time.Second
	eventTime  = 5 * time.Minute
)

// events streams progress to a script of a page (HTML, 9.2 Server-sent events). read returns the current
// progress, and reports whether the work is finished. events sends an event when the progress has changed.
// The stream ends when the work is finished, the session of the request ends, the time limit is reached,
// the server stops or the client closes the connection.
func (p *Panel) events(w http.ResponseWriter, r *http.Request, read func(ctx context.Context) (now any, finished bool, err error)) error {
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
		if err := p.Gate.CheckSession(r); errors.Is(err, identity.ErrNoSession) {
			return nil
		} else if err != nil {
			return p.finishStream(r, err)
		}
		now, finished, err := read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil // the time limit is reached, or the client has closed the connection
			}
			return p.finishStream(r, err)
		}
		text, err := json.Marshal(now)
		if err != nil {
			return p.finishStream(r, err)
		}
		event := ": \n\n" // a comment, so that proxies do not close an idle connection
		if string(text) != last {
			last = string(text)
			event = "data: " + last + "\n\n"
		}
		if _, err := w.Write([]byte(event)); err != nil {
			return nil // the client has closed the connection
		}
		if err := c.Flush(); err != nil || finished {
			return nil // the client has closed the connection, or the work is finished
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Stopping:
			return nil // browsers reconnect to another node, or to this node after its restart
		case <-tick.C:
		}
	}
}
