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

// strict deletes nothing for a context that has ended, like a store behind a
// network.
type strict struct{ blob.Store }

func (s strict) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

type full struct{ blob.Store }

func (full) Put(context.Context, string, io.Reader) (int64, error) { return 0, blob.ErrFull }

func TestReceive(t *testing.T) {
	t.Parallel()
	folder, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the connection broke")
	for name, tc := range map[string]struct {
		check, use error
		kept       bool
	}{
		"accepted":                    {nil, nil, true},
		"wrong file":                  {fault.New(fault.Invalid, "no"), nil, false},
		"cannot be checked":           {broken, nil, false},
		"wrong fields":                {nil, fault.New(fault.Invalid, "no"), false},
		"over the quota":              {nil, fault.New(fault.TooMany, "no"), false},
		"the answer to a commit lost": {nil, broken, true},
		"an internal fault":           {nil, fault.Wrap(fault.Internal, "", broken), true},
	} {
		key := strings.ReplaceAll(strings.ToLower(name), " ", "-")
		ctx, cancel := context.WithCancel(t.Context())
		err := blob.Receive(ctx, strict{folder}, key, strings.NewReader("x"), func(size int64) error {
			if size != 1 {
				t.Errorf("%s: %d bytes", name, size)
			}
			return tc.check
		}, func() error {
			cancel() // the client has gone
			return tc.use
		})
		cancel()
		want := tc.check
		if want == nil {
			want = tc.use
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		o, err := folder.Open(t.Context(), key)
		if err == nil {
			err = o.Close()
		}
		if tc.kept && err != nil || !tc.kept && !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: kept should be %v: %v", name, tc.kept, err)
		}
	}
	err = blob.Receive(t.Context(), full{folder}, "x", strings.NewReader("x"), nil, nil)
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter <= 0 {
		t.Errorf("full: %v", err)
	}
}
