package job

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/trace"
)

// metadata is the metadata of a job in River.
type metadata struct {
	// Parent is the span of the request that enqueued the job, as the value of a traceparent header.
	Parent string `json:"traceparent"`
}

// continued returns opts with trace.Parent of ctx in the metadata, so that the job continues the trace.
func continued(ctx context.Context, opts *river.InsertOpts) *river.InsertOpts {
	parent := trace.Parent(ctx)
	if parent == "" {
		return opts
	}
	var o river.InsertOpts
	if opts != nil {
		o = *opts
	}
	o.Metadata = []byte(`{"traceparent":"` + parent + `"}`) // parent has only hexadecimal digits and hyphens
	return &o
}

// tracing begins a span for each attempt at a job.
type tracing struct {
	river.MiddlewareDefaults

	tracer *trace.Tracer
}

// Work implements [rivertype.WorkerMiddleware].
func (t *tracing) Work(ctx context.Context, row *rivertype.JobRow, work func(context.Context) error) error {
	var m metadata
	_ = json.Unmarshal(row.Metadata, &m) // without a parent, the job begins a new trace
	ctx, span := t.tracer.Job(ctx, "job "+row.Kind, m.Parent)
	span.Text("certvault.queue", row.Queue)
	span.Int("certvault.job", int(row.ID))
	span.Int("certvault.attempt", row.Attempt)
	err := work(ctx)
	_, snoozed := errors.AsType[*rivertype.JobSnoozeError](err)
	span.End(err != nil && !snoozed)
	return err
}
