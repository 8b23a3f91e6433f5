package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/pades"
)

const (
	// stampTime is the maximum duration of a request to the time-stamp authority, from connecting to
	// reading the response.
	stampTime = 15 * time.Second
	// maxStamp is the maximum size of the response in bytes.
	maxStamp = 128 << 10
	// maxStampConns is the maximum number of connections to the authority.
	maxStampConns = 16
)

// timeStamps returns an authority that requests time stamps from the URL address by HTTP (RFC 3161, 3.4).
func timeStamps(address string) *pades.TimeStampAuthority {
	client := &http.Client{
		Timeout: stampTime,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: stampTime,
			MaxConnsPerHost: maxStampConns, MaxIdleConnsPerHost: maxStampConns, IdleConnTimeout: idleTime,
		},
		// The client follows no redirects. If an authority has moved, its new address must be
		// configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return pades.NewTimeStampAuthority(func(ctx context.Context, request []byte) ([]byte, error) {
		return requestTimeStamp(ctx, client, address, request)
	})
}

func requestTimeStamp(ctx context.Context, client *http.Client, address string, request []byte) (_ []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(request))
	if err != nil {
		return nil, fmt.Errorf("requesting a time stamp: %w", err)
	}
	req.Header.Set("Content-Type", "application/timestamp-query")
	req.Header.Set("Accept", "application/timestamp-reply")
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting a time stamp: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("requesting a time stamp: the authority responded with %s", res.Status)
	}
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/timestamp-reply" {
		return nil, fmt.Errorf("requesting a time stamp: the authority responded with the content type %q", res.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxStamp+1))
	if err != nil {
		return nil, fmt.Errorf("requesting a time stamp: %w", err)
	}
	if len(body) > maxStamp {
		return nil, fmt.Errorf("requesting a time stamp: the response has more than %d bytes", maxStamp)
	}
	return body, nil
}
