package application

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// SweepInterval is the interval of Sweep.
	SweepInterval = time.Hour
	// draftDays is the number of days from the last change of a draft to its deletion.
	draftDays = 30
	// sweepBatch is the maximum number of rows that each part of a sweep changes.
	sweepBatch = 500
)

// Sweep ends applications whose hold was not answered in time, deletes attachments and applications whose
// retention has ended, and deletes old drafts.
func (s *Service) Sweep(ctx context.Context) error {
	ctx = audit.WithActor(ctx, audit.Certvault)
	if err := errors.Join(s.expire(ctx), s.purge(ctx), s.deleteDrafts(ctx)); err != nil {
		return fmt.Errorf("sweeping applications: %w", err)
	}
	return nil
}

// forEach calls f for each item until ctx ends. An item that always fails does not stop the others.
func forEach[T any](ctx context.Context, list []T, f func(item T) error) error {
	var failed error
	for _, item := range list {
		if err := ctx.Err(); err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, f(item))
	}
	return failed
}

// expire ends open applications whose hold was not answered in time.
func (s *Service) expire(ctx context.Context) error {
	list, err := s.all(ctx, `WHERE a.hold_until < $1 AND a.status IN ('pending', 'in_review') AND a.answered_at IS NULL ORDER BY a.hold_until LIMIT $2`,
		db.Micros(s.now()), sweepBatch)
	if err != nil {
		return err
	}
	return forEach(ctx, list, func(a *Application) error {
		_, err := s.apply(ctx, a, change{
			step: stepOf(triggerExpire), role: system, record: s.closeRecord(ctx, a.UUID, cert.Lapsed, ""),
		})
		if fault.Is(err, fault.Conflict) {
			return nil
		}
		return err
	})
}

// purge deletes the attachments of applications whose retention has ended. An application that ended
// without a certificate is deleted too.
func (s *Service) purge(ctx context.Context) error {
	list, err := s.all(ctx, `WHERE a.delete_at < $1 ORDER BY a.delete_at LIMIT $2`, db.Micros(s.now()), sweepBatch)
	if err != nil {
		return err
	}
	return forEach(ctx, list, func(a *Application) error {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			if err := recordTx(ctx, tx, audit.ApplicationPurged, a, s.moment(), audit.Detail{"files": len(a.Files)}); err != nil {
				return err
			}
			return s.purgeTx(ctx, tx, a)
		})
	})
}

// purgeTx deletes the attachments of a decided application, and the application if it has no certificate.
func (s *Service) purgeTx(ctx context.Context, tx *db.Tx, a *Application) error {
	if remains, err := s.removeTx(ctx, tx, a); err != nil || !remains {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE applications SET files_deleted = $1, delete_at = NULL, revision = revision + 1 WHERE id = $2`, true, a.id); err != nil {
		return fmt.Errorf("recording the deletion of attachments: %w", err)
	}
	return nil
}

// deleteDrafts deletes the drafts that were not changed for draftDays.
func (s *Service) deleteDrafts(ctx context.Context) error {
	before := db.Micros(s.now().AddDate(0, 0, -draftDays))
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id FROM application_drafts WHERE updated_at < $1 ORDER BY updated_at LIMIT $2`, before, sweepBatch))
	if err != nil {
		return fmt.Errorf("reading old drafts: %w", err)
	}
	return forEach(ctx, ids, func(id int64) error {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			old, err := db.Column[int64](tx.QueryContext(ctx, `UPDATE application_drafts SET updated_at = updated_at WHERE id = $1 AND updated_at < $2 RETURNING id`, id, before))
			if err != nil || len(old) == 0 {
				return err
			}
			return s.deleteDraftTx(ctx, tx, id)
		})
	})
}
