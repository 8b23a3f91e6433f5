package webhook_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// TestReceiverBehaviours checks the recorded attempt for each behaviour of a receiver.
func TestReceiverBehaviours(t *testing.T) {
	t.Parallel()
	var redirected atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	t.Cleanup(target.Close)
	roots := x509.NewCertPool()
	for name, tc := range map[string]struct {
		receiver func(t *testing.T) string
		want     attempt
		body     string
	}{
		"200":      {receiverURL(respondWith(200)), attempt{status: "delivered", outcome: "delivered", code: 200}, ""},
		"299":      {receiverURL(respondWith(299)), attempt{status: "delivered", outcome: "delivered", code: 299}, ""},
		"204":      {receiverURL(respondWith(204)), attempt{status: "delivered", outcome: "delivered", code: 204}, ""},
		"304":      {receiverURL(respondWith(304)), attempt{status: "pending", outcome: "answered", code: 304}, ""},
		"401":      {receiverURL(respondWith(401)), attempt{status: "pending", outcome: "answered", code: 401}, ""},
		"500":      {receiverURL(respondWith(500)), attempt{status: "pending", outcome: "answered", code: 500}, ""},
		"redirect": {receiverURL(http.RedirectHandler(target.URL, http.StatusFound).ServeHTTP), attempt{status: "pending", outcome: "answered", code: 302}, ""},
		"redirect with status 308": {
			receiverURL(http.RedirectHandler(target.URL, http.StatusPermanentRedirect).ServeHTTP), attempt{status: "pending", outcome: "answered", code: 308}, "",
		},
		"body that is not UTF-8": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("a\x00b\xFFc"))
		}), attempt{status: "pending", outcome: "answered", code: 500}, "a\uFFFDb\uFFFDc"},
		"long body": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		}), attempt{status: "delivered", outcome: "delivered", code: 200, truncated: true}, strings.Repeat("x", 4096)},
		"endless body": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}), attempt{status: "delivered", outcome: "delivered", code: 200, truncated: true}, strings.Repeat("x", 4096)},
		"compressed body is not decoded": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "not gzip")
		}), attempt{status: "delivered", outcome: "delivered", code: 200}, "not gzip"},
		"connection closed in the body": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			writeAndReset(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
		}), attempt{status: "pending", outcome: "broken", code: 200}, "half"},
		"connection reset without a response": {receiverURL(func(w http.ResponseWriter, _ *http.Request) { writeAndReset(t, w, "") }), attempt{status: "pending", outcome: "broken"}, ""},
		"not HTTP": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			writeAndReset(t, w, "SSH-2.0-OpenSSH\r\n")
		}), attempt{status: "pending", outcome: "broken"}, ""},
		"headers too large": {receiverURL(func(w http.ResponseWriter, _ *http.Request) {
			writeAndReset(t, w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100_000)+"\r\n\r\n")
		}), attempt{status: "pending", outcome: "broken"}, ""},
		"connection refused":    {unusedURL, attempt{status: "pending", outcome: "unreachable"}, ""},
		"unknown host name":     {func(*testing.T) string { return "https://hooks.invalid/" }, attempt{status: "pending", outcome: "dns"}, ""},
		"private address":       {func(*testing.T) string { return "https://10.0.0.1/" }, attempt{status: "pending", outcome: "blocked"}, ""},
		"metadata service":      {func(*testing.T) string { return "http://169.254.169.254/latest" }, attempt{status: "pending", outcome: "blocked"}, ""},
		"untrusted certificate": {tlsReceiver(t, x509.NewCertPool(), time.Hour), attempt{status: "pending", outcome: "tls"}, ""},
		"expired certificate":   {tlsReceiver(t, roots, -time.Minute), attempt{status: "pending", outcome: "tls"}, ""},
		"valid certificate":     {tlsReceiver(t, roots, time.Hour), attempt{status: "delivered", outcome: "delivered", code: 204}, ""},
		"server without TLS": {func(t *testing.T) string {
			return strings.Replace(receiverURL(respondWith(200))(t), "http://", "https://", 1)
		}, attempt{status: "pending", outcome: "tls"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
			inst := f.institution(t, "AAA")
			e, _ := f.endpointAt(t, inst, tc.receiver(t))
			f.startDeliverer(t, webhook.DelivererConfig{
				Transport: safehttp.Transport(safehttp.Options{Allow: loopback, Roots: roots}), Waits: []time.Duration{time.Hour},
			})
			f.emit(t, inst, f.certificate(t, inst), 1)
			got := f.awaitAttempt(t, e.ID, 1)
			if got.status != tc.want.status || got.outcome != tc.want.outcome || got.code != tc.want.code || got.truncated != tc.want.truncated {
				t.Errorf("attempt = %+v, want %+v", got, tc.want)
			}
			if got.responseBody != tc.body {
				t.Errorf("logged response body = %.100q, want %.100q", got.responseBody, tc.body)
			}
			if got.code == 0 && got.failure == "" || strings.Contains(got.failure, "127.0.0.1") || strings.Contains(got.failure, "10.0.0.1") {
				t.Errorf("logged error = %q, want a text without the address, and not an empty text if there was no response", got.failure)
			}
			if redirected.Load() != 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

func receiverURL(handler http.HandlerFunc) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return startReceiver(t, handler).URL
	}
}

