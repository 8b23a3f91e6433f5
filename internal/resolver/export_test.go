package resolver

import "net/http"

// NewWithTransport returns a resolver that sends its requests with t.
func NewWithTransport(t http.RoundTripper) *Resolver {
	return &Resolver{client: &http.Client{Transport: t}, places: make(chan struct{}, concurrent)}
}
