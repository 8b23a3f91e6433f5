// Package body reads the bodies of requests. It enforces limits of size and time, reads the parts of
// forms, and returns errors for a body that is too large, too slow or incomplete. It does not interpret
// the parts.
package body

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// stallTime is how long a body with a time limit may pause. While the server waits for a body, a
	// partly written file remains in the store and the idempotency key remains claimed.
	stallTime = 30 * time.Second
	// minRate is the minimum average rate, in bytes per second, at which a body with a time limit must
	// arrive while the server waits for it. The average is computed over rateTime of waiting. Without
	// this limit, a client that sends single bytes could keep an upload open until its time limit.
	minRate  = 1000
	rateTime = 30 * time.Second
	// responseTime is how long the response may take after the time limit of the body.
	responseTime = time.Minute
	// deadlineStep is the minimum time between two changes of a deadline, because a body is read in many
	// small parts.
	deadlineStep = time.Second
	// drainTime and maxDrain limit the time and the number of bytes that Drain reads.
	drainTime = 30 * time.Second
	maxDrain  = 64 << 20
)

// Limits are the limits of a body, and the errors for bodies that exceed them.
type Limits struct {
	// Size is the largest size in bytes.
	Size int64
	// Time is how long the whole body may take. With a time limit, reading also ends if nothing
	// arrives for 30 seconds, or if less than 1000 bytes per second arrive over 30 seconds of waiting.
	// If Time is zero, only the time limit of the server applies.
	Time time.Duration
	// Parts is the largest number of parts of a multipart form.
	Parts int
	// TooLarge is the error of a body over Size. TooMany is the error of a form with more than Parts
	// parts; if TooMany is nil, the form returns fault.Invalid. Broken is the error of a body that
	// cannot be read to its end.
	TooLarge, TooMany, Broken *fault.Error
}

// reader is the body of a request with its limits. An error that the client causes is a *fault.Error.
// The file store wraps this error when it reads a file from the body, so the kind of the error remains.
type reader struct {
	io.ReadCloser

	control *http.ResponseController
	limits  Limits
	left    int64 // bytes of limits.Size that may still be read
	// until is the end of the time limit; moved is the time of the last change of the deadline.
	until, moved time.Time
	// waited is how long Read has waited for the client since the last check of the rate, and
	// arrived is the number of bytes that arrived in that time.
	waited  time.Duration
	arrived int64
	// headerLeft is the number of bytes that may still be read for the header of a part while
	// inHeader is set.
	headerLeft int
	inHeader   bool
	// touched reports whether the handler has begun to read the body. failed reports whether the
	// connection failed or the body arrived too slowly.
	touched, failed bool
	err             error
}

// Watch wraps the body of r for Limit and Drain. A middleware calls Watch, and the handler calls Limit.
// A read before the call of Limit returns an error.
func Watch(w http.ResponseWriter, r *http.Request) { watch(w, r) }

func watch(w http.ResponseWriter, r *http.Request) *reader {
	b, ok := r.Body.(*reader)
	if !ok {
		b = &reader{ReadCloser: r.Body, control: http.NewResponseController(w), err: errNoLimits}
		r.Body = b
	}
	return b
}

// tooLate is the message of fault.TimedOut.
const tooLate = "The request did not arrive in time. Try again."

var errNoLimits = errors.New("the body was read before its limits were set")

// Limit sets the limits of the body of r. A read beyond l.Size returns l.TooLarge, a read that is late
// or too slow returns fault.TimedOut, and a read from a broken connection returns l.Broken. If the
// Content-Length is larger than l.Size, the first read returns l.TooLarge.
func Limit(w http.ResponseWriter, r *http.Request, l Limits) {
	b := watch(w, r)
	b.limits, b.left, b.err = l, l.Size, nil
	if r.ContentLength > l.Size {
		b.err = l.TooLarge
	}
	if l.Time > 0 {
		b.until, b.moved = time.Now().Add(l.Time), time.Time{}
	}
}

