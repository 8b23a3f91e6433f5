package job_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
)

// notices counts the notifications about new jobs that a database sends.
type notices struct {
	t    *testing.T
	conn *pgx.Conn
	d    *db.DB
}

func listen(t *testing.T, d *db.DB, url string) *notices {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := conn.Exec(t.Context(), `LISTEN "public.river_insert"`); err != nil {
		t.Fatal(err)
	}
	return &notices{t, conn, d}
}

// count returns the number of notifications since the last call.
func (n *notices) count() (count int) {
	n.t.Helper()
	// PostgreSQL sends notifications in the order of the commits, so "end" is the last one.
	if _, err := n.d.Pool().Exec(n.t.Context(), `SELECT pg_notify('public.river_insert', 'end')`); err != nil {
		n.t.Fatal(err)
	}
	for {
		got, err := n.conn.WaitForNotification(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		if got.Payload == "end" {
			return count
		}
		if got.Payload != `{"queue":"default"}` {
			n.t.Errorf("payload = %s, want the queue default", got.Payload)
		}
		count++
	}
}

// A job wakes only the node that enqueues it, unless the node has many waiting jobs or runs no jobs of
// the queue.
func TestJobWakesItsNode(t *testing.T) {
	t.Parallel()
	url := dbtest.MigratedURL(t)
	d := dbtest.Open(t, "", url)
	ctx := t.Context()
	n := listen(t, d, url)
	done, held, hold := make(chan string), make(chan struct{}), make(chan struct{})
	q := open(t, d, "busy", func(_ context.Context, text string, _ int) error {
		if text == "held" {
			close(held)
			<-hold
		}
		done <- text
		return nil
	})
	insert(t, d, q, "before the start")
	if got := n.count(); got != 1 {
		t.Errorf("%d notifications before Start, want 1", got)
	}
	if err := q.Start(ctx); err != nil {
		t.Fatal(err)
	}
	<-done
	const jobs, polls = 30, 15 * time.Second // if each job waited for a poll, the jobs would take about a minute
	began := time.Now()
	for i := range jobs {
		insert(t, d, q, strconv.Itoa(i))
		if got := <-done; got != strconv.Itoa(i) {
			t.Fatalf("job = %s, want %d", got, i)
		}
	}
	if took := time.Since(began); took > polls {
		t.Errorf("%d jobs took %s, want at most %s", jobs, took, polls)
	}
	if got := n.count(); got != 0 {
		t.Errorf("%d notifications by a node without waiting jobs, want 0", got)
	}

	insert(t, d, q, "held")
	<-held
	for range 2 {
		insert(t, d, q, "waits")
	}
	if got := n.count(); got != 0 {
		t.Errorf("%d notifications by a node with two waiting jobs, want 0", got)
	}
	for range 3 {
		insert(t, d, q, "waits")
	}
	if got := n.count(); got < 1 || got > 3 {
		t.Errorf("%d notifications by a node with more than two waiting jobs, want 1 to 3", got)
	}
	close(hold)
	for range 6 {
		<-done
	}

	webOnly, err := job.New(d, job.Config{NodeID: "web", MaxAttempts: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, d, webOnly, "of another node")
	<-done
	if got := n.count(); got != 1 {
		t.Errorf("%d notifications by a node without workers, want 1", got)
	}
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := q.InsertTx(ctx, tx, noteArgs{Text: "later"}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := q.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if got := n.count(); got != 0 {
		t.Errorf("%d notifications about a job that is scheduled for later, want 0", got)
	}
	insert(t, d, q, "after the stop")
	if got := n.count(); got != 1 {
		t.Errorf("%d notifications by a node that has stopped, want 1", got)
	}
}
