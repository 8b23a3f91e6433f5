package web

import (
	"fmt"
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

// ThrottleInstitution counts a request for an institution. It returns an error if the requests with all
// tokens of the institution in the current minute exceed most; 0 means no limit. Call ThrottleInstitution
// after Throttle. If both have a limit, the rate-limit headers describe the limit with fewer remaining
// requests.
func ThrottleInstitution(w http.ResponseWriter, c *limit.Counter, key string, most int64) error {
	result := c.TakeWithin(key, int(most))
	if result.Limit == 0 {
		return nil
	}
	if left, err := strconv.Atoi(w.Header().Get("X-RateLimit-Remaining")); err != nil || result.Remaining < left {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(result.Limit))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
	}
	if !result.Allowed {
		return &fault.Error{Kind: fault.TooMany, RetryAfter: result.RetryAfter, Message: fmt.Sprintf(
			"Too many requests: the limit of the institution, for all its tokens together, is %d a minute. "+
				"Please wait a moment. The operator of this vault can change the limit.", result.Limit)}
	}
	return nil
}

// Throttled returns a handler that counts the requests of each client address, including requests
// for unknown paths, and then calls next. If a client exceeds the limit, the handler renders the
// error and does not call next.
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
