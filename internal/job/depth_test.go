package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
)

func TestDepthsHaveTheAgeOfTheOldestJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		q := open(t, d, "depth", func(context.Context, string, int) error { return nil })
		old := insert(t, d, q, "old")
		insert(t, d, q, "new")
		past := `now() - interval '90 seconds'`
		if d.Dialect == db.SQLite {
			past = `datetime('now', 'subsec', '-90 seconds')`
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE river_job SET scheduled_at = `+past+` WHERE id = $1`, old); err != nil {
				return err
			}
			// Oldest does not include a job that is scheduled for later.
			_, err := q.InsertTx(ctx, tx, noteArgs{Text: "later"}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		list, err := job.Depths(ctx, d)
		if err != nil || len(list) != 1 {
			t.Fatalf("Depths = %+v, %v, want one queue", list, err)
		}
		if g := list[0]; g.Queue != river.QueueDefault || g.Waiting != 3 || g.Oldest < 89*time.Second || g.Oldest > 150*time.Second {
			t.Errorf("depth = %+v, want 3 waiting jobs and Oldest about 90 s", g)
		}
	})
}
