package app

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

const (
	// gateTime is the maximum time for which a request waits for the start. A start without a long
	// migration takes less time, so that no request fails during such a start.
	gateTime = 10 * time.Second
	// gateRetry is the Retry-After of responses before the start.
	gateRetry = 5 * time.Second
)

// The phases of a start that /readyz reports.
const (
	migrating = "migrating"
	starting  = "starting"
)

// startGate is the handler of the public port, which is open before the database is migrated. Before the
// start, it responds to health checks itself, and lets other requests wait.
type startGate struct {
	phase   atomic.Value // a string
	handler http.Handler // set before opened is closed
	opened  chan struct{}
	stopped chan struct{}
	stop    sync.Once
	// wait is gateTime, except in tests.
	wait time.Duration
}

func newStartGate() *startGate {
	g := &startGate{opened: make(chan struct{}), stopped: make(chan struct{}), wait: gateTime}
	g.phase.Store(migrating)
	return g
}

// open lets all requests pass to the handler.
func (g *startGate) open() { close(g.opened) }

// close ends the requests that wait for the start.
func (g *startGate) close() { g.stop.Do(func() { close(g.stopped) }) }

// ServeHTTP implements [http.Handler].
func (g *startGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.opened:
		g.handler.ServeHTTP(w, r)
		return
	default:
	}
	switch r.URL.Path {
	case "/healthz":
		plain(w, http.StatusOK, "ok\n")
		return
	case "/readyz":
		g.refuse(w, r)
		return
	}
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case <-g.opened:
		g.handler.ServeHTTP(w, r)
	case <-timer.C:
		g.refuse(w, r)
	case <-g.stopped:
		g.refuse(w, r)
	case <-r.Context().Done():
	}
}

// refuse responds that the vault has not started yet.
func (g *startGate) refuse(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", web.RetryAfter(gateRetry))
	if strings.HasPrefix(r.URL.Path, "/business") {
		web.WriteJSONError(w, r, &fault.Error{Kind: fault.Unavailable, Message: "The vault is starting. Please try again in a moment.", RetryAfter: gateRetry})
		return
	}
	phase, _ := g.phase.Load().(string)
	plain(w, http.StatusServiceUnavailable, phase+"\n")
}