// writeAndReset writes raw bytes and closes the connection. If there are no bytes, it resets the
// connection.
func writeAndReset(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	h, ok := w.(http.Hijacker)
	if !ok {
		t.Error("the test server does not support Hijack")
		return
	}
	conn, rw, err := h.Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = rw.WriteString(text)
	_ = rw.Flush()
	if text == "" {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0)
		}
	}
	_ = conn.Close()
}

// unusedURL returns a URL with a port on which no server listens.
func unusedURL(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

var rootsMu sync.Mutex

// tlsReceiver creates a certificate that expires after the given lifetime, and adds it to pool. It
// returns a function that starts a receiver with this certificate.
func tlsReceiver(t *testing.T, pool *x509.CertPool, lifetime time.Duration) func(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "receiver"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(lifetime), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	rootsMu.Lock()
	pool.AddCert(leaf)
	rootsMu.Unlock()
	return func(t *testing.T) string {
		t.Helper()
		s := httptest.NewUnstartedServer(respondWith(204))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
}

// A response with status 410 switches the endpoint off and notifies its owners. The delivery stays
// pending.
func TestStatus410SwitchesOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		r := startReceiver(t, respondWith(http.StatusGone))
		e, _ := f.endpointAt(t, inst, r.URL)
		notices := make(chan webhook.Notice, 10)
		f.startDeliverer(t, webhook.DelivererConfig{Notify: func(_ context.Context, _ *db.Tx, n webhook.Notice) error { notices <- n; return nil }})
		f.emit(t, inst, f.certificate(t, inst), 1)
		if a := f.awaitAttempt(t, e.ID, 1); a.status != "pending" || a.code != 410 {
			t.Errorf("after status 410: attempt = %+v, want a pending delivery with code 410", a)
		}
		if n := <-notices; n.Kind != webhook.NoticeSwitchedOff || n.Reason != webhook.ReasonGone || n.Endpoint != e.UUID || n.InstitutionID != inst {
			t.Errorf("notice = %+v, want switched off with reason gone for the endpoint", n)
		}
		now, err := f.Endpoint(t.Context(), inst, e.UUID)
		if err != nil || now.Status != webhook.SwitchedOff || now.StopReason != webhook.ReasonGone || now.StoppedAt == nil {
			t.Errorf("endpoint = %+v, error = %v; want switched off with reason gone and StoppedAt", now, err)
		}
	})
}

