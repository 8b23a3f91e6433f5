package blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
)

// contextStore is a store whose Delete fails if the context has ended, like a store on the network.
type contextStore struct{ blob.Store }

func (s contextStore) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

type fullStore struct{ blob.Store }

func (fullStore) Put(context.Context, string, io.Reader) (int64, error) { return 0, blob.ErrFull }

func TestReceive(t *testing.T) {
	t.Parallel()
	folder, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("connection reset")
	for name, tc := range map[string]struct {
		check, use error
		stored     bool
	}{
		"accepted":                    {nil, nil, true},
		"wrong file":                  {fault.New(fault.Invalid, "no"), nil, false},
		"cannot be checked":           {failure, nil, false},
		"wrong fields":                {nil, fault.New(fault.Invalid, "no"), false},
		"over the quota":              {nil, fault.New(fault.TooMany, "no"), false},
		"response to the commit lost": {nil, failure, true},
		"an internal fault":           {nil, fault.Wrap(fault.Internal, "", failure), true},
	} {
		key := strings.ReplaceAll(strings.ToLower(name), " ", "-")
		ctx, cancel := context.WithCancel(t.Context())
		err := blob.Receive(ctx, contextStore{folder}, key, strings.NewReader("x"), func(size int64) error {
			if size != 1 {
				t.Errorf("%s: size = %d, want 1", name, size)
			}
			return tc.check
		}, func() error {
			cancel() // the client disconnects
			return tc.use
		})
		cancel()
		want := tc.check
		if want == nil {
			want = tc.use
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: err = %v, want %v", name, err, want)
		}
		o, err := folder.Open(t.Context(), key)
		if err == nil {
			err = o.Close()
		}
		if tc.stored && err != nil || !tc.stored && !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: opening the blob: err = %v, want stored %t", name, err, tc.stored)
		}
	}
	err = blob.Receive(t.Context(), fullStore{folder}, "x", strings.NewReader("x"), nil, nil)
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter <= 0 {
		t.Errorf("full store: err = %v, want Unavailable with RetryAfter", err)
	}
}
