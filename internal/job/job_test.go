package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
)

type noteArgs struct {
	Text string `json:"text"`
}

func (noteArgs) Kind() string { return "note" }

type noteWorker struct {
	river.WorkerDefaults[noteArgs]

	work func(ctx context.Context, text string, attempt int) error
}

func (w *noteWorker) Work(ctx context.Context, j *river.Job[noteArgs]) error {
	return w.work(ctx, j.Args.Text, j.Attempt)
}

func open(t *testing.T, d *db.DB, node string, work func(ctx context.Context, text string, attempt int) error) *job.Queue {
	t.Helper()
	q, err := job.New(d, job.Config{
		NodeID: node, Queues: map[string]int{river.QueueDefault: 1}, MaxAttempts: 3, Timeout: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	job.Add(q, &noteWorker{work: work})
	return q
}

func insert(t *testing.T, d *db.DB, q *job.Queue, text string) int64 {
	t.Helper()
	var id int64
	if err := d.Tx(t.Context(), func(tx *db.Tx) (err error) {
		id, err = q.InsertTx(t.Context(), tx, noteArgs{Text: text}, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestJobIsInsertedInTheTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		done := make(chan string, 10)
		q := open(t, d, "n1", func(_ context.Context, text string, _ int) error { done <- text; return nil })
		boom := errors.New("boom")
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			if _, err := q.InsertTx(ctx, tx, noteArgs{Text: "rolled back"}, nil); err != nil {
				return err
			}
			return boom
		}); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		if err := q.Start(ctx); err != nil {
			t.Fatal(err)
		}
		id := insert(t, d, q, "committed")
		if got := <-done; got != "committed" {
			t.Fatalf("the first job that ran is %q, want committed", got)
		}
		if err := q.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		var alive int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM river_job j WHERE j.id = $1 AND `+job.Unfinished(`j.id`), id).Scan(&alive); err != nil || alive != 0 {
			t.Errorf("Unfinished selects %d completed jobs, error %v, want 0", alive, err)
		}
		var n int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM river_job`).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d jobs are stored, error %v, want 1", n, err)
		}
	})
}

// TestRescue checks that a job of a dead node runs again, and that the interrupted attempt is not
// counted. Jobs of living nodes are not rescued.
func TestRescue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		started := make(chan struct{})
		release := make(chan struct{})
		first := open(t, d, "dies", func(context.Context, string, int) error {
			close(started)
			<-release
			return nil
		})
		now := time.Now()
		if err := first.Heartbeat(ctx, now); err != nil {
			t.Fatal(err)
		}
		if err := first.Start(ctx); err != nil {
			t.Fatal(err)
		}
		id := insert(t, d, first, "x")
		<-started
		attempts := make(chan int, 1)
		second := open(t, d, "lives", func(_ context.Context, _ string, attempt int) error { attempts <- attempt; return nil })
		var rescued []job.Rescued
		note := func(_ context.Context, _ *db.Tx, r job.Rescued) error { rescued = append(rescued, r); return nil }
		if d.Dialect == db.PostgreSQL {
			if err := second.Rescue(ctx, now.Add(time.Second), note); err != nil {
				t.Fatal(err)
			}
			if len(rescued) != 0 {
				t.Fatalf("rescued jobs of a living node = %+v, want none", rescued)
			}
		}
		if err := second.Rescue(ctx, now.Add(time.Minute), note); err != nil {
			t.Fatal(err)
		}
		if len(rescued) != 1 || rescued[0].ID != id || rescued[0].Kind != "note" {
			t.Fatalf("rescued jobs = %+v, want job %d", rescued, id)
		}
		if d.Dialect == db.SQLite {
			// On SQLite only one process runs jobs, so all other nodes are dead.
			var n int
			if err := d.QueryRowContext(ctx, `SELECT count(*) FROM nodes WHERE id = 'dies'`).Scan(&n); err != nil || n != 0 {
				t.Fatalf("the dead node has %d rows, error %v, want 0", n, err)
			}
		}
		var args noteArgs
		if err := json.Unmarshal(rescued[0].Args, &args); err != nil || args.Text != "x" {
			t.Fatalf("args = %s, %v, want the text x", rescued[0].Args, err)
		}
		if err := second.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-attempts; got != 1 {
			t.Fatalf("attempt = %d, want 1: the interrupted attempt was counted", got)
		}
		// The first node finishes the job after the second node. The result of the first node is ignored.
		if err := second.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		close(release)
		if err := first.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRescueWhileTheJobEnds checks that River does not panic if a node finishes a job while another node
// makes the job available. The job runs again. See steadyPostgres.
func TestRescueWhileTheJobEnds(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	ctx := t.Context()
	working, end, ended := make(chan int, 3), make(chan struct{}), make(chan struct{})
	silent := open(t, d, "silent", func(_ context.Context, _ string, attempt int) error {
		working <- attempt
		<-end
		return nil
	})
	id := insert(t, d, silent, "twice")
	if err := silent.Start(ctx); err != nil {
		t.Fatal(err)
	}
	<-working
	other := open(t, d, "other", func(context.Context, string, int) error { return nil })
	if err := other.Rescue(ctx, time.Now(), func(ctx context.Context, _ *db.Tx, dead job.Rescued) error {
		if dead.ID != id {
			t.Errorf("rescued job = %+v, want job %d", dead, id)
		}
		close(end)
		return await(ctx, d, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%river_job%'`)
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		if err := await(ctx, d, `SELECT count(*) FROM river_job WHERE state = 'completed'`); err != nil {
			t.Error(err)
		}
	}()
	if attempt := <-working; attempt != 1 {
		t.Errorf("attempt = %d, want 1: the interrupted attempt was counted", attempt)
	}
	<-ended
	if err := silent.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// await waits until a query returns a count above zero.
func await(ctx context.Context, d *db.DB, query string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := d.QueryRowContext(ctx, query).Scan(&n); err != nil || n > 0 {
			return err
		}
		<-tick.C
	}
}
