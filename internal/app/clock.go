package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// maxClockError is the maximum difference between the clocks of this host and of the database
	// server. If the difference is larger, the vault does not start.
	maxClockError = 2 * time.Second
	// pullBackInterval is the interval at which a periodic task calls pullBack.
	pullBackInterval = time.Hour
)

var errClock = errors.New("the clocks of this host and of the database server differ")

// checkClock returns an error if the clocks of this host and of the database server differ by more
// than maxClockError.
func checkClock(ctx context.Context, d *db.DB) error {
	ahead, err := d.SyncClock(ctx)
	if err != nil {
		return err
	}
	if ahead.Abs() <= maxClockError {
		return nil
	}
	side := "ahead"
	if ahead < 0 {
		side = "behind"
	}
	return fmt.Errorf("%w: this host is %s %s; synchronize both clocks, for example with chrony", errClock, ahead.Abs().Round(time.Second/10), side)
}

// pullBack corrects times in the database that are later than the longest schedule allows, because a
// clock was ahead when they were set. If the clocks of this host and of the database server differ,
// pullBack logs a warning.
func (a *App) pullBack(ctx context.Context) error {
	if err := checkClock(ctx, a.DB); errors.Is(err, errClock) {
		a.log.WarnContext(ctx, "signatures and certificates may have a wrong time", slog.Any("error", err))
	} else if err != nil {
		return err
	}
	var errs []error
	for _, s := range []struct {
		rows     string
		pullBack func(context.Context) (int64, error)
	}{
		{"jobs and nodes", a.Queue.PullBack}, {"deliveries and endpoints", a.Deliverer.PullBack},
		{"waits before a sign-in", a.People.PullBack}, {"idempotency keys", a.IdempotencyKeys.PullBack},
	} {
		n, err := s.pullBack(ctx)
		errs = append(errs, err)
		if n > 0 {
			a.log.WarnContext(ctx, "a clock was ahead: rows with a time later than the longest schedule allows were corrected",
				slog.String("of", s.rows), slog.Int64("rows", n))
		}
	}
	return errors.Join(errs...)
}
