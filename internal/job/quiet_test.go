package job

import (
	"context"
	"testing"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// fetches counts how often jobs are fetched.
type fetches struct {
	riverdriver.Executor

	n int
}

func (f *fetches) JobGetAvailable(context.Context, *riverdriver.JobGetAvailableParams) ([]*rivertype.JobRow, error) {
	f.n++
	return nil, nil
}

// A queue without jobs is not fetched from. One with jobs is, even if another connection inserted
// them, such as that of the command line.
func TestIdleQueueIsOnlyLookedAt(t *testing.T) {
	t.Parallel()
	ctx, folder := t.Context(), t.TempDir()
	d, other := dbtest.Open(t, folder, ""), dbtest.Open(t, folder, "")
	counted := &fetches{}
	e := quietExecutor{counted, newQuietSQLite(d.Writer()).waiting}
	fetch := func(queue string) int {
		t.Helper()
		counted.n = 0
		if _, err := e.JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{Queue: queue}); err != nil {
			t.Fatal(err)
		}
		return counted.n
	}
	insert := func(queue, state string) {
		t.Helper()
		if err := other.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO river_job (args, kind, max_attempts, queue, state) VALUES ('{}', 'note', 1, $1, $2)`, queue, state)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := fetch("mail"); n != 0 {
		t.Errorf("%d fetches from an empty queue", n)
	}
	insert("seal", "available")
	insert("mail", "scheduled")
	if n := fetch("mail"); n != 0 {
		t.Errorf("%d fetches where all jobs are another queue's or scheduled for later", n)
	}
	insert("mail", "available")
	if n := fetch("mail"); n != 1 {
		t.Errorf("%d fetches where a job waits, want 1", n)
	}
}
