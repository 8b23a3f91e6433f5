package cert

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// draw waits while files are being sealed, but not longer than patience. It checks again after each pause.
const (
	pause    = 100 * time.Millisecond
	patience = 5 * time.Second
)

// processors limits the number of files that the Sealer handles at a time, because each file needs a
// processor and much memory. If the limit is more than one, the files of batches and the pictures
// together stay below it, so that a single upload does not wait for them.
type processors struct {
	all, bulk *semaphore.Weighted
	// sealing is the number of files that are being sealed or wait for a processor.
	sealing *atomic.Int64
}

// newProcessors returns processors for n files at a time, or without a limit if n is 0.
func newProcessors(n int) processors {
	if n == 0 {
		n = wholeProcess
	}
	return processors{all: semaphore.NewWeighted(int64(n)), bulk: semaphore.NewWeighted(int64(max(1, n-1))), sealing: &atomic.Int64{}}
}

// seal waits for a processor to seal a file, and returns a function that releases the processor.
func (p processors) seal(ctx context.Context, bulk bool) (release func(), err error) {
	p.sealing.Add(1)
	free, err := p.acquire(ctx, bulk)
	if err != nil {
		p.sealing.Add(-1)
		return nil, err
	}
	return func() {
		p.sealing.Add(-1)
		free()
	}, nil
}

// draw waits for a processor to draw a picture for mail, and returns a function that releases the processor.
// Pictures have a lower priority than sealing, because drawing takes about ten times as long as sealing a
// certificate from a template. Otherwise a batch would wait for the pictures of its own mail.
func (p processors) draw(ctx context.Context) (release func(), err error) {
	for waited := time.Duration(0); waited < patience && p.sealing.Load() > 0; waited += pause {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	return p.acquire(ctx, true)
}

// acquire waits for a processor and returns a function that releases it.
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
