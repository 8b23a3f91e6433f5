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

// Each behaviour of a receiver leads to the expected state of the delivery.
func TestFaultsOfReceivers(t *testing.T) {
	t.Parallel()
	var led atomic.Int64
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led.Add(1) }))
	t.Cleanup(away.Close)
	roots := x509.NewCertPool()
	for name, tc := range map[string]struct {
		receiver func(t *testing.T) string
		want     attempt
		body     string
	}{
		"200":      {serving(answers(200)), attempt{status: "delivered", outcome: "delivered", code: 200}, ""},
		"299":      {serving(answers(299)), attempt{status: "delivered", outcome: "delivered", code: 299}, ""},
		"204":      {serving(answers(204)), attempt{status: "delivered", outcome: "delivered", code: 204}, ""},
		"304":      {serving(answers(304)), attempt{status: "pending", outcome: "answered", code: 304}, ""},
		"401":      {serving(answers(401)), attempt{status: "pending", outcome: "answered", code: 401}, ""},
		"500":      {serving(answers(500)), attempt{status: "pending", outcome: "answered", code: 500}, ""},
		"redirect": {serving(http.RedirectHandler(away.URL, http.StatusFound).ServeHTTP), attempt{status: "pending", outcome: "answered", code: 302}, ""},
		"redirect that keeps the method": {
			serving(http.RedirectHandler(away.URL, http.StatusPermanentRedirect).ServeHTTP), attempt{status: "pending", outcome: "answered", code: 308}, "",
		},
		"words that are no text": {serving(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("a\x00b\xFFc"))
		}), attempt{status: "pending", outcome: "answered", code: 500}, "a\uFFFDb\uFFFDc"},
		"long body": {serving(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		}), attempt{status: "delivered", outcome: "delivered", code: 200, truncated: true}, strings.Repeat("x", 4096)},
		"endless body": {serving(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}), attempt{status: "delivered", outcome: "delivered", code: 200, truncated: true}, strings.Repeat("x", 4096)},
		"compressed body is left alone": {serving(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "no gzip at all")
		}), attempt{status: "delivered", outcome: "delivered", code: 200}, "no gzip at all"},
		"reset in the middle": {serving(func(w http.ResponseWriter, _ *http.Request) {
			breakOff(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
		}), attempt{status: "pending", outcome: "broken", code: 200}, "half"},
		"reset at once": {serving(func(w http.ResponseWriter, _ *http.Request) { breakOff(t, w, "") }), attempt{status: "pending", outcome: "broken"}, ""},
		"no HTTP":       {serving(func(w http.ResponseWriter, _ *http.Request) { breakOff(t, w, "SSH-2.0-OpenSSH\r\n") }), attempt{status: "pending", outcome: "broken"}, ""},
		"too many headers": {serving(func(w http.ResponseWriter, _ *http.Request) {
			breakOff(t, w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100_000)+"\r\n\r\n")
		}), attempt{status: "pending", outcome: "broken"}, ""},
		"nobody listens":           {unused, attempt{status: "pending", outcome: "unreachable"}, ""},
		"no such name":             {func(*testing.T) string { return "https://hooks.invalid/" }, attempt{status: "pending", outcome: "dns"}, ""},
		"private address":          {func(*testing.T) string { return "https://10.0.0.1/" }, attempt{status: "pending", outcome: "blocked"}, ""},
		"metadata":                 {func(*testing.T) string { return "http://169.254.169.254/latest" }, attempt{status: "pending", outcome: "blocked"}, ""},
		"untrusted certificate":    {secure(t, x509.NewCertPool(), time.Hour), attempt{status: "pending", outcome: "tls"}, ""},
		"expired certificate":      {secure(t, roots, -time.Minute), attempt{status: "pending", outcome: "tls"}, ""},
		"certificate that is fine": {secure(t, roots, time.Hour), attempt{status: "delivered", outcome: "delivered", code: 204}, ""},
		"plain where TLS is due": {func(t *testing.T) string {
			return strings.Replace(serving(answers(200))(t), "http://", "https://", 1)
		}, attempt{status: "pending", outcome: "tls"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
			inst := f.institution(t, "AAA")
			e, _ := f.at(t, inst, tc.receiver(t))
			f.deliver(t, webhook.DelivererConfig{
				Transport: safehttp.Transport(safehttp.Options{Allow: loopback, Roots: roots}), Waits: []time.Duration{time.Hour},
			})
			f.emit(t, inst, f.certificate(t, inst), 1)
			got := f.last(t, e.ID, 1)
			if got.status != tc.want.status || got.outcome != tc.want.outcome || got.code != tc.want.code || got.truncated != tc.want.truncated {
				t.Errorf("%+v, not %+v", got, tc.want)
			}
			if got.answer != tc.body {
				t.Errorf("the log has the answer %.100q", got.answer)
			}
			if got.code == 0 && got.failure == "" || strings.Contains(got.failure, "127.0.0.1") || strings.Contains(got.failure, "10.0.0.1") {
				t.Errorf("the log explains it with %q", got.failure)
			}
			if led.Load() != 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

func serving(answer http.HandlerFunc) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return receive(t, answer).URL
	}
}

