package resolver

import "net/http"

// NewWithTransport returns a resolver for tests.
func NewWithTransport(t http.RoundTripper) *Resolver {
	return &Resolver{client: &http.Client{Transport: t}, places: make(chan struct{}, concurrent)}
}
