package job

import (
	"context"
	"database/sql"
	"testing"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// fetches is an executor that counts its fetches.
type fetches struct {
	riverdriver.ExecutorTx

	n int
}

func (f *fetches) JobGetAvailable(context.Context, *riverdriver.JobGetAvailableParams) ([]*rivertype.JobRow, error) {
	f.n++
	return nil, nil
}

// TestEmptyQueueIsNotFetched checks that jobs are fetched only from a queue that has available jobs.
// Another connection, such as that of a command, inserts the jobs.
func TestEmptyQueueIsNotFetched(t *testing.T) {
	t.Parallel()
	ctx, folder := t.Context(), t.TempDir()
	d, other := dbtest.Open(t, folder, ""), dbtest.Open(t, folder, "")
	counted := &fetches{}
	e := quietExecutor{nil, d, func(*sql.Tx) riverdriver.ExecutorTx { return counted }}
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
		t.Errorf("%d fetches from an empty queue, want 0", n)
	}
	insert("seal", "available")
	insert("mail", "scheduled")
	if n := fetch("mail"); n != 0 {
		t.Errorf("%d fetches from a queue with only a scheduled job, want 0", n)
	}
	insert("mail", "available")
	if n := fetch("mail"); n != 1 {
		t.Errorf("%d fetches from a queue with an available job, want 1", n)
	}
}
