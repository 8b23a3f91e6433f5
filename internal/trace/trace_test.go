package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// collector receives spans as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
	// respond, if not nil, writes the response to a request.
	respond http.HandlerFunc
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var m request
	if err := errors.Join(err, d.Decode(&m)); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "not a request for spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.requests = append(c.requests, m)
	respond := c.respond
	c.mu.Unlock()
	if respond != nil {
		respond(w, r)
		return
	}
	_, _ = io.WriteString(w, "{}")
}

// spans returns the spans that the collector got, by name.
func (c *collector) spans() map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]span{}
	for _, m := range c.requests {
		for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
			all[s.Name] = s
		}
	}
	return all
}

func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key && a.Value.String != nil {
			return *a.Value.String
		} else if a.Key == key {
			return *a.Value.Int
		}
	}
	return ""
}

// tracer returns a Tracer that sends to the collector at url, and its log.
func tracer(t *testing.T, url string) (*Tracer, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	tracer := New(Options{URL: url, Node: "node-1", Version: "1.2.3", Log: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() { stop(t, tracer) })
	return tracer, &log
}

func stop(t *testing.T, tracer *Tracer) {
	t.Helper()
	if err := tracer.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

const (
	remoteTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	remoteSpan  = "00f067aa0ba902b7"
	remote      = "00-" + remoteTrace + "-" + remoteSpan + "-01"
)

// TestTrace checks that a request, its transaction and its job are in one trace, that a delivery has its
// own trace, and that the collector receives them in the encoding of OTLP.
func TestTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tracer, log := tracer(t, c.URL)
	began := time.Now().UnixNano()
	ctx, request := tracer.Request(t.Context(), http.Header{"Traceparent": {remote}})
	request.Rename("GET /x")
	request.Int("status", 200)
	inner, transaction := Start(ctx, Client, "transaction")
	Text(inner, "kind", "sqlite")
	transaction.End(true)
	h := http.Header{}
	Inject(inner, h)
	parent := Parent(ctx)
	request.End(false)
	job, sealing := tracer.Job(t.Context(), "job seal", parent)
	if Parent(job) != "" {
		t.Error("a job that a job enqueues continues the trace, want its own trace")
	}
	sealing.End(false)
	_, root := tracer.Root(t.Context(), Client, "delivery")
	root.End(false)
	stop(t, tracer)

	spans := c.spans()
	if len(spans) != 4 || tracer.Sent() != 4 || tracer.Lost() != 0 || log.Len() > 0 {
		t.Fatalf("the collector got %d spans, sent %d, lost %d, log %s; want 4, 4, 0 and no log", len(spans), tracer.Sent(), tracer.Lost(), log)
	}
	of := func(name string, trace, parent string, kind, status int) span {
		t.Helper()
		s := spans[name]
		if s.TraceID != trace || s.ParentSpanID != parent || s.Kind != kind || s.Status.Code != status || len(s.SpanID) != 16 || s.Start < began || s.End < s.Start {
			t.Errorf("the span %s is %+v, want the trace %s, the parent %s, the kind %d and the status %d", name, s, trace, parent, kind, status)
		}
		return s
	}
	first := of("GET /x", remoteTrace, remoteSpan, 2, 0)
	second := of("transaction", remoteTrace, first.SpanID, 3, 2)
	of("job seal", remoteTrace, first.SpanID, 5, 0)
	last := of("delivery", spans["delivery"].TraceID, "", 3, 0)
	if len(last.TraceID) != 32 || last.TraceID == remoteTrace {
		t.Errorf("the delivery has the trace %s, want its own trace", last.TraceID)
	}
	if first.attribute("status") != "200" || second.attribute("kind") != "sqlite" || first.Flags != 0x301 || second.Flags != 0x101 {
		t.Errorf("the spans are %+v and %+v, want their attributes, and the flags 0x301 (remote parent) and 0x101 (local parent)", first, second)
	}
	if want := "00-" + remoteTrace + "-" + second.SpanID + "-01"; h.Get("traceparent") != want {
		t.Errorf("traceparent = %q, want %q", h.Get("traceparent"), want)
	}
	text, err := json.Marshal(c.requests[0].ResourceSpans[0].Resource)
	if err != nil || string(text) != `{"attributes":[{"key":"service.instance.id","value":{"stringValue":"node-1"}},{"key":"service.name","value":{"stringValue":"certvault"}},{"key":"service.version","value":{"stringValue":"1.2.3"}}]}` {
		t.Errorf("the resource is %s, %v; want the id of the instance, the name and the version", text, err)
	}
}

// TestParents checks for which values of the header traceparent a request continues a trace (W3C Trace
// Context, 3.2 and 4.3).
func TestParents(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tracer, _ := tracer(t, c.URL)
	for name, test := range map[string]struct {
		headers   []string
		continued bool
		recorded  bool
	}{
		"none":        {nil, false, true},
		"sampled":     {[]string{remote}, true, true},
		"not sampled": {[]string{strings.TrimSuffix(remote, "01") + "00"}, true, false},
		"later":       {[]string{"01" + remote[2:] + "-more"}, true, true},
		"two":         {[]string{remote, remote}, false, true},
		"version ff":  {[]string{"ff" + remote[2:]}, false, true},
		"upper case":  {[]string{strings.ToUpper(remote)}, false, true},
		"zero":        {[]string{"00-" + strings.Repeat("0", 32) + "-" + remoteSpan + "-01"}, false, true},
		"long":        {[]string{strings.Repeat("0", 60_000)}, false, true},
	} {
		ctx, span := tracer.Request(t.Context(), http.Header{"Traceparent": test.headers})
		if got := strings.Contains(Parent(ctx), remoteTrace); got != test.continued || span.On() != test.recorded {
			t.Errorf("%s: continued %v, recorded %v, want %v, %v", name, got, span.On(), test.continued, test.recorded)
		}
		if _, inner := Start(ctx, Internal, "inner"); inner.On() != test.recorded {
			t.Errorf("%s: the inner span is recorded: %v, want %v", name, inner.On(), test.recorded)
		}
		span.End(false)
	}
}

// TestInjectKeepsAHeader checks that Inject does not replace a header traceparent.
func TestInjectKeepsAHeader(t *testing.T) {
	t.Parallel()
	tracer, _ := tracer(t, newCollector(t).URL)
	ctx, span := tracer.Root(t.Context(), Client, "delivery")
	defer span.End(false)
	h := http.Header{"traceparent": {"own"}}
	if Inject(ctx, h); len(h) != 1 {
		t.Errorf("the headers are %v, want only the header that the request had", h)
	}
}

// TestCollectorFails checks that spans that the collector does not accept are counted as lost, and that
// the log contains the reason.
func TestCollectorFails(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		respond http.HandlerFunc
		lost    int64
		message string
	}{
		"unavailable": {answer(http.StatusServiceUnavailable, "no"), 3, "503"},
		"redirect":    {answer(http.StatusTemporaryRedirect, ""), 3, "307"},
		"rejected":    {answer(http.StatusOK, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}`), 2, "too old"},
		"no JSON":     {answer(http.StatusOK, "ok"), 0, ""},
	} {
		c.mu.Lock()
		c.respond = test.respond
		c.mu.Unlock()
		tracer, log := tracer(t, c.URL)
		for range 3 {
			_, span := tracer.Root(t.Context(), Internal, "x")
			span.End(false)
		}
		stop(t, tracer)
		if tracer.Lost() != test.lost || tracer.Sent() != 3-test.lost || !strings.Contains(log.String(), test.message) || (test.lost == 0) != (log.Len() == 0) {
			t.Errorf("%s: lost %d, sent %d, log %s; want %d lost and the message %s", name, tracer.Lost(), tracer.Sent(), log, test.lost, test.message)
		}
	}
}

func TestOneMessageInAMinute(t *testing.T) {
	t.Parallel()
	tracer, log := tracer(t, newCollector(t).URL)
	s := tracer.sender
	stop(t, tracer)
	for i := range 5 {
		s.lost.Add(1) // as OnEnd does when the queue is full
		s.report(nil)
		if i == 3 {
			s.loggedAt = s.loggedAt.Add(-logInterval)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "lost_spans=1 ") || !strings.Contains(log.String(), "lost_spans=4 ") {
		t.Errorf("the log is %s, want a message with 1 lost span, and after a minute one with 4", log)
	}
}

func TestNothingWaitsForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	release := make(chan struct{})
	c.respond = func(http.ResponseWriter, *http.Request) { <-release }
	defer close(release)
	tracer, _ := tracer(t, c.URL)
	const total = maxQueued + 3*maxSent
	began := time.Now()
	for range total {
		_, span := tracer.Root(t.Context(), Internal, "x")
		span.End(false)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("%d spans took %v, want at most a second", total, took)
	}
	began = time.Now()
	stop(t, tracer)
	if took := time.Since(began); took > 2*stopTime || tracer.Lost() != total {
		t.Errorf("Stop took %v and lost %d spans, want at most %v and %d", took, tracer.Lost(), 2*stopTime, total)
	}
}

func TestTracesURL(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://localhost:4318": "http://localhost:4318/v1/traces", "http://localhost:4318/": "http://localhost:4318/v1/traces",
		"https://user:password@c.example/otlp": "https://user:password@c.example/otlp/v1/traces", "https://c.example/v1/traces": "https://c.example/v1/traces",
	} {
		if got := tracesURL(base); got != want {
			t.Errorf("tracesURL(%s) = %s, want %s", base, got, want)
		}
	}
}

// BenchmarkStart measures an operation without a Tracer (off) and with one (on).
func BenchmarkStart(b *testing.B) {
	type key int
	operation := func(b *testing.B, ctx context.Context) {
		for i := range 8 { // about as deep as the context of a request
			ctx = context.WithValue(ctx, key(i), i) //nolint:fatcontext // the depth is measured
		}
		b.ReportAllocs()
		for b.Loop() {
			ctx, span := Start(ctx, Internal, "x")
			Text(ctx, "key", "value")
			span.End(false)
		}
	}
	b.Run("off", func(b *testing.B) { operation(b, b.Context()) })
	b.Run("on", func(b *testing.B) {
		c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer c.Close()
		tracer := New(Options{URL: c.URL, Log: slog.New(slog.DiscardHandler)})
		ctx, span := tracer.Root(b.Context(), Internal, "root")
		operation(b, ctx)
		span.End(false)
		if err := tracer.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
	})
}
