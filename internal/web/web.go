// Package web owns what all HTTP surfaces of the vault share: handlers that return errors, the
// conversion of an error to a response, the middleware around every request, and the URLs of the
// vault. The surfaces are packages below this package.
package web

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/trace"
)

// Func is a handler that returns its error instead of writing it.
type Func func(w http.ResponseWriter, r *http.Request) error

// Renderer writes an error as the response: as JSON, or as a page.
type Renderer func(w http.ResponseWriter, r *http.Request, err error)

// Handler returns an http.Handler that calls f and renders its error.
func Handler(render Renderer, f Func) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			render(w, r, err)
		}
	})
}

// contextKey is the type of this package's keys in a request's context.
type contextKey int

const requestKey contextKey = iota

// request holds the data of a request that the middleware determines, and the data that handlers
// add to the request's log line.
type request struct {
	id     string
	client netip.Addr
	route  string
	err    error
	span   trace.Span
	// warnUnknown logs that the address of the client is unknown. It is nil if the address is
	// known. Client calls warnUnknown when a handler uses the address. A health check by the proxy
	// has no client address and must not cause a warning.
	warnUnknown func()
}

func requestOf(r *http.Request) *request {
	q, ok := r.Context().Value(requestKey).(*request)
	if !ok {
		return &request{}
	}
	return q
}

// RequestID returns the id under which a request is logged.
func RequestID(r *http.Request) string { return requestOf(r).id }

// Client returns the client address of a request. Behind a trusted proxy, this is the address that
// the proxy reports. If the proxy reports no usable address, Client returns the zero Addr, which is not
// valid and not a loopback address, and logs a warning at most once an hour.
func Client(r *http.Request) netip.Addr {
	q := requestOf(r)
	if q.warnUnknown != nil {
		q.warnUnknown()
	}
	return q.client
}

// SetRoute records the pattern of a request for the log and the metrics, because the raw path may
// contain secrets.
func SetRoute(r *http.Request, pattern string) { requestOf(r).route = pattern }

// Record adds an error to a request's log line. The error does not affect the response. If the line
// already has an error, Record does nothing.
func Record(r *http.Request, err error) {
	if q := requestOf(r); q.err == nil {
		q.err = err
	}
}

// drillHeader is the response header of a vault that is a drill.
const drillHeader = "Certvault-Drill"

// Options configures the middleware.
type Options struct {
	Log *slog.Logger
	// Proxies are the addresses whose forwarded headers are trusted. With proxies, requests from
	// other addresses are rejected. Without proxies, a request must use TLS directly.
	Proxies []netip.Prefix
	// HSTS sends Strict-Transport-Security. It must be off with a self-signed certificate, because with
	// HSTS a browser does not let a person ignore the warning about the certificate.
	HSTS bool
	// Drill sends the header Certvault-Drill. It is set if the vault is a drill of a restore.
	Drill   bool
	Metrics *Metrics
	// Tracer records traces. It may be nil.
	Tracer *trace.Tracer
	Now    func() time.Time
}

