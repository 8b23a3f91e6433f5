package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxQueued is the maximum number of spans in the queue. If the queue is full, further spans are lost.
	maxQueued = 4096
	// maxSent is the maximum number of spans of one request.
	maxSent = 512
	// sendDelay is the time for which the first span of a request waits for further spans.
	sendDelay = time.Second
	// sendTime is the timeout of a request to the collector.
	sendTime = 5 * time.Second
	// stopTime is the time between the call of Shutdown and the cancellation of all requests.
	stopTime = 2 * time.Second
	// logInterval is the minimum time between two messages about spans that could not be sent.
	logInterval = time.Minute
	// maxAnswer is the maximum number of bytes that are read from a response.
	maxAnswer = 64 << 10
)

// errQueueFull is the reason for lost spans if the last request succeeded.
var errQueueFull = errors.New("this server records spans faster than the collector accepts them")

// sender sends spans to a collector. Recording a span never waits for the collector.
type sender struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	version string

	queue       chan sdktrace.ReadOnlySpan
	stop, ended chan struct{}
	stopping    sync.Once
	// requests is the context of the requests. It is canceled stopTime after the call of Shutdown.
	requests context.Context //nolint:containedctx // it belongs to the sender, not to a request
	cancel   context.CancelFunc

	sent, lost atomic.Int64
	// loggedAt is the time of the last message about lost spans, and loggedLost their number at that
	// time. Only the goroutine of run uses them.
	loggedAt   time.Time
	loggedLost int64
}

func newSender(o Options) *sender {
	s := &sender{
		url: tracesURL(o.URL), log: o.Log, version: o.Version,
		client: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue: make(chan sdktrace.ReadOnlySpan, maxQueued), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	s.requests, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// tracesURL returns the address for traces of a collector (OTLP, OTLP/HTTP Request).
func tracesURL(base string) string {
	const path = "/v1/traces"
	u, err := url.Parse(base)
	if err != nil || strings.HasSuffix(u.Path, path) {
		return base
	}
	return u.JoinPath(path).String()
}

// OnStart implements [sdktrace.SpanProcessor].
func (s *sender) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements [sdktrace.SpanProcessor].
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	select {
	case s.queue <- span:
	default:
		s.lost.Add(1)
	}
}

// Shutdown implements [sdktrace.SpanProcessor].
func (s *sender) Shutdown(ctx context.Context) error {
	s.stopping.Do(func() {
		close(s.stop)
		time.AfterFunc(stopTime, s.cancel)
	})
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ForceFlush implements [sdktrace.SpanProcessor]. Nothing calls it.
func (s *sender) ForceFlush(context.Context) error { return nil }

// run sends the spans until the sender stops.
func (s *sender) run() {
	defer close(s.ended)
	defer s.client.CloseIdleConnections()
	defer s.cancel()
	var due <-chan time.Time
	list := make([]sdktrace.ReadOnlySpan, 0, maxSent)
	for {
		select {
		case span := <-s.queue:
			if list = append(list, span); len(list) == 1 {
				due = time.After(sendDelay)
			}
			if len(list) < maxSent {
				continue
			}
		case <-due:
		case <-s.stop:
			s.finish(list)
			return
		}
		s.send(list)
		list, due = list[:0], nil
	}
}

// finish sends the spans of list and of the queue.
func (s *sender) finish(list []sdktrace.ReadOnlySpan) {
	for {
		for len(list) < maxSent && len(s.queue) > 0 {
			list = append(list, <-s.queue)
		}
		if len(list) == 0 {
			return
		}
		s.send(list)
		list = list[:0]
	}
}

// send sends spans. If this fails, the spans are lost. Spans that were kept would fill the memory while
// the collector is not available.
func (s *sender) send(list []sdktrace.ReadOnlySpan) {
	rejected, err := s.post(list)
	s.sent.Add(int64(len(list)) - rejected)
	s.lost.Add(rejected)
	s.report(err)
}

// report logs the number of spans that were lost since the last message, at most once in logInterval.
// err is the error of the last request, or nil.
func (s *sender) report(err error) {
	lost := s.lost.Load()
	if lost == s.loggedLost || time.Since(s.loggedAt) < logInterval {
		return
	}
	if err == nil {
		err = errQueueFull
	}
	s.log.Warn("traces are incomplete: the collector of --otlp did not get all spans",
		slog.Int64("lost_spans", lost-s.loggedLost), slog.Any("error", err))
	s.loggedAt, s.loggedLost = time.Now(), lost
}

// post sends spans, and returns the number of spans that the collector did not accept. If the number is
// not 0, err is the reason.
func (s *sender) post(list []sdktrace.ReadOnlySpan) (rejected int64, err error) {
	all := int64(len(list))
	body, err := json.Marshal(message(list, s.version))
	if err != nil {
		return all, fmt.Errorf("encoding spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.requests, sendTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return all, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return all, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode != http.StatusOK {
		return all, fmt.Errorf("the collector responded %s", response.Status)
	}
	var partial struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
			ErrorMessage  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if err != nil || json.Unmarshal(answer, &partial) != nil {
		return 0, nil // the status alone means success
	}
	if n, err := partial.PartialSuccess.RejectedSpans.Int64(); err == nil && n > 0 {
		return min(n, all), fmt.Errorf("the collector rejected spans: %.200q", partial.PartialSuccess.ErrorMessage)
	}
	return 0, nil
}
