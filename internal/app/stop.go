package app

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errStopLate = errors.New("some work did not end in time")

// stop calls close, and returns errStopLate if close does not return within exitTime, for example because
// the database does not respond.
func (a *App) stop(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- a.close(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(a.exitTime):
		return errStopLate
	}
}

// close stops and closes all parts.
func (a *App) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(a.stopServing(ctx))
	if a.stopTasks != nil {
		a.stopTasks()
		a.tasks.Wait()
	}
	// Deliveries and jobs are stopped concurrently, so that a slow receiver of deliveries does not use
	// up the time for jobs.
	var sending sync.WaitGroup
	if a.Services != nil {
		sending.Go(func() { a.Deliverer.Stop(ctx) })
		add(a.Queue.Stop(ctx))
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		// All requests have ended, so this call stores the last counts.
		add(a.Verifications.Fold(leave))
		add(a.Queue.Leave(leave))
		cancel()
		add(a.store.removeMarks(time.Now()))
	}
	sending.Wait()
	if a.renderer != nil {
		add(a.renderer.Close(context.WithoutCancel(ctx)))
	}
	if a.Services != nil {
		a.People.Wait()
	}
	add(a.tracer.Stop(ctx))
	add(a.replica.Close())
	if a.Storage != nil {
		add(a.DB.Close())
	}
	if a.lock != nil {
		if a.Services != nil && len(errs) == 0 {
			add(clearLock(a.locked, a.lock.Path()))
		}
		add(a.lock.Unlock())
	}
	return errors.Join(errs...)
}
