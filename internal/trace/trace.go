// Package trace records what requests, jobs and webhook deliveries do, as spans of OpenTelemetry, and
// sends them to a collector (OTLP, opentelemetry.io/docs/specs/otlp).
//
// A span contains the name, the times and the attributes of an operation, ids, and whether the operation
// failed. It must not contain data about people: no address, name, title, token, path of a request or
// text of an error.
//
// Without a Tracer, no context has a span, and [Start] does nothing.
package trace

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// scope is the name of the service, and of its instrumentation scope: the part of a program that records
// spans.
const scope = "certvault"

// parentHeader is the header with the ids of a trace and a span (W3C Trace Context, 3.2). The header
// tracestate, with data of other tracing systems, is neither read nor sent.
const parentHeader = "traceparent"

// Kind is the relation of an operation to other programs.
type Kind oteltrace.SpanKind

const (
	// Internal operations do not leave the process.
	Internal = Kind(oteltrace.SpanKindInternal)
	// Server operations respond to the request of another program.
	Server = Kind(oteltrace.SpanKindServer)
	// Client operations wait for the response of another program.
	Client = Kind(oteltrace.SpanKindClient)
	// Consumer operations process what was enqueued earlier.
	Consumer = Kind(oteltrace.SpanKindConsumer)
)

// Options are the settings of a Tracer.
type Options struct {
	// URL is the address of the collector. The path /v1/traces is added unless the URL ends in it.
	URL string
	// Node is the name of this server, and Version is its release.
	Node, Version string
	Log           *slog.Logger
}

// Tracer begins spans and sends them. A nil Tracer begins none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	sender   *sender
}

// New returns a Tracer. It sends spans in the background until Stop is called. The environment variables
// OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES of OpenTelemetry apply.
func New(o Options) *Tracer {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("recording traces failed", slog.Any("error", err)) }))
	s := newSender(o)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(s), sdktrace.WithoutPanicRecording(), // a panic may contain anything
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", scope), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Node),
		)))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope, oteltrace.WithInstrumentationVersion(o.Version)), sender: s}
}

// Stop sends the spans that were not sent yet. It returns at the latest when ctx is done, or about
// stopTime after the call.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Sent returns the number of spans that the collector has accepted.
func (t *Tracer) Sent() int64 { return t.sender.sent.Load() }

// Lost returns the number of spans that could not be sent, or that the collector rejected.
func (t *Tracer) Lost() int64 { return t.sender.lost.Load() }

// Request begins the span of a request with the headers h. It continues the trace that the header
// traceparent names, or begins a trace if there is no valid one.
func (t *Tracer) Request(ctx context.Context, h http.Header) (context.Context, Span) {
	var parent string
	if list := h.Values(parentHeader); len(list) == 1 { // several headers are not valid
		parent = list[0]
	}
	return t.begin(ctx, Server, "request", parent)
}

// Job begins the span of a job. parent is the result of [Parent] at the time when the job was enqueued.
func (t *Tracer) Job(ctx context.Context, name, parent string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.begin(context.WithValue(ctx, jobKey{}, true), Consumer, name, parent)
}

// Root begins the first span of a trace. ctx must not have a span.
func (t *Tracer) Root(ctx context.Context, kind Kind, name string) (context.Context, Span) {
	return t.begin(ctx, kind, name, "")
}

func (t *Tracer) begin(ctx context.Context, kind Kind, name, parent string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	// If parent is not valid, ctx does not change, and a trace begins.
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{parentHeader: parent})
	ctx, span := t.tracer.Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKind(kind))) //nolint:spancheck // the caller ends the span
	return ctx, Span{span}                                                                   //nolint:spancheck // the caller ends the span
}

// Start begins a span within the span of ctx. If ctx has no recorded span, Start returns ctx and the zero
// Span.
func Start(ctx context.Context, kind Kind, name string) (context.Context, Span) {
	parent := oteltrace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKind(kind))) //nolint:spancheck // the caller ends the span
	return ctx, Span{span}                                                                                                //nolint:spancheck // the caller ends the span
}

// Text adds an attribute to the span of ctx. The comment of the package lists what value must not contain.
func Text(ctx context.Context, key, value string) {
	if span := oteltrace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String(key, value))
	}
}

// jobKey is the key of a value that only the context of a job has.
type jobKey struct{}

// Parent returns the value of the header traceparent for the span of ctx, or "" if ctx has no span. A job
// continues the trace with it. In the context of a job, Parent also returns "": jobs that a job enqueues,
// such as the next certificate of a batch, have their own traces, because the trace of a whole batch
// would be too long to read.
func Parent(ctx context.Context) string {
	if ctx.Value(jobKey{}) != nil {
		return ""
	}
	return position(ctx)
}

// Inject sets the header traceparent of a request to the span of ctx, unless the request has that header.
func Inject(ctx context.Context, h http.Header) {
	p := position(ctx)
	if p == "" {
		return
	}
	for name := range h {
		if strings.EqualFold(name, parentHeader) {
			return
		}
	}
	h.Set(parentHeader, p)
}

func position(ctx context.Context) string {
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[parentHeader]
}

// Span is an operation in a trace. The zero Span records nothing.
type Span struct{ span oteltrace.Span }

// On reports whether the span is being recorded.
func (s Span) On() bool { return s.span != nil && s.span.IsRecording() }

// TraceID returns the id of the trace, or "" if the span is not being recorded.
func (s Span) TraceID() string {
	if !s.On() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Rename changes the name of the operation.
func (s Span) Rename(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// Text adds an attribute to the span. As for the function [Text], value must not contain data about people.
func (s Span) Text(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Int adds an attribute with a number to the span.
func (s Span) Int(key string, value int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// End ends the span, and records whether the operation failed.
func (s Span) End(failed bool) {
	if s.span == nil {
		return
	}
	if failed {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
