//go:build e2e

package e2e

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"testing"
	"time"
)

const (
	// checkEvery is the pause between two health checks.
	checkEvery = 200 * time.Millisecond
	// checkTime is the time limit of a health check, and of connecting to a vault.
	checkTime = time.Second
)

// balancer is a proxy in front of several vaults. It sends requests in turn to the vaults whose
// /readyz succeeds. It does not repeat a request that a vault may have received.
type balancer struct {
	nodes []string // their addresses

	mu   sync.Mutex
	up   map[string]bool // by address
	next int
}

var errNoNode = errors.New("no vault is ready")

// balance starts a balancer for the vaults at the given addresses, and returns the URL of the balancer. The
// balancer stops at the end of the test.
func balance(t *testing.T, nodes []string) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{nodes: nodes, up: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "vault"
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Proto", "https")
		},
		// If a vault refuses the connection, dial connects to the next vault. At this time no request has
		// been sent.
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: b.dial},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute, ErrorLog: proxy.ErrorLog}
	go func() { _ = server.Serve(l) }()
	go b.check(t.Context())
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

// ready returns the addresses of the ready vaults. Each call begins the list at the next vault.
func (b *balancer) ready() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	for i := range b.nodes {
		if n := b.nodes[(b.next+i)%len(b.nodes)]; b.up[n] {
			list = append(list, n)
		}
	}
	return list
}

func (b *balancer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	err := errNoNode
	for _, address := range b.ready() {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: checkTime}).DialContext(ctx, network, address); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// check checks all vaults until ctx is done.
func (b *balancer) check(ctx context.Context) {
	client := &http.Client{Timeout: checkTime, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		var all sync.WaitGroup
		for _, address := range b.nodes {
			all.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
				if err != nil {
					return
				}
				req.Header.Set("X-Forwarded-Proto", "https")
				res, err := client.Do(req)
				up := err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
				b.mu.Lock()
				b.up[address] = up
				b.mu.Unlock()
			})
		}
		all.Wait()
		select {
		case <-ctx.Done():
		case <-time.After(checkEvery):
		}
	}
}
