package trace

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The types below are the JSON encoding of ExportTraceServiceRequest (OTLP, JSON Protobuf Encoding): ids
// in hexadecimal, numbers of 64 bits as text, enumerations as numbers.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scopeName `json:"scope"`
		Spans []span    `json:"spans"`
	}
	scopeName struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		TraceID      string     `json:"traceId"`
		SpanID       string     `json:"spanId"`
		ParentSpanID string     `json:"parentSpanId,omitempty"`
		Flags        uint32     `json:"flags"`
		Name         string     `json:"name"`
		Kind         int        `json:"kind"`
		Start        int64      `json:"startTimeUnixNano,string"`
		End          int64      `json:"endTimeUnixNano,string"`
		Attributes   []keyValue `json:"attributes,omitempty"`
		Status       status     `json:"status"`
	}
	status struct {
		Code int `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	// value has exactly one of its fields.
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

const (
	// isRemote means that the parent is in another process. Without hasIsRemote, this is unknown
	// (SpanFlags, opentelemetry/proto/trace/v1).
	hasIsRemote = 1 << 8
	isRemote    = 1 << 9
	// statusError is STATUS_CODE_ERROR.
	statusError = 2
)

// message returns the request that contains the spans of list, which must not be empty.
func message(list []sdktrace.ReadOnlySpan, version string) request {
	spans := make([]span, len(list))
	for i, s := range list {
		spans[i] = encode(s)
	}
	return request{ResourceSpans: []resourceSpans{{
		Resource:   attributes{keyValues(list[0].Resource().Attributes())},
		ScopeSpans: []scopeSpans{{Scope: scopeName{Name: scope, Version: version}, Spans: spans}},
	}}}
}

func encode(s sdktrace.ReadOnlySpan) span {
	position, parent := s.SpanContext(), s.Parent()
	out := span{
		TraceID: position.TraceID().String(), SpanID: position.SpanID().String(), Flags: uint32(position.TraceFlags()) | hasIsRemote,
		Name: s.Name(), Kind: kindNumber(s.SpanKind()), Start: s.StartTime().UnixNano(), End: s.EndTime().UnixNano(), Attributes: keyValues(s.Attributes()),
	}
	if parent.HasSpanID() {
		out.ParentSpanID = parent.SpanID().String()
	}
	if parent.IsRemote() {
		out.Flags |= isRemote
	}
	if s.Status().Code == codes.Error {
		out.Status.Code = statusError
	}
	return out
}

// kindNumber returns the number of a SpanKind.
func kindNumber(k oteltrace.SpanKind) int {
	switch k {
	case oteltrace.SpanKindServer:
		return 2
	case oteltrace.SpanKindClient:
		return 3
	case oteltrace.SpanKindProducer:
		return 4
	case oteltrace.SpanKindConsumer:
		return 5
	case oteltrace.SpanKindUnspecified, oteltrace.SpanKindInternal:
		return 1
	}
	return 1
}

func keyValues(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, len(list))
	for i, a := range list {
		out[i].Key = string(a.Key)
		if a.Value.Type() == attribute.INT64 {
			out[i].Value.Int = new(strconv.FormatInt(a.Value.AsInt64(), 10))
		} else {
			out[i].Value.String = new(a.Value.String())
		}
	}
	return out
}
