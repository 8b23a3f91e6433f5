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
	// SweepInterval is the interval of SweepJobs.
	SweepInterval = 30 * time.Second
	// requeueAfter is the minimum time since the last change of a certificate for the sweep to enqueue
	// it.
	requeueAfter = 30 * time.Second
	// sweepBatch bounds the rows of one transaction of a sweep.
	sweepBatch = 500
	// minSweepAge is the minimum age of a blob for the sweep to delete it. The row of a younger
	// blob may not be written yet.
	minSweepAge = 2 * time.Hour
)

// SweepJobs enqueues certificates in processing whose job is lost. A certificate of a batch waits
// for its turn again. SweepJobs then calls Feed.
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

// SweepBlobs deletes files that no record refers to and that are older than minSweepAge. Examples
// are uploads that stopped before the record was created, verified PDFs of failed attempts, and
// files whose retention has ended. The functions in others report whether another package refers to
// a file. SweepBlobs calls these functions first, because a file of another package may become a
// file of a certificate during the sweep. The reverse does not occur.
func (s *Service) SweepBlobs(ctx context.Context, others ...func(ctx context.Context, key string) (bool, error)) error {
	before := s.now().Add(-minSweepAge)
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
		s.log.InfoContext(ctx, "deleting a file without references", slog.String("key", i.Key), slog.Int64("size", i.Size))
		return s.blobs.Delete(ctx, i.Key)
	})
	if err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	return nil
}

// ArchiveKind is the suffix of the key of an archive of originals. No certificate refers to an
// archive, but the package that unpacks it does.
const ArchiveKind = "archive"

// refersTo reports whether a certificate refers to a blob. It also returns true for keys with an
// unknown suffix.
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
		return false, fmt.Errorf("finding the certificate of a file: %w", err)
	}
	return n > 0, nil
}
