package backup

import (
	"context"
	"errors"
	"time"

	"github.com/certvault/certvault/internal/db"
)

var errNothingToPrepare = errors.New("the database contains no vault; first restore it with the program that backed it up")

// Prepare does to a database that was restored by other means what Restore does to the database of a
// backup. Other means are, for example, point-in-time recovery, a snapshot, and a standby that lacked
// the last changes when it became the primary. copied is the time of the state of the database. Prepare
// can be repeated. The errors include ErrInUse and ErrDrill.
func Prepare(ctx context.Context, d *db.DB, copied, now time.Time) (*db.Restore, error) {
	empty, err := d.IsEmpty(ctx)
	if err != nil {
		return nil, err
	}
	if empty {
		return nil, errNothingToPrepare
	}
	if err := checkUnused(ctx, d); err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx); err != nil {
		return nil, err
	}
	last, err := d.LastRestore(ctx)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Drill {
		return nil, ErrDrill
	}
	r := db.Restore{CopiedAt: copied.UTC().Truncate(time.Microsecond), RestoredAt: now.UTC().Truncate(time.Microsecond)}
	return &r, prepare(ctx, d, r)
}
