package cert

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

// A crash of the process counts for every certificate that was being sealed, although only one of
// them is the cause. Therefore a certificate with two crashes is sealed alone in the next attempt,
// which is called a trial. The certificate fails only if the process crashes again during a trial.
const (
	// trialCrashes is the number of crashes after which a certificate is sealed alone.
	trialCrashes = 2
	// crashesInTrial is the number of crashes that is stored for a certificate during a trial. It
	// already includes a crash during the trial.
	crashesInTrial = trialCrashes + 1
	// wholeProcess is the size of the semaphore Service.sealing. A trial acquires all of it, and any
	// other sealing acquires 1. It is larger than any number of workers.
	wholeProcess = 1 << 20
	// trialPause is the time after which a job that could not run because of a trial runs again. A
	// trial usually takes less than a second.
	trialPause = time.Second
)

// errTrial is the error of enter if a certificate cannot be sealed now because of a trial.
var errTrial = errors.New("another certificate is sealed alone")

// enter begins the sealing of a certificate in this process. The caller must call leave after the
// sealing. For a certificate with fewer than two crashes, enter returns errTrial if another certificate
// is in a trial or waits for a trial. For a certificate with two crashes, enter waits until no other
// certificate is being sealed, and records the trial in the row. If ctx ends during the wait, the error
// wraps errTrial. A crash during the wait does not count for the waiting certificate.
func (s *Service) enter(ctx context.Context, c *Certificate) (leave func() error, err error) {
	if c.crashes < trialCrashes {
		if !s.sealing.TryAcquire(1) {
			return nil, errTrial
		}
		return func() error { s.sealing.Release(1); return nil }, nil
	}
	if err := s.sealing.Acquire(ctx, wholeProcess); err != nil {
		return nil, fmt.Errorf("%w: %w", errTrial, err)
	}
	if err := s.setCrashes(ctx, c, crashesInTrial); err != nil {
		s.sealing.Release(wholeProcess)
		return nil, err
	}
	s.log.InfoContext(ctx, "a certificate is sealed alone, because the process crashed twice while sealing it", slog.String("certificate", c.UUID))
	return func() error {
		defer s.sealing.Release(wholeProcess)
		return s.setCrashes(context.WithoutCancel(ctx), c, trialCrashes)
	}, nil
}

func (s *Service) setCrashes(ctx context.Context, c *Certificate, n int) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE certificates SET crashes = $1 WHERE uuid = $2 AND status = 'processing'`, n, c.UUID)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording a trial: %w", err)
	}
	return nil
}

// survived subtracts the crash that another node counted for an attempt of this process although the
// process did not crash, for example because the machine was suspended. c is the record before the
// attempt, which began at begin. survived does not change a failed certificate.
func (s *Service) survived(ctx context.Context, c *Certificate, begin time.Time) error {
	if !s.queue.Interrupted(begin) {
		return nil
	}
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE certificates SET crashes = crashes - 1 WHERE uuid = $1 AND crashes > $2 AND status IN ('processing', 'approved')`, c.UUID, c.crashes)
		return err
	})
	if err != nil {
		return fmt.Errorf("taking back a crash: %w", err)
	}
	return nil
}

// Rescued is called for each job whose process crashed. If the job seals a certificate, Rescued counts
// the crash for this certificate. If the crash was during a trial of the certificate, the certificate
// is the cause, and Rescued changes its status to failed.
func (s *Service) Rescued(ctx context.Context, tx *db.Tx, r job.Rescued) error {
	if r.Kind != (sealArgs{}).Kind() {
		return nil
	}
	var args sealArgs
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return fmt.Errorf("reading job %d: %w", r.ID, err)
	}
	var crashes int
	err := tx.QueryRowContext(ctx, `
		UPDATE certificates SET crashes = CASE WHEN crashes < $1 THEN crashes + 1 ELSE crashes END
		WHERE uuid = $2 AND status = 'processing' RETURNING crashes`, trialCrashes, args.UUID).Scan(&crashes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("counting a crash: %w", err)
	}
	if crashes < crashesInTrial {
		return nil
	}
	s.log.ErrorContext(ctx, "a certificate failed because the process crashed too often while sealing it", slog.String("certificate", args.UUID), slog.Int("crashes", crashes))
	return s.failTx(ctx, tx, args.UUID, Failure{
		Code:    "crashed",
		Message: fmt.Sprintf("Processing was interrupted %d times by a crash of the vault. Inform the operator of this vault, then retry.", crashes),
	})
}
