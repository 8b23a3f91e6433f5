package blob

import (
	"context"
	"errors"
	"io"

	"github.com/certvault/certvault/internal/trace"
)

type traced struct{ Store }

// Traced returns a store whose operations on one blob have spans in the traces of their callers.
func Traced(s Store) Store { return traced{s} }

// Put implements [Store].
func (t traced) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	return t.put(ctx, key, r, t.Store.Put)
}

// PutReserved implements [Store].
func (t traced) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	return t.put(ctx, key, r, t.Store.PutReserved)
}

// put calls the function put in a span. The span includes the time for reading r.
func (traced) put(ctx context.Context, key string, r io.Reader, put func(context.Context, string, io.Reader) (int64, error)) (int64, error) {
	ctx, span := trace.Start(ctx, trace.Internal, "store put")
	size, err := put(ctx, key, r)
	span.Int("certvault.bytes", int(size))
	span.End(err != nil)
	return size, err
}

// Open implements [Store].
func (t traced) Open(ctx context.Context, key string) (Object, error) {
	ctx, span := trace.Start(ctx, trace.Internal, "store open")
	o, err := t.Store.Open(ctx, key)
	span.End(err != nil && !errors.Is(err, ErrNotFound))
	return o, err
}

// Delete implements [Store].
func (t traced) Delete(ctx context.Context, key string) error {
	ctx, span := trace.Start(ctx, trace.Internal, "store delete")
	err := t.Store.Delete(ctx, key)
	span.End(err != nil)
	return err
}
