package cert

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

const (
	// jobsPerWorker is the number of jobs per worker that the batches of an institution have at a
	// time. The other certificates of the batches have no job yet, so the batches of another
	// institution wait only for these jobs.
	jobsPerWorker = 1
	// doubleShareLimit is the number of waiting certificates up to which the limit of jobs of an
	// institution is doubled. A small number of certificates is finished soon, and hardly delays other
	// institutions.
	doubleShareLimit = 50
)

// FeedTx enqueues jobs for certificates of an institution's batches, oldest first, up to the limit of
// jobs of the institution. It is called in the transaction that creates the certificates, and in each
// transaction that finishes one. The queue is first in, first out, so the institutions take turns.
func (s *Service) FeedTx(ctx context.Context, tx *db.Tx, institutionID int64) error {
	return s.feedTx(ctx, tx, institutionID, 0)
}

// feedTx implements FeedTx. It does not count the job of the certificate exceptID, or counts all jobs
// if exceptID is 0.
func (s *Service) feedTx(ctx context.Context, tx *db.Tx, institutionID, exceptID int64) error {
	// busy does not count jobs that wait for another attempt. The limits are expressions such as $3 + 0,
	// because SQLite plans a statement again for each execution if its limit is a parameter.
	var busy, left int
	if err := tx.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM certificates c
			WHERE c.institution_id = $1 AND c.status = 'processing' AND c.batch_id IS NOT NULL AND c.job_id IS NOT NULL AND c.id <> $2
			  AND `+job.Busy(`c.job_id`)+`),
			(SELECT count(*) FROM (SELECT 1 FROM certificates
				WHERE institution_id = $1 AND status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL LIMIT $3 + 0) AS waiting)`,
		institutionID, exceptID, doubleShareLimit+1).Scan(&busy, &left); err != nil {
		return fmt.Errorf("counting the jobs of batches: %w", err)
	}
	room := s.jobsPerNode * s.queue.Nodes()
	if left <= doubleShareLimit {
		room *= 2
	}
	if room -= busy; room <= 0 || left == 0 {
		return nil
	}
	waiting := `SELECT uuid FROM certificates
		WHERE institution_id = $1 AND status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL ORDER BY id LIMIT $2 + 0`
	if tx.Dialect() == db.PostgreSQL {
		// Concurrent transactions select different certificates.
		waiting += ` FOR UPDATE SKIP LOCKED`
	}
	uuids, err := db.Column[string](tx.QueryContext(ctx, waiting, institutionID, room))
	if err != nil {
		return fmt.Errorf("listing waiting certificates: %w", err)
	}
	for _, uuid := range uuids {
		if _, err := s.enqueueTx(ctx, tx, uuid, BulkQueue); err != nil {
			return err
		}
	}
	return nil
}

// enqueueTx enqueues the job of a certificate and stores the id of the job in the row of the
// certificate.
func (s *Service) enqueueTx(ctx context.Context, tx *db.Tx, uuid, queue string) (jobID int64, err error) {
	if jobID, err = s.queue.InsertTx(ctx, tx, sealArgs{UUID: uuid}, s.sealOptions(queue)); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE certificates SET job_id = $1 WHERE uuid = $2`, jobID, uuid); err != nil {
		return 0, fmt.Errorf("storing the job of a certificate: %w", err)
	}
	return jobID, nil
}

// feedNext enqueues another certificate in place of c, which waits for another attempt. It does
// nothing if c belongs to no batch.
func (s *Service) feedNext(ctx context.Context, c *Certificate) error {
	if c.BatchID == "" {
		return nil
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error { return s.feedTx(ctx, tx, c.InstitutionID, c.ID) })
}

// Waiting returns the number of certificates of batches that have no job yet, or limit if there are
// more.
func (s *Service) Waiting(ctx context.Context, limit int) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM certificates
		WHERE status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL LIMIT $1 + 0) AS waiting`, limit).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting waiting certificates: %w", err)
	}
	return n, nil
}

// Feed calls FeedTx for each institution with certificates that belong to a batch and have no job. It
// is needed only after a failure, because FeedTx is also called for each finished certificate. Feed
// does nothing if the store is full, because the new jobs would only wait.
func (s *Service) Feed(ctx context.Context) error {
	if err := s.blobs.CheckReserve(ctx); errors.Is(err, blob.ErrFull) {
		return nil
	} else if err != nil {
		return err
	}
	institutions, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT DISTINCT institution_id FROM certificates WHERE status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL`))
	if err != nil {
		return fmt.Errorf("listing waiting certificates: %w", err)
	}
	for _, id := range institutions {
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.FeedTx(ctx, tx, id) }); err != nil {
			return err
		}
	}
	return nil
}
