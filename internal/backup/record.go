package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Record describes the last backups of an installation.
type Record struct {
	// Every is the interval of scheduled backups, or 0 if there are none.
	Every time.Duration
	// StartedAt is the start of the last scheduled backup, or the zero time. If no backup was ever
	// complete, it is the start of the first attempt since the last failure.
	StartedAt time.Time
	// FailedAt and Failure describe the failure of the last scheduled backup. Failure is empty if
	// that backup did not fail.
	FailedAt time.Time
	Failure  string
	// CompletedAt is the time at which the last complete backup began, scheduled or not, or the zero
	// time. The following fields describe this backup.
	CompletedAt time.Time
	Dir         string
	Files       int
	Bytes       int64
	// Missing is the number of files to which the database refers and which the store lacked.
	Missing int
}

// lateFactor is the number of intervals without a complete backup after which Problem reports that
// backups are late.
const lateFactor = 2

// Problem returns a text that describes what is wrong with the backups of an installation, or "". It
// does not report late backups if none are scheduled.
func (r *Record) Problem(now time.Time) string {
	switch {
	case r.Failure != "":
		return "the last scheduled backup failed: " + r.Failure
	case r.Every > 0 && r.CompletedAt.IsZero() && !r.StartedAt.IsZero() && now.Sub(r.StartedAt) > lateFactor*r.Every:
		return "no scheduled backup is complete; one began at " + r.StartedAt.Format(time.RFC3339)
	case r.Every > 0 && !r.CompletedAt.IsZero() && now.Sub(r.CompletedAt) > lateFactor*r.Every:
		return fmt.Sprintf("the last complete backup was started at %s, although one is made every %s; check whether a server with --backup is running",
			r.CompletedAt.Format(time.RFC3339), r.Every)
	case r.Missing > 0:
		return fmt.Sprintf("the file store lacked files to which the database refers (%d); certvault backup verify %q names them. "+
			"Restore them from an earlier backup: until then, no scheduled backup is removed", r.Missing, r.Dir)
	}
	return ""
}

// LastRecord returns the record of the last backups.
func LastRecord(ctx context.Context, q db.Queryer) (*Record, error) {
	var r Record
	var every, started, failed, completed int64
	err := q.QueryRowContext(ctx, `
		SELECT every_seconds, started_at, failed_at, failure, completed_at, dir, files, bytes, files_missing FROM backups WHERE id = 1`).
		Scan(&every, &started, &failed, &r.Failure, &completed, &r.Dir, &r.Files, &r.Bytes, &r.Missing)
	if err != nil {
		return nil, fmt.Errorf("reading the record of backups: %w", err)
	}
	r.Every = time.Duration(every) * time.Second
	for at, micros := range map[*time.Time]int64{&r.StartedAt: started, &r.FailedAt: failed, &r.CompletedAt: completed} {
		if micros != 0 {
			*at = db.Time(micros)
		}
	}
	return &r, nil
}

// RecordResult stores that a backup was made.
func RecordResult(ctx context.Context, d *db.DB, r *Result) error {
	err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE backups SET completed_at = $1, dir = $2, files = $3, bytes = $4, files_missing = $5 WHERE id = 1`,
			db.Micros(r.CreatedAt), r.Dir, r.Files, r.Bytes, r.Missing)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording the backup: %w", err)
	}
	return nil
}
