package cert

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatchLeavesAProcessorFree checks that files of batches use only one of two processors, and that a
// canceled call of acquire uses none.
func TestBatchLeavesAProcessorFree(t *testing.T) {
	t.Parallel()
	p, ctx := newProcessors(2), t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	acquire := func(ctx context.Context, bulk bool, want error) (release func()) {
		t.Helper()
		release, err := p.acquire(ctx, bulk)
		if !errors.Is(err, want) {
			t.Fatalf("acquire(bulk %t) = %v, want %v", bulk, err, want)
		}
		return release
	}
	first := acquire(ctx, true, nil)
	acquire(ended, true, context.Canceled)
	single := acquire(ctx, false, nil)
	acquire(ended, false, context.Canceled)
	first()
	second := acquire(ctx, false, nil)
	acquire(ended, true, context.Canceled)
	second()
	single()
	acquire(ctx, true, nil)
	acquire(ctx, false, nil)
}

// TestPicturesWait checks that a picture waits while a file is being sealed, but not longer than patience.
func TestPicturesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessors(2)
		draw := func() time.Duration {
			t.Helper()
			began := time.Now()
			release, err := p.draw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release()
			return time.Since(began)
		}
		if waited := draw(); waited != 0 {
			t.Errorf("a picture waited %s while no file was being sealed, want 0s", waited)
		}
		release, err := p.seal(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, release)
		if waited := draw(); waited < time.Second || waited > time.Second+pause {
			t.Errorf("a picture waited %s, want until the file was sealed after 1s", waited)
		}
		if release, err = p.seal(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		defer release()
		if waited := draw(); waited != patience {
			t.Errorf("a picture waited %s, want %s", waited, patience)
		}
	})
}
