package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

const (
	// SweepEvery is how often certificates that lost their job are looked for.
	SweepEvery = 30 * time.Second
	// lostAfter is for how long a certificate is left alone after its last
	// change.
	lostAfter = 30 * time.Second
	// sweepBatch bounds the work of one sweep's transaction.
	sweepBatch = 500
	// spareYounger keeps the sweep off blobs whose row may still come.
	spareYounger = 2 * time.Hour
)

// SweepJobs enqueues certificates in processing whose job is gone. The row is
// the truth: whatever the queue lost comes back by this.
func (s *Service) SweepJobs(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		rows, err := tx.QueryContext(ctx, `
			SELECT c.uuid FROM certificates c LEFT JOIN river_job j ON j.id = c.job_id
			WHERE c.status = 'processing' AND c.updated_at < $1
			  AND (j.id IS NULL OR j.state NOT IN `+job.Alive+`)
			ORDER BY c.updated_at LIMIT $2`, db.Micros(s.now().Add(-lostAfter)), sweepBatch)
		if err != nil {
			return err
		}
		uuids, err := scanTexts(rows)
		if err != nil {
			return err
		}
		for _, uuid := range uuids {
			id, err := s.queue.InsertTx(ctx, tx, sealArgs{UUID: uuid}, s.sealOptions())
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE certificates SET job_id = $1, updated_at = $2 WHERE uuid = $3 AND status = 'processing'`,
				id, db.Micros(s.now()), uuid); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "a certificate had lost its job and got a new one", slog.String("certificate", uuid))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping jobs: %w", err)
	}
	return nil
}

func scanTexts(rows *sql.Rows) (list []string, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// SweepBlobs removes files that no certificate refers to: uploads that broke
// off between file and record, and verified PDFs whose worker lost the race.
func (s *Service) SweepBlobs(ctx context.Context) error {
	before := s.now().Add(-spareYounger)
	if err := s.blobs.Clean(ctx, before); err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	err := s.blobs.Walk(ctx, func(i blob.Info) error {
		if !i.Modified.Before(before) {
			return nil
		}
		referred, err := s.refersTo(ctx, i.Key)
		if err != nil || referred {
			return err
		}
		s.log.InfoContext(ctx, "removing a file that nothing refers to", slog.String("key", i.Key), slog.Int64("size", i.Size))
		return s.blobs.Delete(ctx, i.Key)
	})
	if err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	return nil
}

// refersTo tells whether a certificate refers to a blob; what is not ours by
// its name is left alone.
func (s *Service) refersTo(ctx context.Context, key string) (bool, error) {
	_, kind, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], ".")
	column, ok := map[string]string{"original": "original_key", "verified": "tail_key", "image": "image_key"}[kind]
	if !ok {
		return true, nil
	}
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE `+column+` = $1`, key).Scan(&n); err != nil {
		return false, fmt.Errorf("looking for the owner of a file: %w", err)
	}
	return n > 0, nil
}
