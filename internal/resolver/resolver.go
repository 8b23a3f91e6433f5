// Package resolver fetches the documents that a credential refers to: the DID document or the metadata
// of its issuer, and its status list. The addresses come from files that anyone can upload, so package
// safehttp makes the connections. Package credential verifies the documents.
package resolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/safehttp"
)

const (
	// timeout limits the fetching of one document.
	timeout = 10 * time.Second
	// concurrent is the maximum number of documents that a resolver fetches at the same time, so that
	// many verifications do not use all sockets of the process.
	concurrent = 16
)

// Resolver fetches documents by https from public addresses, and from the networks that its
// safehttp.Options allow.
type Resolver struct {
	client *http.Client
	places chan struct{}
}

// New returns a resolver with the given options for connections. The resolver follows no redirects,
// because a DID belongs to the host that its identifier names.
func New(o safehttp.Options) *Resolver {
	o.Timeout, o.PlainHTTP = timeout, false
	return &Resolver{client: safehttp.Client(o), places: make(chan struct{}, concurrent)}
}

// Fetch returns the document at an https URL. accept is the value of the header Accept. A status other
// than 200, and a document of more than credential.MaxFetch bytes, are errors.
func (r *Resolver) Fetch(ctx context.Context, url, accept string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "Certvault")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answered %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, credential.MaxFetch+1))
	if err != nil {
		return nil, err
	}
	if len(body) > credential.MaxFetch {
		return nil, errors.New("the document is too large")
	}
	return body, nil
}
