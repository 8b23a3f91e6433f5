package mail

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
)

type ctxType = context.Context

// fake is a Sender whose answers the test decides.
type fake struct {
	sent []string
	last *Envelope
	err  error
	told chan struct{}
}

func (f *fake) Send(_ context.Context, e *Envelope) error {
	f.sent, f.last = append(f.sent, e.ID), e
	select {
	case f.told <- struct{}{}:
	default:
	}
	return f.err
}

type bench struct {
	*Mailer

	t    *testing.T
	d    *db.DB
	fake *fake
	at   time.Time
}

func open(t *testing.T, d *db.DB) *bench {
	t.Helper()
	q, err := job.New(d, job.Config{NodeID: "test", Queues: map[string]int{QueueName: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, d: d, fake: &fake{told: make(chan struct{}, 1)}, at: time.Now()}
	b.Mailer = New(Config{
		DB: d, Queue: q, Sender: b.fake, From: Address{Email: "no-reply@vault.example"}, Now: func() time.Time { return b.at }, Log: slog.New(slog.DiscardHandler),
	})
	return b
}

func (b *bench) enqueue(end error) (id string) {
	b.t.Helper()
	if err := b.d.Tx(b.t.Context(), func(tx *db.Tx) (err error) {
		id, err = b.EnqueueTx(b.t.Context(), tx, Message{To: Address{Email: "a@example.org"}, Subject: "s", Text: "t"})
		return errors.Join(err, end)
	}); !errors.Is(err, end) {
		b.t.Fatal(err)
	}
	return id
}

// work runs the job of a message, as the queue does.
func (b *bench) work(id string, attempt int) error {
	b.t.Helper()
	return (&worker{mailer: b.Mailer}).Work(b.t.Context(), &river.Job[jobArgs]{JobRow: &rivertype.JobRow{Attempt: attempt, MaxAttempts: maxAttempts}, Args: jobArgs{UUID: id}})
}

func (b *bench) status(id string) (status Status) {
	b.t.Helper()
	if err := b.d.QueryRowContext(b.t.Context(), `SELECT status FROM mails WHERE uuid = $1`, id).Scan(&status); err != nil {
		b.t.Fatal(err)
	}
	return status
}

func (b *bench) count(table string) (n int) {
	b.t.Helper()
	if err := b.d.QueryRowContext(b.t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestEnqueueJoinsTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.enqueue(errors.New("boom"))
		if b.count("mails") != 0 || b.count("river_job") != 0 {
			t.Fatal("a rollback left a message")
		}
		id := b.enqueue(nil)
		if err := b.queue.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-b.fake.told
		if err := b.queue.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(b.fake.sent) != 1 || b.fake.sent[0] != id || b.status(id) != Sent {
			t.Errorf("sent %v", b.fake.sent)
		}
	})
}

func TestFaultsOfSending(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		passing := errors.New("the server is away")
		id := b.enqueue(nil)
		b.fake.err = passing
		if err := b.work(id, 1); !errors.Is(err, passing) || b.status(id) != Queued {
			t.Errorf("after a passing fault: %v, %s", err, b.status(id))
		}
		b.fake.err = nil
		if err := b.work(id, 2); err != nil || b.status(id) != Sent {
			t.Errorf("after it passed: %v, %s", err, b.status(id))
		}
		// The queue may run a job twice.
		if err := b.work(id, 3); err != nil || len(b.fake.sent) != 2 {
			t.Errorf("sent %d times, %v", len(b.fake.sent), err)
		}
		refused := b.enqueue(nil)
		b.fake.err = &RefusedError{Err: errors.New("550")}
		if err := b.work(refused, 1); err != nil || b.status(refused) != Failed {
			t.Errorf("refused: %v, %s", err, b.status(refused))
		}
		spent := b.enqueue(nil)
		b.fake.err = passing
		if err := b.work(spent, maxAttempts); err != nil || b.status(spent) != Failed {
			t.Errorf("after the last attempt: %v, %s", err, b.status(spent))
		}
	})
}

func TestSweepRequeuesAndRemoves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		lost, kept := b.enqueue(nil), b.enqueue(nil)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM river_job WHERE id = (SELECT job_id FROM mails WHERE uuid = $1)`, lost)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.Sweep(t.Context()); err != nil || b.count("river_job") != 1 {
			t.Fatalf("a new message was treated as lost: %v", err)
		}
		b.at = b.at.Add(time.Minute)
		for range 2 {
			if err := b.Sweep(t.Context()); err != nil || b.count("river_job") != 2 {
				t.Fatalf("%d jobs after the sweep, %v", b.count("river_job"), err)
			}
		}
		if err := b.work(lost, 1); err != nil {
			t.Fatal(err)
		}
		b.at = b.at.Add(retention + time.Minute)
		if err := b.Sweep(t.Context()); err != nil || b.count("mails") != 1 || b.status(kept) != Queued {
			t.Errorf("after a month %d messages are stored, %v", b.count("mails"), err)
		}
	})
}