// Read implements io.Reader.
func (b *reader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.touched = true
	if b.err = b.moveDeadline(); b.err != nil {
		return 0, b.err
	}
	// Read may read one byte beyond the limit, to distinguish a body over the limit from a body that
	// ends at the limit.
	p = p[:min(int64(len(p)), b.left+1)]
	if b.inHeader {
		if b.headerLeft == 0 {
			return 0, errPartHeader
		}
		p = p[:min(len(p), b.headerLeft)]
	}
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(start)
	b.arrived += int64(n)
	b.left -= int64(n)
	b.headerLeft -= n
	switch {
	case b.left < 0:
		n, b.err = n-1, b.limits.TooLarge
		return n, b.err
	case errors.Is(err, io.EOF):
		if b.err = b.endDeadline(); b.err == nil {
			b.err = io.EOF
		}
	case err != nil:
		b.failed = true
		b.err = b.broken(err)
	default:
		b.err = b.checkRate()
	}
	return n, b.err
}

// checkRate returns fault.TimedOut if a body with a time limit arrived at less than minRate during
// the last rateTime of waiting. After that error, the rest of the body is not read.
func (b *reader) checkRate() error {
	if b.until.IsZero() || b.waited < rateTime {
		return nil
	}
	slow := b.arrived < int64(minRate*b.waited.Seconds())
	b.waited, b.arrived = 0, 0
	if !slow {
		return nil
	}
	b.failed = true
	return fault.Wrap(fault.TimedOut, tooLate, supported(b.control.SetReadDeadline(time.Now())))
}

// broken returns the error of a body that could not be read to its end. If Read has failed, broken
// returns the error of Read, because a parser may return another error. It returns fault.TimedOut for
// an expired deadline, and limits.Broken with the cause err for any other error.
func (b *reader) broken(err error) error {
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return b.err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(fault.TimedOut, tooLate, err)
	}
	return fault.Wrap(b.limits.Broken.Kind, b.limits.Broken.Message, err)
}

// moveDeadline allows the next read to wait for stallTime, but not beyond the limit of the whole
// body. It moves the deadline at most once in deadlineStep. With the first deadline of the body, it
// also sets the deadline of the response. A body without a time limit has no deadlines.
func (b *reader) moveDeadline() error {
	now := time.Now()
	if b.until.IsZero() || now.Sub(b.moved) < deadlineStep {
		return nil
	}
	first := b.moved.IsZero()
	b.moved = now
	end := now.Add(stallTime)
	if end.After(b.until) {
		end = b.until
	}
	err := supported(b.control.SetReadDeadline(end))
	if first {
		err = errors.Join(err, supported(b.control.SetWriteDeadline(b.until.Add(responseTime))))
	}
	return err
}

// endDeadline is called when the body has ended. It moves the read deadline to the end of the time
// limit, so that the handler can continue. Package net/http still reads from the connection, and cancels
// the context of the request when the deadline passes.
func (b *reader) endDeadline() error {
	if b.until.IsZero() {
		return nil
	}
	return supported(b.control.SetReadDeadline(b.until))
}

// supported returns err, or nil if the connection does not support deadlines, as in tests.
func supported(err error) error {
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return fmt.Errorf("setting a deadline: %w", err)
}

// Drain reads the rest of the body of r that the handler did not read, within drainTime and maxDrain.
// Without Drain, a client that is still writing would get a connection reset instead of the response.
//
// Drain reads nothing if the connection failed or if the body arrived too slowly. It also reads nothing
// if the client waits for 100 Continue, because the client may then not send the body (RFC 9110, 10.1.1).
func Drain(r *http.Request) {
	b, ok := r.Body.(*reader)
	if !ok || b.failed || b.ReadCloser == http.NoBody || !b.touched && r.Header.Get("Expect") != "" {
		return
	}
	if b.control.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(b.ReadCloser, maxDrain))
	}
}

// CheckEncoding returns fault.Unsupported if the request has a Content-Encoding other than identity
// (RFC 9110, 8.4).
func CheckEncoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return fault.New(fault.Unsupported, "The request body must not be compressed; Content-Encoding is not supported.")
	}
	return nil
}
