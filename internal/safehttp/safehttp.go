// Package safehttp makes connections to addresses that a user chose. It refuses addresses in internal
// networks that are not explicitly allowed. It checks the resolved address at each dial, so that a name
// that later resolves to an internal address (DNS rebinding) is refused too. The callers build the
// requests and retry them.
package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrBlocked means that connections to an address are not allowed.
var ErrBlocked = errors.New("this address is not allowed")

// HandshakeError reports a failed TLS handshake: for example, the certificate is untrusted, expired
// or for another name, or the peer supports neither TLS 1.2 nor a later version.
type HandshakeError struct{ Err error }

// Error returns the message of the cause.
func (e *HandshakeError) Error() string { return "TLS: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Options configures a transport.
type Options struct {
	// Allow lists non-public networks that may be reached, by https and by plain http.
	Allow []netip.Prefix
	// PlainHTTP allows plain http to public addresses too. Without it, only
	// networks in Allow may be reached by plain http.
	PlainHTTP bool
	// Timeout limits a dial, including the handshake; 0 means 15 s.
	Timeout time.Duration
	// Resolver resolves names; nil means the system's resolver.
	Resolver *net.Resolver
	// Roots are the trusted certification authorities; nil means those of the system.
	Roots *x509.CertPool
}

const (
	// idleTime is less than the 5 s after which common servers close an idle connection, so that
	// requests rarely use a connection that the server is closing.
	idleTime       = 4 * time.Second
	idlePerHost    = 4
	idleTotal      = 256
	maxHeaders     = 16 << 10
	defaultTimeout = 15 * time.Second
)

// Transport returns a transport that reaches only addresses that the options allow. The transport
// uses no proxy, not even a proxy from the environment, because a proxy would dial without these
// checks. The transport neither requests nor decodes compression.
func Transport(o Options) *http.Transport {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	g := guard{allow: o.Allow}
	open, strict := o.dialer(g.public), o.dialer(g.public)
	if !o.PlainHTTP {
		strict = o.dialer(g.allowed)
	}
	secure := secureDialer{dialer: open, config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots, NextProtos: []string{"http/1.1"}}}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            strict.DialContext,
		DialTLSContext:         secure.dial,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false,
		MaxIdleConns:           idleTotal,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeaders,
	}
}

// Client returns a client that uses Transport. The client follows no redirects, so that a response
// always comes from the server of the request's URL.
func Client(o Options) *http.Client {
	return &http.Client{
		Transport:     Transport(o),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type control = func(ctx context.Context, network, address string, conn syscall.RawConn) error

func (o Options) dialer(c control) *net.Dialer {
	return &net.Dialer{Timeout: o.Timeout, Resolver: o.Resolver, ControlContext: c}
}

// guard checks the address of a socket before the socket connects.
type guard struct{ allow []netip.Prefix }

func (g guard) public(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := parseTarget(address)
	if err != nil {
		return err
	}
	if Public(a) || within(g.allow, a) {
		return nil
	}
	return errNotPublic(a)
}

func errNotPublic(a netip.Addr) error { return fmt.Errorf("%w: %s is not public", ErrBlocked, a) }

func (g guard) allowed(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := parseTarget(address)
	if err != nil {
		return err
	}
	switch {
	case within(g.allow, a):
		return nil
	case Public(a):
		return fmt.Errorf("%w: plain http to %s: use https", ErrBlocked, a)
	}
	return errNotPublic(a)
}

func parseTarget(address string) (netip.Addr, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %q is not an address", ErrBlocked, address)
	}
	return normalize(ap.Addr()), nil
}

// secureDialer dials and performs the TLS handshake, so that a failed handshake can be
// distinguished from a connection that breaks later.
type secureDialer struct {
	dialer *net.Dialer
	config *tls.Config
}

func (s secureDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address to dial: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.dialer.Timeout)
	defer cancel()
	raw, err := s.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := s.config.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &HandshakeError{Err: err}
	}
	return conn, nil
}