// Wrap applies the middleware to all routes. It sets the id of each request, determines the
// client's address, sets security headers, requires HTTPS, recovers from panics, and writes the log
// and the metrics.
func Wrap(o Options, next http.Handler) http.Handler {
	warned := &warnings{at: map[netip.Addr]time.Time{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := o.Now()
		q := &request{id: requestIDOf(r)}
		ctx := r.Context()
		if !slices.Contains(healthPaths, r.URL.Path) {
			ctx, q.span = o.Tracer.Request(ctx, r.Header)
		}
		r = r.WithContext(context.WithValue(ctx, requestKey, q))
		rec := &recorder{ResponseWriter: w}
		rec.Header().Set("X-Request-Id", q.id)
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		if o.Drill {
			rec.Header().Set(drillHeader, "true")
		}
		if o.HSTS {
			rec.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		defer func() {
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler { //nolint:errorlint,err113 // the value of a panic, compared as in net/http
					Record(r, http.ErrAbortHandler)
					o.finish(r, rec, q, o.Now().Sub(start))
					panic(v) //nolint:forbidigo // makes net/http close the connection
				}
				o.Log.ErrorContext(r.Context(), "a handler panicked", slog.String("request_id", q.id), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
				if rec.status != 0 {
					o.finish(r, rec, q, o.Now().Sub(start))
					panic(http.ErrAbortHandler) //nolint:forbidigo // a truncated response must not look complete
				}
				WriteJSONError(rec, r, fault.New(fault.Internal, ""))
			}
			o.finish(r, rec, q, o.Now().Sub(start))
		}()
		secure := o.locate(r, q)
		if !secure {
			q.route = "(plain HTTP)"
			WriteJSONError(rec, r, fault.New(fault.BadRequest, "HTTPS is required."))
			return
		}
		if len(o.Proxies) > 0 && !q.client.IsValid() {
			q.warnUnknown = func() { o.warnUnknown(r, warned, start) }
		}
		next.ServeHTTP(rec, r)
	})
}

// peer returns the address of the other end of the connection, or the zero Addr if the address
// cannot be parsed.
func peer(r *http.Request) netip.Addr {
	a, _ := parseHop(r.RemoteAddr)
	return a
}

// unknownInterval is the interval at which the log reports that a proxy sends no usable addresses.
const unknownInterval = time.Hour

// warnings has the time of the last warning about each proxy.
type warnings struct {
	mu sync.Mutex
	at map[netip.Addr]time.Time
}

// due reports whether a warning about a proxy is due. If so, it records now as the time of the last
// warning.
func (w *warnings) due(proxy netip.Addr, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.at[proxy]; ok && now.Sub(last) < unknownInterval {
		return false
	}
	w.at[proxy] = now
	return true
}

// warnUnknown logs, at most once in unknownInterval for each proxy, that the proxy does not report
// the addresses of clients.
func (o *Options) warnUnknown(r *http.Request, warned *warnings, now time.Time) {
	proxy := peer(r)
	if !warned.due(proxy, now) {
		return
	}
	o.Log.WarnContext(r.Context(),
		"misconfiguration: the proxy sends no usable X-Forwarded-For header, so the addresses of clients are unknown and all of them share the limits on requests",
		slog.String("proxy", proxy.String()))
}

// locate determines the client's address and reports whether the client used HTTPS. If there are
// trusted proxies, locate uses the forwarded headers of a trusted proxy, and a request from any
// other address is not secure.
func (o *Options) locate(r *http.Request, q *request) (secure bool) {
	q.client = peer(r)
	if len(o.Proxies) == 0 {
		return r.TLS != nil
	}
	if !o.trusted(q.client) {
		return false
	}
	q.client = o.forwardedFor(r)
	return strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// forwardedFor returns the client's address that the trusted proxies report. It reads the entries
// of X-Forwarded-For from right to left, and stops at the first address that is not a trusted
// proxy. If there is no entry, or an entry that it reads is not an address, it returns the zero Addr.
// It must not return the address of the proxy instead, because the proxy may run on this machine, and
// loopback addresses have more rights.
func (o *Options) forwardedFor(r *http.Request) (client netip.Addr) {
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		a, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			return netip.Addr{}
		}
		client = a
		if !o.trusted(a) {
			break
		}
	}
	return client
}

// parseHop parses an address, with or without a port, and reports whether it is valid. An IPv6
// address may be in brackets.
func parseHop(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		text, _ = strings.CutSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err == nil
}

func (o *Options) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(o.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (o *Options) finish(r *http.Request, rec *recorder, q *request, took time.Duration) {
	route := q.route
	if route == "" {
		route = r.Pattern
	}
	if route == "" {
		route = "(none)"
	}
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	o.Metrics.request(route, rec.status, took)
	client := "unknown"
	if q.client.IsValid() {
		client = q.client.String()
	}
	attrs := []slog.Attr{
		slog.String("request_id", q.id), slog.String("method", methodOf(r)), slog.String("route", route),
		slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took), slog.String("client", client),
	}
	if id := q.span.TraceID(); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	level := slog.LevelInfo
	if q.err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", q.err))
	}
	q.endSpan(methodOf(r), route, rec.status)
	o.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// healthPaths are not traced, because proxies request them frequently.
var healthPaths = []string{"/healthz", "/readyz"}

// endSpan adds the result of a request to its span, and ends the span. The path is not added, because it
// may contain a secret.
func (q *request) endSpan(method, route string, status int) {
	if !q.span.On() {
		return
	}
	name := route
	if _, path, ok := strings.Cut(route, " /"); ok {
		route = "/" + path
	} else {
		name = method + " " + route
	}
	q.span.Rename(name)
	q.span.Text("http.request.method", method)
	q.span.Text("http.route", route)
	q.span.Int("http.response.status_code", status)
	q.span.Text("certvault.request_id", q.id)
	q.span.End(status >= http.StatusInternalServerError)
}

// methods are the methods of RFC 9110, 9.3, and PATCH of RFC 5789.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// methodOf returns a request's method for the log. It replaces an unknown method, which may be long
// and contain arbitrary text.
func methodOf(r *http.Request) string {
	if slices.Contains(methods, r.Method) {
		return r.Method
	}
	return "(other)"
}

var requestIDRule = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// requestIDOf returns the caller's request id if it is safe, or else a new id. With the caller's id, a
// request has the same id in the logs of the caller and of the vault.
func requestIDOf(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); requestIDRule.MatchString(id) {
		return id
	}
	return rand.Text()
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter

	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Flush sends the buffered data to the client. Unwrap is not enough, because the compressing writer
// only checks whether this type is an http.Flusher.
func (w *recorder) Flush() {
	// Ignore an error here, because the next write reports a closed connection.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the wrapped writer. It is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
