package cert

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

const (
	// feedAhead is how many jobs of an institution's batches are under way for each
	// worker. What waits behind them has no job yet, so that of another
	// institution's batch the first certificate stands behind these few and not
	// behind all, and from then on in turn with them.
	feedAhead = 1
	// feedFew is how many certificates are so few that an institution with no more
	// has a double share: it is soon done, and who has many hardly feels it.
	feedFew = 50
)

// FeedTx gives certificates of an institution's batches their jobs, the oldest
// first, until as many are under way as may be. Each that is done makes room for
// the next, in the transaction in which it is done; so the queue, which is first
// in, first out, goes round the institutions.
func (s *Service) FeedTx(ctx context.Context, tx *db.Tx, institutionID int64) error {
	return s.feedTx(ctx, tx, institutionID, 0)
}

// feedTx is FeedTx, and takes the certificate besides for one that is not under
// way.
func (s *Service) feedTx(ctx context.Context, tx *db.Tx, institutionID, besides int64) error {
	// Jobs that wait for another try hold up nobody.
	var busy, left int
	if err := tx.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM certificates c
			WHERE c.institution_id = $1 AND c.status = 'processing' AND c.batch_id IS NOT NULL AND c.job_id IS NOT NULL AND c.id <> $2
			  AND `+job.Busy(`c.job_id`)+`),
			(SELECT count(*) FROM (SELECT 1 FROM certificates
				WHERE institution_id = $1 AND status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL LIMIT $3) AS few)`,
		institutionID, besides, feedFew+1).Scan(&busy, &left); err != nil {
		return fmt.Errorf("counting the jobs of batches: %w", err)
	}
	room := s.ahead * s.queue.Nodes()
	if left <= feedFew {
		room *= 2
	}
	if room -= busy; room <= 0 || left == 0 {
		return nil
	}
	waiting := `SELECT uuid FROM certificates
		WHERE institution_id = $1 AND status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL ORDER BY id LIMIT $2`
	if tx.Dialect() == db.PostgreSQL {
		// Two that end at the same time feed two different ones.
		waiting += ` FOR UPDATE SKIP LOCKED`
	}
	uuids, err := db.Column[string](tx.QueryContext(ctx, waiting, institutionID, room))
	if err != nil {
		return fmt.Errorf("looking for certificates of batches: %w", err)
	}
	for _, uuid := range uuids {
		if _, err := s.enqueueTx(ctx, tx, uuid, BulkQueue); err != nil {
			return err
		}
	}
	return nil
}

// enqueueTx gives a certificate its job.
func (s *Service) enqueueTx(ctx context.Context, tx *db.Tx, uuid, queue string) (jobID int64, err error) {
	if jobID, err = s.queue.InsertTx(ctx, tx, sealArgs{UUID: uuid}, s.sealOptions(queue)); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE certificates SET job_id = $1 WHERE uuid = $2`, jobID, uuid); err != nil {
		return 0, fmt.Errorf("noting a certificate's job: %w", err)
	}
	return jobID, nil
}

// feedBehind gives away the place of a certificate of a batch that waits for
// another try.
func (s *Service) feedBehind(ctx context.Context, c *Certificate) error {
	if c.BatchID == "" {
		return nil
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error { return s.feedTx(ctx, tx, c.InstitutionID, c.ID) })
}

// Feed feeds every institution: what keeps the queue fed is each certificate
// that is done, and this mends it where one was lost.
func (s *Service) Feed(ctx context.Context) error {
	institutions, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT DISTINCT institution_id FROM certificates WHERE status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL`))
	if err != nil {
		return fmt.Errorf("looking for certificates of batches: %w", err)
	}
	for _, id := range institutions {
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.FeedTx(ctx, tx, id) }); err != nil {
			return err
		}
	}
	return nil
}
