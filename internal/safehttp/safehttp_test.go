package safehttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/certvault/certvault/internal/safehttp"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, private := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.255.255.255", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b:1::a00:1",
		"100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%lo",
		"fec0::1", "ff02::1", "4000::1",
	} {
		if safehttp.Public(netip.MustParseAddr(private)) {
			t.Errorf("Public(%s) = true, want false", private)
		}
	}
	for _, public := range []string{
		"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "172.15.255.255", "172.32.0.0",
		"192.167.255.255", "223.255.255.255", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888",
	} {
		if !safehttp.Public(netip.MustParseAddr(public)) {
			t.Errorf("Public(%s) = false, want true", public)
		}
	}
	if safehttp.Public(netip.Addr{}) {
		t.Error("Public of the zero address = true, want false")
	}
}

// countingServer starts a server on loopback that counts its requests.
func countingServer(t *testing.T, start func(http.Handler) *httptest.Server) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	s := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, "secret")
	}))
	t.Cleanup(s.Close)
	return s, &requests
}

func get(t *testing.T, c *http.Client, target string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// TestLoopbackIsBlockedInEverySpelling checks that requests to loopback addresses fail in every
// spelling, including names and forms that only some resolvers accept. The servers must get no request.
func TestLoopbackIsBlockedInEverySpelling(t *testing.T) {
	t.Parallel()
	server, requests := countingServer(t, httptest.NewServer)
	secure, secureRequests := countingServer(t, httptest.NewTLSServer)
	c := safehttp.Client(safehttp.Options{PlainHTTP: true})
	for _, host := range []string{
		"127.0.0.1", "localhost", "localhost.", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "127.0.0.2",
		"2130706433", "0x7f.1", "127.1", "0177.0.0.1",
	} {
		for scheme, s := range map[string]*httptest.Server{"http": server, "https": secure} {
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			if err := get(t, c, scheme+"://"+host+":"+u.Port()+"/"); err == nil {
				t.Errorf("the request to %s://%s succeeded, want an error", scheme, host)
			}
		}
	}
	if n := requests.Load() + secureRequests.Load(); n != 0 {
		t.Errorf("the servers got %d requests, want 0", n)
	}
	for _, target := range []string{server.URL, secure.URL, "http://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "http://[64:ff9b::7f00:1]/", "https://10.0.0.1/"} {
		if err := get(t, c, target); !errors.Is(err, safehttp.ErrBlocked) {
			t.Errorf("%s: error = %v, want ErrBlocked", target, err)
		}
	}
}

func TestAllowedNetworksAreReached(t *testing.T) {
	t.Parallel()
	server, requests := countingServer(t, httptest.NewServer)
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	if err := get(t, safehttp.Client(safehttp.Options{Allow: allow}), server.URL); err != nil || requests.Load() != 1 {
		t.Errorf("allowed address: error = %v, %d requests; want no error and 1 request", err, requests.Load())
	}
	other := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32"), netip.MustParsePrefix("10.0.0.0/8")}
	if err := get(t, safehttp.Client(safehttp.Options{Allow: other}), server.URL); !errors.Is(err, safehttp.ErrBlocked) {
		t.Errorf("address that is not allowed: error = %v, want ErrBlocked", err)
	}
}

// TestPlainHTTPIsForAllowedNetworks checks that plain http to a public address is refused, because
// anyone on the network path could read the request.
func TestPlainHTTPIsForAllowedNetworks(t *testing.T) {
	t.Parallel()
	c := safehttp.Client(safehttp.Options{Timeout: time.Second})
	err := get(t, c, "http://192.31.196.1/")
	if !errors.Is(err, safehttp.ErrBlocked) || !strings.Contains(err.Error(), "https") {
		t.Errorf("plain http to a public address: error = %v, want ErrBlocked and the advice to use https", err)
	}
	if err := get(t, c, "http://127.0.0.1/"); !errors.Is(err, safehttp.ErrBlocked) || !strings.Contains(err.Error(), "not public") {
		t.Errorf("plain http to an address that is not public: error = %v, want ErrBlocked without this advice", err)
	}
}

func TestNoRedirectsAndNoProxies(t *testing.T) {
	server, requests := countingServer(t, httptest.NewServer)
	redirecting := httptest.NewServer(http.RedirectHandler(server.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	t.Setenv("HTTP_PROXY", server.URL)
	t.Setenv("ALL_PROXY", server.URL)
	c := safehttp.Client(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, redirecting.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTemporaryRedirect || requests.Load() != 0 {
		t.Errorf("status = %d, want 307; the target and proxy got %d requests, want 0", res.StatusCode, requests.Load())
	}
}

func TestHandshakeErrors(t *testing.T) {
	t.Parallel()
	secure, _ := countingServer(t, httptest.NewTLSServer)
	plain, _ := countingServer(t, httptest.NewServer)
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	isHandshake := func(err error) bool {
		_, ok := errors.AsType[*safehttp.HandshakeError](err)
		return ok
	}
	if err := get(t, safehttp.Client(safehttp.Options{Allow: allow}), secure.URL); !isHandshake(err) {
		t.Errorf("untrusted certificate: error = %v, want a HandshakeError", err)
	}
	if err := get(t, safehttp.Client(safehttp.Options{Allow: allow}), strings.Replace(plain.URL, "http:", "https:", 1)); !isHandshake(err) {
		t.Errorf("server without TLS: error = %v, want a HandshakeError", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	if err := get(t, safehttp.Client(safehttp.Options{Allow: allow, Roots: roots}), secure.URL); err != nil {
		t.Errorf("trusted certificate: error = %v, want none", err)
	}
	wrong := "https://localhost:" + strings.TrimPrefix(secure.URL, "https://127.0.0.1:")
	if err := get(t, safehttp.Client(safehttp.Options{Allow: append(allow, netip.MustParsePrefix("::1/128")), Roots: roots}), wrong); !isHandshake(err) {
		t.Errorf("certificate for another name: error = %v, want a HandshakeError", err)
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	t.Cleanup(old.Close)
	if err := get(t, safehttp.Client(safehttp.Options{Allow: allow, Roots: roots}), old.URL); !isHandshake(err) {
		t.Errorf("TLS 1.1: error = %v, want a HandshakeError", err)
	}
}

// TestSilentServerTimesOut checks that the error of a handshake that does not end is a timeout, and not
// a HandshakeError.
func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := safehttp.Client(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 50 * time.Millisecond})
	if err := get(t, c, "https://"+l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("server that does not respond: error = %v, want DeadlineExceeded", err)
	}
}

// TestDNSRebindingIsBlocked checks that the second request is refused if a name resolves to an allowed
// address for the first request, and to an internal address that is not allowed for the second request.
func TestDNSRebindingIsBlocked(t *testing.T) {
	t.Parallel()
	server, requests := countingServer(t, httptest.NewServer)
	var lookups atomic.Int64
	resolver := nameServer(t, func() [4]byte {
		if lookups.Add(1) == 1 {
			return [4]byte{127, 0, 0, 1}
		}
		return [4]byte{127, 0, 0, 2}
	})
	c := safehttp.Client(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: resolver})
	target := "http://hooks.example.org:" + server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	if err := get(t, c, target); err != nil || requests.Load() != 1 {
		t.Fatalf("first request: error = %v, want none, and one request at the server", err)
	}
	c.CloseIdleConnections()
	if err := get(t, c, target); !errors.Is(err, safehttp.ErrBlocked) || requests.Load() != 1 {
		t.Errorf("second request: error = %v, want ErrBlocked; the server got %d requests in total, want 1", err, requests.Load())
	}
}

// nameServer starts a DNS server on loopback that answers each A query with the result of a call of
// address.
func nameServer(t *testing.T, address func() [4]byte) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 1<<10)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(b[:n]); err != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: address()},
				}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
