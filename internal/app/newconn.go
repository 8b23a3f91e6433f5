package app

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// newConnTime limits how long a vault that stops waits for the first requests of its new
	// connections. A browser may open a connection and send no request.
	newConnTime = time.Second
	newConnPoll = 2 * time.Millisecond
)

// newConns contains the connections that have not sent a request yet. [http.Server.Shutdown] waits for
// these connections, but drops a request that arrives meanwhile, so that the client gets no response.
type newConns struct {
	mu   sync.Mutex
	list map[net.Conn]struct{}
}

// track is the ConnState function of the server.
func (n *newConns) track(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state != http.StateNew {
		delete(n.list, c)
		return
	}
	if n.list == nil {
		n.list = map[net.Conn]struct{}{}
	}
	n.list[c] = struct{}{}
}

func (n *newConns) empty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.list) == 0
}

// wait waits until all connections have sent a request, but at most for newConnTime.
func (n *newConns) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, newConnTime)
	defer cancel()
	tick := time.NewTicker(newConnPoll)
	defer tick.Stop()
	for !n.empty() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
