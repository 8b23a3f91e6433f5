package dbtest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a vault and PostgreSQL. It can break a connection at a
// commit.
type Proxy struct {
	listener net.Listener
	network  string
	target   string
	armed    atomic.Pointer[breach]
	under    sync.WaitGroup
}

// breach is the next connection to break: one on which marker is sent, at the
// commit that follows.
type breach struct {
	marker []byte
	// made lets the commit through and loses its answer.
	made bool
}

// NewProxy starts a proxy of a database, and returns the URL of the database behind
// it.
func NewProxy(tb testing.TB, databaseURL string) (_ *Proxy, proxied string) {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{network: "tcp", target: u.Host}
	// The test server may listen on a socket alone, whose folder the query names.
	if query := u.Query(); strings.HasPrefix(query.Get("host"), "/") {
		p.network, p.target = "unix", filepath.Join(query.Get("host"), ".s.PGSQL."+cmp.Or(query.Get("port"), "5432"))
		query.Del("host")
		query.Del("port")
		query.Set("sslmode", "disable")
		u.RawQuery = query.Encode()
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.listener.Close(); err != nil {
			tb.Error(err)
		}
		p.under.Wait()
	})
	p.under.Go(p.serve)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// LoseAnswer lets a commit through and breaks the connection before its answer: the
// next commit on a connection on which marker was sent, any if it is "".
func (p *Proxy) LoseAnswer(marker string) { p.armed.Store(&breach{marker: []byte(marker), made: true}) }

// LoseCommit breaks the connection before the commit, so that it is not made.
func (p *Proxy) LoseCommit(marker string) { p.armed.Store(&breach{marker: []byte(marker)}) }

// Armed reports whether the proxy still waits for the commit.
func (p *Proxy) Armed() bool { return p.armed.Load() != nil }

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), p.network, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		var lost atomic.Bool
		var marked *breach
		p.under.Go(func() {
			forward(server, client, func(sent []byte) bool {
				b := p.armed.Load()
				if b == nil {
					return true
				}
				if bytes.Contains(sent, b.marker) {
					marked = b
				}
				// The end of the text sets it apart from synchronous_commit.
				if marked != b || !bytes.Contains(sent, []byte("commit\x00")) || !p.armed.CompareAndSwap(b, nil) {
					return true
				}
				lost.Store(true)
				return b.made
			})
		})
		p.under.Go(func() { forward(client, server, func([]byte) bool { return !lost.Load() }) })
	}
}

// forward copies until either side ends or pass returns false, and ends both.
func forward(to io.WriteCloser, from io.ReadCloser, pass func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || !pass(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
