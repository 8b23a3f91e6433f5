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

// TestJobOfAClockThatWasAheadIsPulledBack checks that PullBack corrects times that are a year ahead:
// those of two jobs, and the last heartbeat of a dead node.
func TestJobOfAClockThatWasAheadIsPulledBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		done := make(chan string, 10)
		q := open(t, d, "now", func(_ context.Context, text string, _ int) error { done <- text; return nil })
		next := time.Now().AddDate(1, 0, 0)
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			for text, at := range map[string]time.Time{"late": next, "soon": time.Now().Add(30 * time.Minute)} {
				if _, err := q.InsertTx(ctx, tx, noteArgs{Text: text}, &river.InsertOpts{ScheduledAt: at}); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('dead', $1, $1)`, db.Micros(next))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		available := insert(t, d, q, "available")
		ahead := `now() + interval '1 year'`
		if d.Dialect == db.SQLite {
			ahead = `datetime('now', 'subsec', '+1 year')`
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE river_job SET scheduled_at = `+ahead+` WHERE id = $1`, available)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int64{3, 0} {
			if n, err := q.PullBack(ctx); err != nil || n != want {
				t.Fatalf("PullBack = %d, error %v, want %d", n, err, want)
			}
		}
		if err := q.Start(ctx); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{<-done: true, <-done: true}
		if !got["late"] || !got["available"] {
			t.Errorf("the jobs %v were run, want late and available", got)
		}
		if err := q.Stop(ctx); err != nil {
			t.Error(err)
		}
		var alive bool
		if err := d.QueryRowContext(ctx, `SELECT `+job.NodeAlive(`'dead'`, `$1`), db.Micros(time.Now().Add(2*job.DeadAfter))).Scan(&alive); err != nil || alive {
			t.Errorf("NodeAlive of the dead node = %v, error %v, want false", alive, err)
		}
	})
}
