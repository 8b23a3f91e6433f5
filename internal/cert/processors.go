package cert

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// processors limits the files that the Sealer handles at a time, because each file needs a
// processor and much memory. If there is more than one place, files of batches never use all
// places, so that a single upload does not wait for them.
type processors struct{ all, bulk *semaphore.Weighted }

// newProcessors returns processors for n files at a time, or without a limit if n is 0.
func newProcessors(n int) processors {
	if n == 0 {
		n = wholeProcess
	}
	return processors{all: semaphore.NewWeighted(int64(n)), bulk: semaphore.NewWeighted(int64(max(1, n-1)))}
}

// acquire waits for a place and returns the function that frees it.
func (p processors) acquire(ctx context.Context, bulk bool) (release func(), err error) {
	if bulk {
		if err := p.bulk.Acquire(ctx, 1); err != nil {
			return nil, err
		}
	}
	if err := p.all.Acquire(ctx, 1); err != nil {
		if bulk {
			p.bulk.Release(1)
		}
		return nil, err
	}
	return func() {
		p.all.Release(1)
		if bulk {
			p.bulk.Release(1)
		}
	}, nil
}
