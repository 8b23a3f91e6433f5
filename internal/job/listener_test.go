package job

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

type noteArgs struct{}

func (noteArgs) Kind() string { return "note" }

// TestEnqueuingNotifiesAfterTheCommit checks that the queue of a job is notified once its
// transaction is committed, and not if the transaction is rolled back.
func TestEnqueuingNotifiesAfterTheCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := dbtest.Open(t, t.TempDir(), "")
	q, err := New(d, Config{NodeID: "node", MaxAttempts: 1, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	l := q.client.(sqliteClient).listener //nolint:forcetypeassert // the database is SQLite
	insert := func(result error) {
		t.Helper()
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			for range 2 {
				if _, err := q.InsertTx(ctx, tx, noteArgs{}, &river.InsertOpts{Queue: "seal"}); err != nil {
					return err
				}
			}
			if queue := l.take(); queue != "" {
				t.Errorf("queue %s was notified before the commit", queue)
			}
			return result
		}); !errors.Is(err, result) {
			t.Fatal(err)
		}
	}
	failed := errors.New("failed")
	insert(failed)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if n, err := l.WaitForNotification(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after a rollback, WaitForNotification = %+v, %v; want context.Canceled", n, err)
	}
	insert(nil)
	n, err := l.WaitForNotification(ctx)
	if err != nil || n.Topic != "river_insert" || n.Payload != `{"queue":"seal"}` {
		t.Errorf("after a commit, WaitForNotification = %+v, %v; want queue seal", n, err)
	}
	if queue := l.take(); queue != "" {
		t.Errorf("queue %s was notified twice for one transaction", queue)
	}
}
