package cert

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
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

// losingProxy stands between us and PostgreSQL. Armed, it lets the next commit
// through and loses the answer, as a connection that breaks does.
type losingProxy struct {
	listener net.Listener
	network  string
	target   string
	armed    atomic.Bool
	under    sync.WaitGroup
}

func newLosingProxy(t *testing.T, databaseURL string) (_ *losingProxy, proxied string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p := &losingProxy{network: "tcp", target: u.Host}
	// The test server may listen on a socket alone, whose folder the query names.
	if query := u.Query(); strings.HasPrefix(query.Get("host"), "/") {
		p.network, p.target = "unix", filepath.Join(query.Get("host"), ".s.PGSQL."+cmp.Or(query.Get("port"), "5432"))
		query.Del("host")
		query.Del("port")
		query.Set("sslmode", "disable")
		u.RawQuery = query.Encode()
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.listener.Close(); err != nil {
			t.Error(err)
		}
		p.under.Wait()
	})
	p.under.Go(p.serve)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

func (p *losingProxy) serve() {
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
		p.under.Go(func() {
			forward(server, client, func(sent []byte) bool {
				if bytes.Contains(bytes.ToLower(sent), []byte("commit")) && p.armed.CompareAndSwap(true, false) {
					lost.Store(true)
				}
				return true
			})
		})
		p.under.Go(func() { forward(client, server, func([]byte) bool { return !lost.Load() }) })
	}
}

// forward copies until either side ends or pass says so, and ends both.
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

// A worker that never hears of its commit took the file away that the row had
// come to name: an approved certificate without its verified PDF.
func TestRegressionLostAnswerToACommitLosesNoFile(t *testing.T) {
	t.Parallel()
	proxy, proxied := newLosingProxy(t, dbtest.PostgresURL(t))
	v := newVault(t, dbtest.Open(t, "", proxied))
	c := v.upload(nil)
	v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
		proxy.armed.Store(true)
		return sealed(o, []byte(tailText), false)
	}
	if err := v.work(t.Context(), c, 1); err == nil {
		t.Error("the answer to the commit was not lost")
	}
	got := v.get(c.UUID)
	if got.Status != Approved {
		t.Fatalf("%s: the commit was not made", got.Status)
	}
	content, err := v.OpenVerified(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	// The attempt that the queue makes next finds it done.
	if err := v.work(t.Context(), c, 2); err != nil || len(v.keys()) != 2 {
		t.Errorf("%v, files %v", err, v.keys())
	}
}

// What a broken attempt leaves behind goes with the sweep.
func TestFileOfAnAttemptThatBrokeIsSwept(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	v := newVault(t, d)
	c := v.upload(nil)
	v.exec(`CREATE TRIGGER broken BEFORE UPDATE ON certificates WHEN new.status = 'approved' BEGIN SELECT raise(ABORT, 'broken'); END`)
	if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
		t.Fatalf("err = %v", err)
	}
	v.exec(`DROP TRIGGER broken`)
	v.clock.Advance(spareYounger + time.Hour)
	if err := v.SweepBlobs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := v.keys(); len(keys) != 1 || keys[0] != c.File.Key {
		t.Errorf("files %v, want the original alone", keys)
	}
	v.approved(c)
}
