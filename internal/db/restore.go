package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Restore describes how a database was restored from a backup.
type Restore struct {
	// CopiedAt is the time of the backup. The changes between CopiedAt and RestoredAt are lost.
	CopiedAt time.Time
	// RestoredAt is the time of the restore.
	RestoredAt time.Time
	// AcceptedAt is the time at which an operator accepted the restore, or zero.
	AcceptedAt time.Time
	// Drill means that the vault is only a trial of the restore. It sends no mail and no webhooks.
	Drill bool
}

// Pending reports whether the restore is not accepted yet. While a restore is pending, files may only be
// deleted on request. If r is nil, because the database was never restored, Pending returns false.
func (r *Restore) Pending() bool { return r != nil && r.AcceptedAt.IsZero() }

// LastRestore returns the last restore of the database, or nil if there was none.
func (d *DB) LastRestore(ctx context.Context) (*Restore, error) {
	var copied, restored int64
	var accepted sql.NullInt64
	var drill int
	err := d.QueryRowContext(ctx, `SELECT copied_at, restored_at, accepted_at, drill FROM restores WHERE id = 1`).
		Scan(&copied, &restored, &accepted, &drill)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most databases were never restored
	}
	if err != nil {
		return nil, fmt.Errorf("reading the last restore: %w", err)
	}
	r := &Restore{CopiedAt: Time(copied), RestoredAt: Time(restored), Drill: drill != 0}
	if accepted.Valid {
		r.AcceptedAt = Time(accepted.Int64)
	}
	return r, nil
}

// RecordRestoreTx replaces the record of the last restore. The new restore is not accepted yet.
func RecordRestoreTx(ctx context.Context, tx *Tx, r Restore) error {
	drill := 0
	if r.Drill {
		drill = 1
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO restores (id, copied_at, restored_at, drill) VALUES (1, $1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET copied_at = excluded.copied_at, restored_at = excluded.restored_at, accepted_at = NULL, drill = excluded.drill`,
		Micros(r.CopiedAt), Micros(r.RestoredAt), drill)
	if err != nil {
		return fmt.Errorf("recording the restore: %w", err)
	}
	return nil
}

// AcceptRestoreTx records that the last restore was accepted. It changes nothing if there was no
// restore or if the restore is already accepted.
func AcceptRestoreTx(ctx context.Context, tx *Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE restores SET accepted_at = $1 WHERE id = 1 AND accepted_at IS NULL`, Micros(now))
	if err != nil {
		return fmt.Errorf("accepting the restore: %w", err)
	}
	return nil
}
