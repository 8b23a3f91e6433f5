package blob_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/trace"
)

// TestTracedRequests checks that requests to S3 have a header Traceparent with the trace of the caller,
// and no such header without a trace.
func TestTracedRequests(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	tracer := trace.New(trace.Options{URL: collector.URL, Log: slog.New(slog.DiscardHandler)})
	var parents []string
	memory := &blobtest.Memory{}
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents = append(parents, r.Header.Get("Traceparent"))
		memory.ServeHTTP(w, r)
	})
	s3, err := blob.OpenS3(blobtest.NewS3(t, server).Location(), blob.S3Options{Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	store := blob.Traced(s3)
	use := func(ctx context.Context, key string) {
		t.Helper()
		if _, err := store.Put(ctx, key, strings.NewReader("content")); err != nil {
			t.Fatal(err)
		}
		o, err := store.Open(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Delete(ctx, key); err != nil {
			t.Error(err)
		}
	}
	use(t.Context(), "a/b")
	if len(parents) != 3 || strings.Join(parents, "") != "" {
		t.Errorf("without a trace, the headers Traceparent are %q, want 3 empty headers", parents)
	}
	parents = nil
	ctx, root := tracer.Root(t.Context(), trace.Internal, "root")
	use(ctx, "a/c")
	different := map[string]bool{}
	for _, p := range parents {
		different[p] = strings.HasPrefix(p, "00-"+root.TraceID()+"-")
	}
	root.End(false)
	if err := tracer.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if len(different) != 3 || tracer.Sent() != 7 {
		t.Errorf("the headers Traceparent are %q, and %d spans were sent, want 3 different headers of the trace %s and 7 spans", parents, tracer.Sent(), root.TraceID())
	}
	for p, of := range different {
		if !of {
			t.Errorf("a header Traceparent is %q, want one with the trace of the caller", p)
		}
	}
}
