package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const (
	// maxResponse is the maximum size in bytes of a response that is read into memory.
	maxResponse = 64 << 20
	// maxProblem is the maximum size in bytes of an error response that is decoded, and of the rest
	// of a response that is discarded.
	maxProblem = 4 << 20
)

// call is a request that may be sent several times.
type call struct {
	method, path string
	query        url.Values
	// body is nil if the request has no body.
	body body
	// key is the idempotency key, or "". A call that changes data has a key.
	key    string
	accept string
	// notify is the value of the option Notify, or "".
	notify string
	// public calls send no token.
	public bool
	// prepare changes the request of each attempt. It may be nil.
	prepare func(*http.Request)
}

// body creates the request body of each attempt.
type body interface {
	open() (io.ReadCloser, error)
	size() int64 // -1 if unknown
	contentType() string
}

// bytesBody is a body in memory.
type bytesBody struct {
	kind    string
	content []byte
}

func (b *bytesBody) open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.content)), nil
}
func (b *bytesBody) size() int64         { return int64(len(b.content)) }
func (b *bytesBody) contentType() string { return b.kind }

func jsonBody(v any) (*bytesBody, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return &bytesBody{kind: "application/json", content: b}, nil
}

// post returns a call with a new idempotency key, and applies the options to it.
func post(path string, b body, options []Option) *call {
	c := &call{method: http.MethodPost, path: path, body: b, key: rand.Text()}
	for _, o := range options {
		o(c)
	}
	return c
}

// do sends a call, repeats the call after temporary faults, and decodes the JSON response into out,
// unless out is nil.
func (c *Client) do(ctx context.Context, k *call, out any) error {
	return c.send(ctx, k, func(res *http.Response) error {
		b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
		switch {
		case err != nil:
			return &temporary{fmt.Errorf("reading the response: %w", err)}
		case len(b) > maxResponse:
			return fmt.Errorf("the response is larger than %d MiB", maxResponse>>20)
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(b, out); err != nil {
			return fmt.Errorf("reading the response: %w", err)
		}
		return nil
	})
}

// send sends a call and calls read with the successful response. After a temporary fault it repeats both,
// unless Retry.after returns false or ctx is done.
func (c *Client) send(ctx context.Context, k *call, read func(*http.Response) error) error {
	for attempt := 1; ; attempt++ {
		err := c.sendOnce(ctx, k, read)
		if err == nil {
			return nil
		}
		wait, again := c.retry.after(err, attempt)
		if !again || ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", k.method, k.path, unmark(err))
		}
		if c.onRetry != nil {
			c.onRetry(Retrying{Err: unmark(err), Attempt: attempt, Attempts: c.retry.Attempts, Wait: wait, Rest: c.retry.rest(wait, attempt)})
		}
		if e := c.sleep(ctx, wait); e != nil {
			return fmt.Errorf("%s %s: %w", k.method, k.path, errors.Join(e, unmark(err)))
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, k *call, read func(*http.Response) error) (err error) {
	req, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		if source, ok := errors.AsType[*sourceError](err); ok {
			return source // the file could not be read, so another attempt does not help
		}
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return err
		}
		return &temporary{err}
	}
	// Reading the rest of a short body allows the connection to be reused.
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxProblem))
		err = errors.Join(err, res.Body.Close())
	}()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return problem(res)
	}
	return read(res)
}

func (c *Client) request(ctx context.Context, k *call) (*http.Request, error) {
	target := k.path
	if strings.HasPrefix(target, "/") {
		target = c.base + target
	}
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("creating the request: %w", err)
	}
	if k.body != nil {
		if req.Body, err = k.body.open(); err != nil {
			return nil, err
		}
		req.GetBody, req.ContentLength = k.body.open, k.body.size()
		req.Header.Set("Content-Type", k.body.contentType())
	}
	req.Header.Set("Accept", "application/json")
	if k.accept != "" {
		req.Header.Set("Accept", k.accept)
	}
	req.Header.Set("User-Agent", c.userAgent)
	if k.key != "" {
		req.Header.Set("Idempotency-Key", k.key)
	}
	if c.token != "" && !k.public {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if k.prepare != nil {
		k.prepare(req)
	}
	return req, nil
}
