package dbtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a proxy between a vault and PostgreSQL. It can break a connection at a commit, stop forwarding
// data, and lead to several databases, like a balancer.
type Proxy struct {
	listener net.Listener
	network  string
	target   string
	armed    atomic.Pointer[breach]
	diverted atomic.Pointer[diversion]
	running  sync.WaitGroup
	// statements is the number of statements that clients sent.
	statements atomic.Int64

	mu sync.Mutex
	// silent is not nil while the proxy forwards no data. It is closed when the proxy resumes.
	silent chan struct{}
}

// breach specifies the connection to break: the first connection that commits after it has sent marker.
type breach struct {
	marker []byte
	// commits is true if the proxy forwards the commit and only its response is lost.
	commits bool
}

// diversion specifies the names of databases. New connections that ask for one use the other.
type diversion struct{ from, to []byte }

// NewProxy starts a proxy for a database, and returns the URL that connects to the database through
// the proxy.
func NewProxy(tb testing.TB, databaseURL string) (_ *Proxy, proxied string) {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{network: "tcp", target: u.Host}
	// The test server may listen only on a socket, whose folder is in the query of the URL.
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
		p.Resume()
		if err := p.listener.Close(); err != nil {
			tb.Error(err)
		}
		p.running.Wait()
	})
	p.running.Go(p.serve)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// LoseResponse makes the proxy forward the next commit and break the connection before PostgreSQL's
// response. The commit is the next commit of a connection that sends marker before it, or of any
// connection if marker is "".
func (p *Proxy) LoseResponse(marker string) {
	p.armed.Store(&breach{marker: []byte(marker), commits: true})
}

// LoseCommit makes the proxy break the connection before the next commit is forwarded, so that
// PostgreSQL does not commit. marker is as in LoseResponse.
func (p *Proxy) LoseCommit(marker string) { p.armed.Store(&breach{marker: []byte(marker)}) }

// Silence stops the proxy from forwarding data. The connections stay open, and new connections are
// accepted.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent == nil {
		p.silent = make(chan struct{})
	}
}

// Resume ends Silence. The proxy then forwards the data that it received during the silence.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
}

// wait waits while the proxy is silent.
func (p *Proxy) wait() {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

// Divert makes new connections to one database use another one. Both URLs are from this package, so that
// the names have the same length.
func (p *Proxy) Divert(tb testing.TB, fromURL, toURL string) {
	tb.Helper()
	name := func(databaseURL string) []byte {
		u, err := url.Parse(databaseURL)
		if err != nil {
			tb.Fatal(err)
		}
		return []byte(strings.TrimPrefix(u.Path, "/"))
	}
	p.diverted.Store(&diversion{name(fromURL), name(toURL)})
}

// Armed reports whether the proxy still waits for the commit of LoseResponse or LoseCommit.
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
		var messages messages
		divert := p.diverted.Load()
		p.running.Go(func() {
			forward(server, client, func(sent []byte) bool {
				p.statements.Add(messages.statements(sent))
				p.wait()
				if divert != nil { // the first message has the name
					if i := bytes.Index(sent, divert.from); i >= 0 {
						copy(sent[i:], divert.to)
					}
					divert = nil
				}
				b := p.armed.Load()
				if b == nil {
					return true
				}
				if bytes.Contains(sent, b.marker) {
					marked = b
				}
				// The NUL byte distinguishes commit from synchronous_commit.
				if marked != b || !bytes.Contains(sent, []byte("commit\x00")) || !p.armed.CompareAndSwap(b, nil) {
					return true
				}
				lost.Store(true)
				return b.commits
			})
		})
		p.running.Go(func() {
			forward(client, server, func([]byte) bool {
				p.wait()
				return !lost.Load()
			})
		})
	}
}

// Statements returns the number of statements that clients have sent.
func (p *Proxy) Statements() int64 { return p.statements.Load() }

// messages reads the messages of a client (PostgreSQL documentation, 55.7).
type messages struct {
	// head is the part of the current message's head that has arrived. rest is the number of bytes of
	// the message's body that have not arrived. started is true after the first message.
	head    []byte
	rest    int
	started bool
}

// statements reads the next part of the stream and returns the number of statements that begin in
// this part.
func (m *messages) statements(sent []byte) (n int64) {
	for len(sent) > 0 {
		if m.rest > 0 {
			k := min(m.rest, len(sent))
			m.rest, sent = m.rest-k, sent[k:]
			continue
		}
		size := 4 // the first message has no type
		if m.started {
			size = 5
		}
		k := min(size-len(m.head), len(sent))
		m.head, sent = append(m.head, sent[:k]...), sent[k:]
		if len(m.head) < size {
			return n
		}
		m.rest = int(binary.BigEndian.Uint32(m.head[size-4:])) - 4
		if m.started && (m.head[0] == 'Q' || m.head[0] == 'E') {
			n++
		}
		// A request for TLS, which has 8 bytes, may precede the first message.
		m.started, m.head = m.started || m.rest != 4, m.head[:0]
	}
	return n
}

// forward copies data until one of the connections ends or allow returns false, and closes both
// connections.
func forward(to io.WriteCloser, from io.ReadCloser, allow func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || !allow(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