// Retry-After applies to the delivery and to the endpoint.
func TestRetryAfterAppliesToEndpoint(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	inst := f.institution(t, "AAA")
	r := startReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	e, _ := f.endpointAt(t, inst, r.URL)
	f.startDeliverer(t, webhook.DelivererConfig{})
	f.emit(t, inst, f.certificate(t, inst), 1)
	f.awaitAttempt(t, e.ID, 1)
	list, err := f.Log(t.Context(), inst, e.UUID, webhook.LogQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if wait := time.Until(*list[0].DueAt); wait < 119*time.Second || wait > 121*time.Second {
		t.Errorf("the delivery waits %v, want 2m", wait)
	}
	now, err := f.Endpoint(t.Context(), inst, e.UUID)
	if err != nil || now.BreakerOpen || now.BackoffUntil == nil || time.Until(*now.BackoffUntil) < 119*time.Second {
		t.Errorf("endpoint = %+v, error = %v; want a closed breaker and a backoff of 2m", now, err)
	}
}

// pipe returns a transport that calls serve with the other end of each connection. The connections are
// in memory, because synctest does not work with network connections.
func pipe(t *testing.T, serve func(conn net.Conn)) *http.Transport {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	return &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		wg.Go(func() {
			defer theirs.Close()
			serve(theirs)
		})
		return ours, nil
	}}
}

// read reads a request from a connection and reports whether it is complete.
func read(conn net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// One deadline of 15 s applies to the whole attempt, no matter which part is slow.
func TestAttemptTimesOut(t *testing.T) {
	t.Parallel()
	sendSlowly := func(conn net.Conn, first, repeated string) {
		if !read(conn) {
			return
		}
		_, err := io.WriteString(conn, first)
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(conn, repeated)
		}
	}
	for name, serve := range map[string]func(conn net.Conn){
		"request is not read": func(net.Conn) { time.Sleep(time.Minute) },
		"no response":         func(conn net.Conn) { read(conn); _, _ = io.Copy(io.Discard, conn) },
		"slow headers":        func(conn net.Conn) { sendSlowly(conn, "HTTP/1.1 200 OK\r\n", "X: y\r\n") },
		"slow body":           func(conn net.Conn) { sendSlowly(conn, "HTTP/1.1 200 OK\r\n\r\n", "x") },
		"incomplete body":     func(conn net.Conn) { sendSlowly(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
				inst := f.institution(t, "AAA")
				e, _ := f.endpointAt(t, inst, "http://receiver.example")
				f.startDeliverer(t, webhook.DelivererConfig{Transport: pipe(t, serve), Waits: []time.Duration{time.Hour}})
				began := time.Now()
				f.emit(t, inst, f.certificate(t, inst), 1)
				a := f.awaitAttempt(t, e.ID, 1)
				if a.outcome != "timeout" || a.status != "pending" {
					t.Errorf("attempt = %+v, want a timeout", a)
				}
				if took := time.Since(began); took < 15*time.Second || took > 16*time.Second {
					t.Errorf("the attempt took %v, want 15s", took)
				}
			})
		})
	}
}

// If the receiver closed an idle connection, the next attempt does not fail.
func TestStaleConnectionIsRetried(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	inst := f.institution(t, "AAA")
	r := startReceiver(t, respondWith(200))
	e, _ := f.endpointAt(t, inst, r.URL)
	f.startDeliverer(t, webhook.DelivererConfig{Waits: []time.Duration{time.Hour}})
	certificate := f.certificate(t, inst)
	for i := range 20 {
		f.emit(t, inst, certificate, 1)
		r.next(t)
		f.waitUntil(t, "the attempt is recorded", func() bool { return f.pending(t, 0) == 0 })
		if i%2 == 0 {
			r.CloseClientConnections()
		}
	}
	var failed int
	if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_attempts WHERE outcome <> 'delivered'`).Scan(&failed); err != nil || failed != 0 {
		t.Errorf("%d attempts for endpoint %d failed, want 0; error = %v", failed, e.ID, err)
	}
}
