package web

import (
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
)

// Throttle counts a request of a key, tells the client what it may still do, and
// refuses what is too much.
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

// Throttled counts the requests of an address, also those that lead nowhere,
// before a handler sees them. What is too much is answered by render.
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
