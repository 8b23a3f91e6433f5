package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

var (
	// ErrNotRestored means that the vault was never restored from a backup.
	ErrNotRestored = errors.New("this vault was not restored from a backup")
	// ErrDrill means that an operation is not possible because the vault is a drill.
	ErrDrill = errors.New("this vault is a drill, which is never accepted; to use the backup, run certvault restore without --drill")
)

// Accept ends the time in which a restored vault deletes files only on request. It returns the restore.
// A second call changes nothing. The errors include ErrNotRestored and ErrDrill.
func Accept(ctx context.Context, d *db.DB, now time.Time) (*db.Restore, error) {
	r, err := d.LastRestore(ctx)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, ErrNotRestored
	case r.Drill:
		return nil, ErrDrill
	case !r.Pending():
		return r, nil
	}
	r.AcceptedAt = now.UTC().Truncate(time.Microsecond)
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		if err := db.AcceptRestoreTx(ctx, tx, r.AcceptedAt); err != nil {
			return err
		}
		return recordTx(ctx, tx, audit.RestoreAccepted, r.AcceptedAt, r)
	}); err != nil {
		return nil, fmt.Errorf("accepting the restore: %w", err)
	}
	return r, nil
}
