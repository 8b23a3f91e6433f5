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
	answer := c.Take(key)
	if answer.Limit > 0 {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(answer.Limit))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(answer.Remaining))
	}
	if !answer.Allowed {
		return &fault.Error{Kind: fault.TooMany, Message: "Too many requests. Please wait a moment.", RetryAfter: answer.RetryAfter}
	}
	return nil
}

// Throttled counts the requests of an address before a handler runs, including those to unknown
// paths. It writes a refusal with render.
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
