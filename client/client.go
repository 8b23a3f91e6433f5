// Package client talks to a Certvault: typed calls for every endpoint, lists as
// iterators, uploads that stream, errors as types, and the check of a webhook's
// signature for who receives events. It needs the standard library alone.
//
// Calls are tried again after faults that pass: no answer, 429, 500, 502, 503
// and 504. A call that changes something carries an idempotency key, so that the
// vault does it once however often it is sent.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where a vault is and how to talk to it.
type Config struct {
	// URL is the vault's base address, which must be https.
	URL string
	// Token is an API token; public verification needs none.
	Token string
	// RootCAs are the certificates to trust in place of the system's, for a vault
	// whose certificate is of its own making.
	RootCAs *x509.CertPool
	// HTTP sends the requests in place of a client of our own; RootCAs then has
	// no effect. Redirects are not followed whatever it says, for they would carry
	// the token away.
	HTTP *http.Client
	// Retry says how often and how long to try again. What is zero of it is as in
	// DefaultRetry; Attempts 1 never does.
	Retry Retry
	// UserAgent names the program in the vault's log.
	UserAgent string
}

// Retry bounds what is done about a fault that passes.
type Retry struct {
	// Attempts is how often a call is sent at most.
	Attempts int
	// Wait is about how long to wait before the second attempt; before each
	// further one it is twice as long.
	Wait time.Duration
	// MaxWait is the longest wait. A vault that asks for more ends the call.
	MaxWait time.Duration
}

// DefaultRetry gives a vault that restarts the time to come back, and a rate
// limit its minute.
var DefaultRetry = Retry{Attempts: 6, Wait: 500 * time.Millisecond, MaxWait: 90 * time.Second}

const (
	// handshakeTime and headerTime bound how long a vault may keep silent; how long
	// a body takes is the context's to bound.
	handshakeTime = 15 * time.Second
	headerTime    = 2 * time.Minute
	idlePerHost   = 16
)

// Client talks to one vault with one token. It is safe for use by several
// goroutines.
type Client struct {
	base      string
	token     string
	userAgent string
	http      *http.Client
	retry     Retry
	sleep     func(ctx context.Context, d time.Duration) error
}

// New makes a client.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("the vault's address: %w", err)
	}
	if base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, fmt.Errorf("the vault's address %q is not like https://vault.example.org", base.Redacted())
	}
	if c.Token != strings.TrimSpace(c.Token) || strings.ContainsAny(c.Token, "\r\n\x00") {
		return nil, errors.New("the token has white space in it")
	}
	out := &Client{
		base: strings.TrimRight(c.URL, "/"), token: c.Token, userAgent: c.UserAgent, retry: c.Retry, sleep: sleep,
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

// CloseIdleConnections closes connections that no call is using.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Option changes one call.
type Option func(*call)

// IdempotencyKey names what a call does, in place of a key of its own. Who keeps
// the key and sends the same call again, even from another process, is given the
// first answer for a day.
func IdempotencyKey(key string) Option {
	return func(c *call) { c.key = key }
}

// Templates lists certificate templates, as JSON: there are none yet. It serves
// to test a connection.
func (c *Client) Templates(ctx context.Context) ([]json.RawMessage, error) {
	var list []json.RawMessage
	err := c.do(ctx, &call{method: http.MethodGet, path: "/business/certificate-templates"}, &list)
	return list, err
}

// Ready tells whether the vault can serve.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, &call{method: http.MethodGet, path: "/readyz", public: true}, nil)
}
