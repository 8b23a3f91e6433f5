package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/trace"
)

const (
	// attemptTime is the time limit of one attempt: connection, TLS, headers and body.
	attemptTime = 15 * time.Second
	// maxResponse is the maximum length of result.responseBody in bytes.
	maxResponse = 64 << 10
	userAgent   = "Certvault-Webhook/1"
)

// delivery is one event that is sent to one endpoint.
type delivery struct {
	id       int64
	body     []byte
	eventID  string
	name     Name
	test     bool
	attempts int
	tries    int
}

// result is the result of one attempt.
type result struct {
	delivery *delivery
	// probe is true if the breaker was half open.
	probe   bool
	began   time.Time
	took    time.Duration
	outcome Outcome
	// err explains to the institution why there was no complete response.
	err            string
	requestHeader  http.Header
	code           int
	retryAfter     time.Duration
	responseHeader http.Header
	responseBody   []byte
	truncated      bool
	// cut is true if this process cancelled the attempt. The outcome is then unknown.
	cut     bool
	verdict verdict
}

// send makes one attempt. If probe is true, the attempt decides whether the breaker closes. One
// deadline applies to the whole attempt.
func (d *Deliverer) send(ctx context.Context, e *lease, dl *delivery, probe bool) *result {
	r := &result{delivery: dl, probe: probe, began: d.hooks.now()}
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	ctx, span := d.tracer.Root(ctx, trace.Client, "webhook delivery")
	defer func() { e.describe(span, r) }()
	deadline, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(deadline, http.MethodPost, e.url, bytes.NewReader(dl.body))
	if err != nil {
		r.outcome, r.err = Broken, "The endpoint's URL cannot be used."
		return r
	}
	req.Header = e.headers(dl, r.began)
	trace.Inject(ctx, req.Header)
	r.requestHeader = req.Header.Clone()
	// The empty list marks the request as idempotent and sends no header (see http.Transport). The
	// transport then repeats the request if the server closed an idle connection. A receiver recognizes
	// the second copy by its webhook-id.
	req.Header["Idempotency-Key"] = nil
	res, err := d.transport.RoundTrip(req)
	if err == nil {
		r.code, r.responseHeader = res.StatusCode, res.Header
		r.retryAfter = retryAfter(res.Header.Get("Retry-After"), r.began)
		r.responseBody, err = io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
		_ = res.Body.Close()
		if len(r.responseBody) > maxResponse {
			// The bytes read so far are sufficient, and an error in the rest does not matter.
			r.responseBody, r.truncated, err = r.responseBody[:maxResponse], true, nil
		}
	}
	r.classify(ctx, deadline, err)
	return r
}

// headers returns the request headers of one attempt.
func (e *lease) headers(dl *delivery, at time.Time) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {userAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"},
	}
	for _, c := range e.custom {
		h[c.Name] = []string{c.Value}
	}
	e.keys.sign(h, e.uuid, dl.eventID, dl.name, dl.body, at)
	return h
}

// describe adds the result of an attempt to its span, and ends the span. The URL is not added, because it
// may contain a secret.
func (e *lease) describe(s trace.Span, r *result) {
	s.Text("certvault.endpoint", e.uuid)
	s.Text("certvault.event.id", r.delivery.eventID)
	s.Text("certvault.event.name", string(r.delivery.name))
	s.Int("certvault.attempt", r.delivery.attempts+1)
	s.Text("certvault.outcome", string(r.outcome))
	if r.code != 0 {
		s.Int("http.response.status_code", r.code)
	}
	s.End(r.outcome != Delivered)
}

// classify sets the outcome and err. Except for the error of a TLS handshake, err is a fixed text,
// because network errors contain addresses that the institution must not see.
func (r *result) classify(parent, deadline context.Context, err error) {
	switch {
	case err == nil && r.code >= 200 && r.code < 300:
		r.outcome = Delivered
	case err == nil:
		r.outcome = Responded
	case parent.Err() != nil:
		r.outcome, r.cut = Broken, true
	case deadline.Err() != nil, isTimeout(err):
		r.outcome, r.err = TimedOut, "There was no complete answer within 15 s."
	case errors.Is(err, safehttp.ErrBlocked):
		r.outcome, r.err = Blocked, "The endpoint's address may not be reached: it must be https to a public address, unless the operator allows it with --webhook-allow."
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		r.outcome, r.err = Unreachable, "Nothing accepts connections at the endpoint's address."
	default:
		r.classifyProtocol(err)
	}
}

func (r *result) classifyProtocol(err error) {
	if e, ok := errors.AsType[*safehttp.HandshakeError](err); ok {
		r.outcome, r.err = Untrusted, "The TLS handshake failed: "+brief(e.Err)
		return
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		r.outcome, r.err = Unresolved, "The name of the endpoint's host could not be resolved."
		return
	}
	r.outcome, r.err = Broken, "The connection broke before the answer was complete, or the answer is not HTTP."
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// brief returns the text of an error on one line, cut after 300 bytes.
func brief(err error) string {
	text := strings.Join(strings.Fields(sanitized([]byte(err.Error()))), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// sanitized returns untrusted bytes as text that SQLite and PostgreSQL can store: valid UTF-8 without
// zero bytes.
func sanitized(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

// retryAfter parses Retry-After (RFC 9110, 10.2.3): seconds or a date. It returns at most
// maxRetryAfter, and 0 for an invalid value or a time in the past.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	// A number of seconds that overflows counts as the maximum.
	if strings.Trim(value, "0123456789") == "" {
		return maxRetryAfter
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