// breakOff writes raw bytes and resets the connection.
func breakOff(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	h, ok := w.(http.Hijacker)
	if !ok {
		t.Error("the test server cannot hijack")
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

// unused returns a URL on which no server listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

var rootsMu sync.Mutex

// secure starts a receiver with a certificate of the given lifetime that pool trusts.
func secure(t *testing.T, pool *x509.CertPool, life time.Duration) func(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "receiver"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(life), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
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
		s := httptest.NewUnstartedServer(answers(204))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
}

// An answer of 410 switches the endpoint off, informs its owners, and keeps the event.
func TestGoneSwitchesOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).live()
		inst := f.institution(t, "AAA")
		r := receive(t, answers(http.StatusGone))
		e, _ := f.at(t, inst, r.URL)
		notices := make(chan webhook.Notice, 10)
		f.deliver(t, webhook.DelivererConfig{Notify: func(_ context.Context, _ *db.Tx, n webhook.Notice) error { notices <- n; return nil }})
		f.emit(t, inst, f.certificate(t, inst), 1)
		if a := f.last(t, e.ID, 1); a.status != "pending" || a.code != 410 {
			t.Errorf("after 410: %+v", a)
		}
		if n := <-notices; n.Kind != webhook.NoticeSwitchedOff || n.Reason != webhook.ReasonGone || n.Endpoint != e.UUID || n.InstitutionID != inst {
			t.Errorf("the owners got the notices %+v", n)
		}
		now, err := f.Endpoint(t.Context(), inst, e.UUID)
		if err != nil || now.Status != webhook.SwitchedOff || now.StopReason != webhook.ReasonGone || now.StoppedAt == nil {
			t.Errorf("the endpoint is %+v, %v", now, err)
		}
	})
}

// Retry-After applies to the delivery and to the endpoint.
func TestRetryAfterAppliesToEndpoint(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
	inst := f.institution(t, "AAA")
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	e, _ := f.at(t, inst, r.URL)
	f.deliver(t, webhook.DelivererConfig{})
	f.emit(t, inst, f.certificate(t, inst), 1)
	f.last(t, e.ID, 1)
	list, err := f.Log(t.Context(), inst, e.UUID, webhook.LogQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if wait := time.Until(*list[0].DueAt); wait < 119*time.Second || wait > 121*time.Second {
		t.Errorf("the delivery waits %v", wait)
	}
	now, err := f.Endpoint(t.Context(), inst, e.UUID)
	if err != nil || now.BreakerOpen || now.HeldUntil == nil || time.Until(*now.HeldUntil) < 119*time.Second {
		t.Errorf("the endpoint is %+v, %v", now, err)
	}
}

// pipe returns a transport to a receiver in memory, which works with simulated time. It calls serve
// with each connection.
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

// read reads a request from a connection.
func read(conn net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// One deadline of 15 s covers the whole attempt, whichever part is slow.
func TestAttemptTimesOut(t *testing.T) {
	t.Parallel()
	drip := func(conn net.Conn, head, drop string) {
		if !read(conn) {
			return
		}
		_, err := io.WriteString(conn, head)
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(conn, drop)
		}
	}
	for name, serve := range map[string]func(conn net.Conn){
		"takes nothing":        func(net.Conn) { time.Sleep(time.Minute) },
		"hangs before headers": func(conn net.Conn) { read(conn); _, _ = io.Copy(io.Discard, conn) },
		"dripping headers":     func(conn net.Conn) { drip(conn, "HTTP/1.1 200 OK\r\n", "X: y\r\n") },
		"dripping body":        func(conn net.Conn) { drip(conn, "HTTP/1.1 200 OK\r\n\r\n", "x") },
		"body that stops":      func(conn net.Conn) { drip(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
				inst := f.institution(t, "AAA")
				e, _ := f.at(t, inst, "http://receiver.example")
				f.deliver(t, webhook.DelivererConfig{Transport: pipe(t, serve), Waits: []time.Duration{time.Hour}})
				began := time.Now()
				f.emit(t, inst, f.certificate(t, inst), 1)
				a := f.last(t, e.ID, 1)
				if a.outcome != "timeout" || a.status != "pending" {
					t.Errorf("%+v", a)
				}
				if took := time.Since(began); took < 15*time.Second || took > 16*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A connection that the receiver closed while it was idle costs no attempt.
func TestStaleConnectionCostsNoAttempt(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).live()
	inst := f.institution(t, "AAA")
	r := receive(t, answers(200))
	e, _ := f.at(t, inst, r.URL)
	f.deliver(t, webhook.DelivererConfig{Waits: []time.Duration{time.Hour}})
	certificate := f.certificate(t, inst)
	for i := range 20 {
		f.emit(t, inst, certificate, 1)
		r.next(t)
		f.until(t, "it is recorded", func() bool { return f.pending(t, 0) == 0 })
		if i%2 == 0 {
			r.CloseClientConnections()
		}
	}
	var failed int
	if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_attempts WHERE outcome <> 'delivered'`).Scan(&failed); err != nil || failed != 0 {
		t.Errorf("%d attempts at endpoint %d failed, %v", failed, e.ID, err)
	}
}
