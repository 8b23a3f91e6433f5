package cert

import (
	"context"
	"errors"
	"testing"
)

// TestBatchLeavesAProcessorFree checks that a single upload never waits for the files of batches,
// and that a file that waits in vain keeps no place.
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
