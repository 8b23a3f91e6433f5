package api

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
	// stallTime is how long nothing may come of a body before it is given up, and
	// with it what it holds: a file half written, a key.
	stallTime = 30 * time.Second
	// drainTime bounds how long a refused body is read.
	drainTime = 30 * time.Second
	// deadlineStep is how often a deadline is moved at most; it costs a call.
	deadlineStep = time.Second
)

// body is a request's body, watched.
type body struct {
	io.ReadCloser

	setDeadline func(time.Time) error
	now         func() time.Time
	// until is when an upload must be over; zero leaves the server's own bound.
	until, moved time.Time
	// touched says that something was read, failed that something could not be.
	touched, failed bool
}

// watch puts a watched body in place of a request's own.
func watch(w http.ResponseWriter, r *http.Request) *body {
	b := &body{ReadCloser: r.Body, setDeadline: http.NewResponseController(w).SetReadDeadline, now: time.Now}
	r.Body = b
	return b
}

// allow gives an upload its time. As long as something comes, it may take all of
// it; when nothing does, it ends early.
func (b *body) allow(d time.Duration) { b.until = b.now().Add(d) }

func (b *body) Read(p []byte) (int, error) {
	b.touched = true
	if err := b.move(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = true
	}
	return n, err
}

func (b *body) move() error {
	now := b.now()
	if b.until.IsZero() || now.Sub(b.moved) < deadlineStep {
		return nil
	}
	b.moved = now
	end := now.Add(stallTime)
	if end.After(b.until) {
		end = b.until
	}
	if err := b.setDeadline(end); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the upload's time: %w", err)
	}
	return nil
}

// drain reads what an answer left of the body, within limits: a client that is
// still writing would see a reset connection in place of the answer. One that waits
// to be told to go on (RFC 9110, 10.1.1) need not send it at all.
func (b *body) drain(r *http.Request) {
	if b.failed || b.ReadCloser == http.NoBody || !b.touched && r.Header.Get("Expect") != "" {
		return
	}
	b.until = time.Time{}
	if b.setDeadline(b.now().Add(drainTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(b.ReadCloser, maxDrain))
	}
}

// unread makes the error of a body that could not be read to its end.
func unread(message string, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(fault.TimedOut, "The request body did not come in time.", err)
	}
	return fault.Wrap(fault.Invalid, message, err)
}

// checkEncoding refuses a body that is compressed: none of ours is read so (RFC
// 9110, 8.4).
func checkEncoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return fault.New(fault.Unsupported, "The request body must not be compressed; Content-Encoding is not supported.")
	}
	return nil
}

// headReader bounds how much is read for the head of one part of a form: package
// mime/multipart alone would take 10 MB of it into memory.
type headReader struct {
	r    io.Reader
	left int
	on   bool
}

var errHead = errors.New("the head of a part is too large")

func (h *headReader) Read(p []byte) (int, error) {
	if !h.on {
		return h.r.Read(p)
	}
	if h.left <= 0 {
		return 0, errHead
	}
	n, err := h.r.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// bound bounds what is read from now on, free ends that.
func (h *headReader) bound(limit int) { h.left, h.on = limit, true }
func (h *headReader) free()           { h.on = false }
