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
// the truth: whatever the queue lost comes back by this. Those of batches wait
// for their turn again, and turns that nobody gave are given.
func (s *Service) SweepJobs(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		uuids, err := db.Column[string](tx.QueryContext(ctx, `
			SELECT c.uuid FROM certificates c
			WHERE c.status = 'processing' AND c.updated_at < $1
			  AND (c.job_id IS NOT NULL OR c.batch_id IS NULL)
			  AND NOT `+job.Alive(`c.job_id`)+`
			ORDER BY c.updated_at LIMIT $2`, db.Micros(s.now().Add(-lostAfter)), sweepBatch))
		if err != nil {
			return err
		}
		for _, uuid := range uuids {
			if err := s.revive(ctx, tx, uuid); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "a certificate had lost its job and gets a new one", slog.String("certificate", uuid))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping jobs: %w", err)
	}
	return s.Feed(ctx)
}

// revive gives a certificate in processing another job, or its turn again.
func (s *Service) revive(ctx context.Context, tx *db.Tx, uuid string) error {
	var batch sql.NullString
	err := tx.QueryRowContext(ctx, `
		UPDATE certificates SET job_id = NULL, updated_at = $1 WHERE uuid = $2 AND status = 'processing' RETURNING batch_id`,
		db.Micros(s.now()), uuid).Scan(&batch)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it was moved in between
	}
	if err != nil || batch.Valid {
		return err
	}
	_, err = s.enqueueTx(ctx, tx, uuid, SealQueue)
	return err
}

// SweepBlobs removes files that no certificate refers to: uploads that broke
// off between file and record, and verified PDFs whose worker lost the race.
// It spares what others refer to; they are asked first, since what is theirs may
// become a certificate's, and never the other way.
func (s *Service) SweepBlobs(ctx context.Context, others ...func(ctx context.Context, key string) (bool, error)) error {
	before := s.now().Add(-spareYounger)
	if err := s.blobs.Clean(ctx, before); err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	err := s.blobs.Walk(ctx, func(i blob.Info) error {
		if !i.Modified.Before(before) {
			return nil
		}
		for _, refersTo := range append(others, s.refersTo) {
			if referred, err := refersTo(ctx, i.Key); err != nil || referred {
				return err
			}
		}
		s.log.InfoContext(ctx, "removing a file that nothing refers to", slog.String("key", i.Key), slog.Int64("size", i.Size))
		return s.blobs.Delete(ctx, i.Key)
	})
	if err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	return nil
}

// ArchiveKind ends the key of an archive that holds originals. No certificate
// refers to one: who unpacks it is asked before.
const ArchiveKind = "archive"

// refersTo tells whether a certificate refers to a blob; what is not ours by
// its name is left alone.
func (s *Service) refersTo(ctx context.Context, key string) (bool, error) {
	_, kind, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], ".")
	if kind == ArchiveKind {
		return false, nil
	}
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
