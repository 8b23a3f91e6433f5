// Package client is a Go client for Certvault: typed calls, lists as iterators, streamed uploads,
// typed errors, and the verification of webhook signatures for receivers of events. It uses only
// the standard library.
//
// Calls are retried after temporary faults: no response, an incomplete response, the statuses 429, 500,
// 502, 503 and 504, and the status 409 with the header Retry-After. A call that changes data has an
// idempotency key, so that the vault performs the call only once, even if the client sends it several
// times.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config configures a Client.
type Config struct {
	// URL is the vault's base address. It must be an https URL with a host, and without a user, a
	// query or a fragment.
	URL string
	// Token is an API token. Ready, Fetch, Verify and VerifyFile require no token.
	Token string
	// RootCAs replaces the trusted certificates of the system. It is for a vault with a self-signed
	// certificate.
	RootCAs *x509.CertPool
	// HTTP sends the requests instead of the built-in client; RootCAs then has no effect. A Client
	// never follows a redirect, because the redirected request could contain the token.
	HTTP *http.Client
	// Retry limits the attempts of a call. Fields that are zero or negative get the values of
	// DefaultRetry. If Attempts is 1, no call is repeated.
	Retry Retry
	// OnRetry is called before each wait for another attempt of a call. It may be nil. Concurrent
	// calls call it concurrently.
	OnRetry func(Retrying)
	// UserAgent identifies the program in the vault's log. The default is certvault-client.
	UserAgent string
}

// Retrying describes a call that failed and will be attempted again.
type Retrying struct {
	// Err is the reason.
	Err error
	// Attempt is the number of the attempt that failed, counted from 1. Attempts is the maximum number of
	// attempts.
	Attempt, Attempts int
	// Wait is the wait before the next attempt. Rest is the longest total of this and all later
	// waits, unless the vault requires longer waits.
	Wait, Rest time.Duration
}

// Retry limits the attempts of a call.
type Retry struct {
	// Attempts is the maximum number of attempts, including the first.
	Attempts int
	// Wait is the approximate wait before the second attempt. The wait doubles before each later
	// attempt, up to MaxWait.
	Wait time.Duration
	// MaxWait is the longest wait. If the vault requires a longer wait, the call fails.
	MaxWait time.Duration
}

// DefaultRetry allows enough time for a restart of the vault and for a rate limit of one minute.
var DefaultRetry = Retry{Attempts: 6, Wait: 500 * time.Millisecond, MaxWait: 90 * time.Second}

const (
	// handshakeTime limits the TLS handshake, and headerTime the wait for the response after the request
	// was sent. Only the context limits the time for the bodies.
	handshakeTime = 15 * time.Second
	headerTime    = 2 * time.Minute
	idlePerHost   = 16
)

// Client calls one vault with one token. It is safe for concurrent use by multiple goroutines.
type Client struct {
	base      string
	token     string
	userAgent string
	http      *http.Client
	retry     Retry
	onRetry   func(Retrying)
	sleep     func(ctx context.Context, d time.Duration) error
}

// New returns a Client, or an error if the URL or the token is invalid.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("parsing the vault's address: %w", err)
	}
	if base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, fmt.Errorf("the vault's address %q must look like https://vault.example.org", base.Redacted())
	}
	if c.Token != strings.TrimSpace(c.Token) || strings.ContainsAny(c.Token, "\r\n\x00") {
		return nil, errors.New("the token begins or ends with white space, or contains a line break or a NUL character")
	}
	out := &Client{
		base: strings.TrimRight(c.URL, "/"), token: c.Token, userAgent: c.UserAgent, retry: c.Retry, onRetry: c.OnRetry, sleep: sleep,
	}
	if out.userAgent == "" {
		out.userAgent = "certvault-client"
	}
	if out.retry.Attempts <= 0 {
		out.retry.Attempts = DefaultRetry.Attempts
	}
	if out.retry.Wait <= 0 {
		out.retry.Wait = DefaultRetry.Wait
	}
	if out.retry.MaxWait <= 0 {
		out.retry.MaxWait = DefaultRetry.MaxWait
	}
	hc := http.Client{Transport: transport(c.RootCAs)}
	if c.HTTP != nil {
		hc = *c.HTTP
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out.http = &hc
	return out, nil
}

func transport(roots *x509.CertPool) http.RoundTripper {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		t = d.Clone()
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout, t.MaxIdleConnsPerHost = handshakeTime, headerTime, idlePerHost
	t.ForceAttemptHTTP2 = true
	return t
}

// CloseIdleConnections closes unused connections.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Option changes one call.
type Option func(*call)

// IdempotencyKey replaces the generated key of a call. For 24 hours, the same call with the same key
// returns the first response, even if another process sends the call.
func IdempotencyKey(key string) Option {
	return func(c *call) { c.key = key }
}

// Ready returns nil if the vault can serve requests, and an error otherwise.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, &call{method: http.MethodGet, path: "/readyz", public: true}, nil)
}
