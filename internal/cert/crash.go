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
// which is a trial. The certificate fails only if the process crashes again in the trial.
const (
	// trialCrashes is the number of crashes after which a certificate is sealed alone.
	trialCrashes = 2
	// crashesInTrial is the number of crashes in the row of a certificate while the certificate is
	// sealed alone. It counts a crash during the trial in advance, because the certificate fails
	// after that crash.
	crashesInTrial = trialCrashes + 1
	// wholeProcess is the number of certificates that this process may seal at a time. It is larger
	// than any number of workers.
	wholeProcess = 1 << 20
	// trialPause is the pause of a job that cannot run because of a trial. A trial usually takes
	// less than a second.
	trialPause = time.Second
)

// errTrial is the error of enter if the certificate cannot be sealed now, because a certificate
// is sealed alone or is about to be.
var errTrial = errors.New("another certificate is sealed alone")

// enter begins the sealing of a certificate in this process. The caller must call leave after the
// sealing. For a certificate with fewer than two crashes, enter returns errTrial if another
// certificate is sealed alone or waits to be sealed alone. For a certificate with two crashes,
// enter waits until no other certificate is being sealed, and records the trial in the row. It
// returns errTrial if ctx ends during the wait. A crash during the wait does not count.
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

// survived takes back the crash that another node counted for an attempt of this process, if that node
// considered this process dead, for example because the machine was suspended. c is the record from
// before the attempt, which began at begin. A certificate that failed in a trial stays failed.
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

// Rescued is called for each job whose process crashed. If the job is a seal job, Rescued counts
// the crash for the certificate of the job. If the certificate was sealed alone, the certificate is
// the cause, and Rescued changes its status to failed.
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
		Message: fmt.Sprintf("Processing was interrupted %d times by a crash of the vault. Tell the operator of this vault, then retry.", crashes),
	})
}
