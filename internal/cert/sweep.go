package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

const (
	// SweepInterval is the interval of SweepJobs.
	SweepInterval = 30 * time.Second
	// requeueAfter is the minimum time after the last change of a certificate before SweepJobs
	// enqueues the certificate again.
	requeueAfter = 30 * time.Second
	// sweepBatch is the maximum number of rows that a sweep changes in one transaction.
	sweepBatch = 500
)

// SweepJobs enqueues certificates in processing whose job is lost, and then calls Feed. A certificate of
// a batch is not enqueued directly, but waits for its turn again.
func (s *Service) SweepJobs(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		uuids, err := db.Column[string](tx.QueryContext(ctx, `
			SELECT c.uuid FROM certificates c
			WHERE c.status = 'processing' AND c.updated_at < $1
			  AND (c.job_id IS NOT NULL OR c.batch_id IS NULL)
			  AND NOT `+job.Unfinished(`c.job_id`)+`
			ORDER BY c.updated_at LIMIT $2`, db.Micros(s.now().Add(-requeueAfter)), sweepBatch))
		if err != nil {
			return err
		}
		for _, uuid := range uuids {
			if err := s.requeueTx(ctx, tx, uuid); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "a certificate had no queue job and was requeued", slog.String("certificate", uuid))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping jobs: %w", err)
	}
	return s.Feed(ctx)
}

// requeueTx enqueues a certificate in processing. A certificate of a batch waits for its turn
// instead.
func (s *Service) requeueTx(ctx context.Context, tx *db.Tx, uuid string) error {
	var batch sql.NullString
	err := tx.QueryRowContext(ctx, `
		UPDATE certificates SET job_id = NULL, updated_at = $1 WHERE uuid = $2 AND status = 'processing' RETURNING batch_id`,
		db.Micros(s.now()), uuid).Scan(&batch)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the status changed in the meantime
	}
	if err != nil || batch.Valid {
		return err
	}
	_, err = s.enqueueTx(ctx, tx, uuid, SealQueue)
	return err
}
