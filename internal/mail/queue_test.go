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

// fake is a Sender that records the messages and returns err.
type fake struct {
	sent     []string
	last     *Envelope
	err      error
	notified chan struct{}
}

func (f *fake) Send(_ context.Context, e *Envelope) error {
	f.sent, f.last = append(f.sent, e.ID), e
	select {
	case f.notified <- struct{}{}:
	default:
	}
	return f.err
}

type fixture struct {
	*Mailer

	t    *testing.T
	d    *db.DB
	fake *fake
	at   time.Time
}

func open(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	q, err := job.New(d, job.Config{NodeID: "test", Queues: map[string]int{QueueName: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{t: t, d: d, fake: &fake{notified: make(chan struct{}, 1)}, at: time.Now()}
	b.Mailer, err = New(Config{
		DB: d, Queue: q, Sender: b.fake, From: Address{Email: "no-reply@vault.example"}, Now: func() time.Time { return b.at }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *fixture) enqueue(end error) (id string) {
	b.t.Helper()
	if err := b.d.Tx(b.t.Context(), func(tx *db.Tx) (err error) {
		id, err = b.EnqueueTx(b.t.Context(), tx, Message{To: Address{Email: "a@example.org"}, Subject: "s", Text: "t"})
		return errors.Join(err, end)
	}); !errors.Is(err, end) {
		b.t.Fatal(err)
	}
	return id
}

// runJob runs the job of a message, as the queue does.
func (b *fixture) runJob(id string, attempt int) error {
	b.t.Helper()
	return (&worker{mailer: b.Mailer}).Work(b.t.Context(), &river.Job[jobArgs]{JobRow: &rivertype.JobRow{Attempt: attempt, MaxAttempts: maxAttempts}, Args: jobArgs{UUID: id}})
}

func (b *fixture) status(id string) (status Status) {
	b.t.Helper()
	if err := b.d.QueryRowContext(b.t.Context(), `SELECT status FROM mails WHERE uuid = $1`, id).Scan(&status); err != nil {
		b.t.Fatal(err)
	}
	return status
}

func (b *fixture) count(table string) (n int) {
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
		b.enqueue(errors.New("rollback"))
		if b.count("mails") != 0 || b.count("river_job") != 0 {
			t.Fatalf("%d messages and %d jobs after a rollback, want 0", b.count("mails"), b.count("river_job"))
		}
		id := b.enqueue(nil)
		if err := b.queue.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-b.fake.notified
		if err := b.queue.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(b.fake.sent) != 1 || b.fake.sent[0] != id || b.status(id) != Sent {
			t.Errorf("sent messages = %v, want only %s with the status sent", b.fake.sent, id)
		}
	})
}

func TestSendErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		temporary := errors.New("the server is not available")
		id := b.enqueue(nil)
		b.fake.err = temporary
		if err := b.runJob(id, 1); !errors.Is(err, temporary) || b.status(id) != Queued {
			t.Errorf("after a temporary error: error %v, status %s; want the temporary error and queued", err, b.status(id))
		}
		b.fake.err = nil
		if err := b.runJob(id, 2); err != nil || b.status(id) != Sent {
			t.Errorf("after the second attempt: error %v, status %s; want no error and sent", err, b.status(id))
		}
		// The queue may run a job twice.
		if err := b.runJob(id, 3); err != nil || len(b.fake.sent) != 2 {
			t.Errorf("Send was called %d times, want 2; error %v", len(b.fake.sent), err)
		}
		refused := b.enqueue(nil)
		b.fake.err = &RefusedError{Err: errors.New("550")}
		if err := b.runJob(refused, 1); err != nil || b.status(refused) != Failed {
			t.Errorf("refused message: error %v, status %s; want no error and failed", err, b.status(refused))
		}
		last := b.enqueue(nil)
		b.fake.err = temporary
		if err := b.runJob(last, maxAttempts); err != nil || b.status(last) != Failed {
			t.Errorf("after the last attempt: error %v, status %s; want no error and failed", err, b.status(last))
		}
	})
}

func TestSweepInsertsJobsAndDeletesOldMessages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		withoutJob, queued := b.enqueue(nil), b.enqueue(nil)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM river_job WHERE id = (SELECT job_id FROM mails WHERE uuid = $1)`, withoutJob)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.Sweep(t.Context()); err != nil || b.count("river_job") != 1 {
			t.Fatalf("%d jobs after the first sweep, want 1; error %v", b.count("river_job"), err)
		}
		b.at = b.at.Add(time.Minute)
		for range 2 {
			if err := b.Sweep(t.Context()); err != nil || b.count("river_job") != 2 {
				t.Fatalf("%d jobs after the sweep, want 2; error %v", b.count("river_job"), err)
			}
		}
		if err := b.runJob(withoutJob, 1); err != nil {
			t.Fatal(err)
		}
		b.at = b.at.Add(retention + time.Minute)
		if err := b.Sweep(t.Context()); err != nil || b.count("mails") != 1 || b.status(queued) != Queued {
			t.Errorf("%d messages are stored after a month, want 1 that is queued; error %v", b.count("mails"), err)
		}
	})
}

// TestReportsNeedAKeyring checks that New refuses Bounces without Keyring. Otherwise the first message
// would cause a panic, because Keyring signs the addresses for reports.
func TestReportsNeedAKeyring(t *testing.T) {
	t.Parallel()
	if m, err := New(Config{Bounces: "bounces.vault.example"}); err == nil || m != nil {
		t.Errorf("New with Bounces and without Keyring = %v, %v, want an error", m, err)
	}
}
