package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// passing is a fault that may be gone the next time: there was no answer, or not
// all of it.
type passing struct{ err error }

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// unpassing takes the mark off an error that is given to the caller.
func unpassing(err error) error {
	if p, ok := errors.AsType[*passing](err); ok {
		return p.err
	}
	return err
}

// after says whether a call is worth another attempt, and how long to wait
// before it. Every call may be sent again: it reads, or it carries a key.
func (r *Retry) after(err error, attempt int) (wait time.Duration, again bool) {
	if attempt >= r.Attempts {
		return 0, false
	}
	// Half of the wait is random, so that many clients do not come back at once.
	wait = min(r.Wait<<min(attempt-1, 20), r.MaxWait)
	if wait <= 0 {
		wait = r.MaxWait
	}
	wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // a wait is no secret
	if e, ok := errors.AsType[*Error](err); ok {
		if !e.passing() || e.RetryAfter > r.MaxWait {
			return 0, false
		}
		return max(wait, e.RetryAfter), true
	}
	_, again = errors.AsType[*passing](err)
	return wait, again
}

// passing tells whether the answer may be another one later: 409 says that the
// same call is still under way.
func (e *Error) passing() bool {
	switch e.Status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
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
