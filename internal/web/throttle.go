package web

import (
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
)

// Throttle counts a request for a key, sets the rate-limit headers, and returns an error if the
// limit is exceeded.
func Throttle(w http.ResponseWriter, c *limit.Counter, key string) error {
	result := c.Take(key)
	if result.Limit > 0 {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(result.Limit))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
	}
	if !result.Allowed {
		return &fault.Error{Kind: fault.TooMany, Message: "Too many requests. Please wait a moment.", RetryAfter: result.RetryAfter}
	}
	return nil
}

// Throttled counts the requests of an address before a handler runs, including those to unknown
// paths. It renders the error if the limit is exceeded.
func Throttled(c *limit.Counter, render Renderer, next http.Handler) http.Handler {
	return Handler(render, func(w http.ResponseWriter, r *http.Request) error {
		if err := Throttle(w, c, limit.AddressKey(Client(r))); err != nil {
			SetRoute(r, "(throttled)")
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}
