package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// temporary marks a temporary fault: no response, or an incomplete response.
type temporary struct{ err error }

func (p *temporary) Error() string { return p.err.Error() }
func (p *temporary) Unwrap() error { return p.err }

// unmark returns the error in the temporary that err wraps, or err if it wraps no temporary.
func unmark(err error) error {
	if p, ok := errors.AsType[*temporary](err); ok {
		return p.err
	}
	return err
}

// after reports whether to repeat a call after an attempt failed with err, and how long to wait before the
// next attempt. Every call can be repeated, because each call only reads or has an idempotency key.
func (r *Retry) after(err error, attempt int) (wait time.Duration, again bool) {
	if attempt >= r.Attempts {
		return 0, false
	}
	// Half of the wait is random, so that many clients do not retry at the same time.
	wait = r.longest(attempt)
	wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // a wait is not secret
	if e, ok := errors.AsType[*Error](err); ok {
		if !e.temporary() || e.RetryAfter > r.MaxWait {
			return 0, false
		}
		return max(wait, e.RetryAfter), true
	}
	_, again = errors.AsType[*temporary](err)
	return wait, again
}

// rest returns the longest total of the wait after an attempt and of all later waits.
func (r *Retry) rest(wait time.Duration, attempt int) time.Duration {
	for later := attempt + 1; later < r.Attempts; later++ {
		wait += r.longest(later)
	}
	return wait
}

// longest returns the longest wait after an attempt.
func (r *Retry) longest(attempt int) time.Duration {
	if wait := min(r.Wait<<min(attempt-1, 20), r.MaxWait); wait > 0 {
		return wait
	}
	return r.MaxWait
}

// temporary reports whether a later attempt may succeed. 409 with Retry-After means that the same call
// is still in progress. 409 without Retry-After means that another call changed the record first.
func (e *Error) temporary() bool {
	switch e.Status {
	case http.StatusConflict:
		return e.RetryAfter > 0
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
