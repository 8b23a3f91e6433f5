// Package safehttp makes connections to addresses that a stranger named: it
// refuses those that lead back into our own network. It judges the concrete
// address at each dial, after the name was resolved, so that a name whose
// address changes between two look-ups gains nothing. It owns no request and
// no retry.
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

// ErrBlocked is an address that may not be dialled.
var ErrBlocked = errors.New("this address may not be reached")

// HandshakeError is a TLS connection that did not come about: a certificate
// that is not trusted, over or for another name, or a peer that speaks no TLS.
type HandshakeError struct{ Err error }

// Error tells what failed.
func (e *HandshakeError) Error() string { return "TLS: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Options says what a transport may do.
type Options struct {
	// Allow holds the networks that may be reached although they are not
	// public, by https and by plain http.
	Allow []netip.Prefix
	// PlainHTTP lets plain http go to public addresses too. Without it, it goes
	// to those of Allow alone.
	PlainHTTP bool
	// Timeout bounds a dial, handshake included, for callers without a deadline.
	Timeout time.Duration
	// Resolver finds addresses; nil is the system's.
	Resolver *net.Resolver
	// Roots are the authorities trusted; nil are the system's.
	Roots *x509.CertPool
}

const (
	// idleTime is shorter than the 5 s after which common servers close an idle
	// connection, so that a request seldom meets one that is just being closed.
	idleTime      = 4 * time.Second
	idlePerHost   = 4
	idleTotal     = 256
	maxHeaders    = 16 << 10
	defaultDialed = 15 * time.Second
)

// Transport gives a transport that reaches only what the options let it. It
// uses no proxy, not from the environment either, for a proxy would dial in our
// stead; it asks for no compression and undoes none.
func Transport(o Options) *http.Transport {
	if o.Timeout == 0 {
		o.Timeout = defaultDialed
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

// Client gives a client on such a transport that follows no redirect: the
// answer to a request is what its server said, and nobody is sent elsewhere.
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

// guard judges the address of a socket between its making and its connecting.
type guard struct{ allow []netip.Prefix }

func (g guard) public(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := target(address)
	if err != nil {
		return err
	}
	if Public(a) || within(g.allow, a) {
		return nil
	}
	return fmt.Errorf("%w: %s is not public", ErrBlocked, a)
}

func (g guard) allowed(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := target(address)
	if err != nil {
		return err
	}
	if within(g.allow, a) {
		return nil
	}
	return fmt.Errorf("%w: plain http to %s, use https", ErrBlocked, a)
}

func target(address string) (netip.Addr, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %q is no address", ErrBlocked, address)
	}
	return plain(ap.Addr()), nil
}

// secureDialer dials and shakes hands, so that a failed handshake can be told
// from a connection that broke later.
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
