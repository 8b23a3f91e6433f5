package web

import (
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
)

// Throttle counts a request for a key and returns an error if the limit is exceeded. If there is a
// limit, Throttle also sets the rate-limit headers.
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

// Throttled counts the requests of an address before it calls next, including requests to unknown
// paths. If the limit is exceeded, Throttled renders the error and does not call next.
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
