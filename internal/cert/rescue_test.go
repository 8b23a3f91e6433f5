package cert

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/seal"
)

func TestInterruptedAttemptDoesNotCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, func(c *Config) { c.Attempts = 1 })
		started := make(chan struct{})
		v.sealer.seal = func(ctx context.Context, _ seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := v.upload(nil)
		if err := v.queue.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-started
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := v.queue.Stop(canceled); err != nil {
			t.Fatal(err)
		}
		jobs := v.jobs()
		if len(jobs) != 1 || jobs[0].State != "available" || jobs[0].Attempt != 0 {
			t.Fatalf("jobs = %+v, want one available job without attempts", jobs)
		}
		if got := v.get(c.UUID); got.Status != Processing || len(v.events()) != 1 {
			t.Errorf("status = %s, events = %+v, want processing and one event", got.Status, v.events())
		}
		// The next process runs the job again.
		done := make(chan struct{})
		next := newQueue(t, v, func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			defer close(done)
			return sealed(o, []byte(tailText), false)
		})
		if err := next.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := next.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := v.get(c.UUID); got.Status != Approved {
			t.Errorf("status after the next process = %s, failure = %+v, want approved", got.Status, got.Failure)
		}
	})
}

// newQueue returns the queue of another process on the same vault. Its sealer calls work.
func newQueue(t *testing.T, v *vault, work func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error)) *job.Queue {
	t.Helper()
	q, err := job.New(v.d, job.Config{NodeID: "next", Queues: map[string]int{SealQueue: 1}, MaxAttempts: 8, Timeout: time.Minute, Logger: v.log})
	if err != nil {
		t.Fatal(err)
	}
	New(Config{
		DB: v.d, Blobs: v.blobs, Queue: q, Hooks: v.hooks, Sealer: &fakeSealer{seal: work, png: v.sealer.png}, VerifyURL: v.verifyURL,
		Keys: v.ring, Verify: v.verify, Attempts: v.attempts, Now: v.now, Log: v.log,
	})
	return q
}

func TestInterruptedAttemptSnoozes(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Attempts = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	v.sealer.seal = func(ctx context.Context, _ seal.Original, _ seal.Stamp) (*seal.Verified, error) {
		cancel()
		return nil, ctx.Err()
	}
	c := v.upload(nil)
	err := v.work(ctx, c, 1)
	if _, ok := errors.AsType[*river.JobSnoozeError](err); !ok {
		t.Errorf("interrupted attempt: err = %v, want a snooze", err)
	}
	if got := v.get(c.UUID); got.Status != Processing {
		t.Errorf("status = %s, want processing", got.Status)
	}
}

func (v *vault) rescue(uuid, kind string) {
	v.tb.Helper()
	args, err := json.Marshal(sealArgs{UUID: uuid})
	if err != nil {
		v.tb.Fatal(err)
	}
	v.tx(func(tx *db.Tx) error {
		return v.Rescued(v.tb.Context(), tx, job.Rescued{ID: 1, Kind: kind, Args: args})
	})
}

func TestRescuedCountsCrashes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		for n := 1; n <= 2; n++ {
			v.rescue(c.UUID, "seal")
			if got := v.get(c.UUID); got.Status != Processing || got.crashes != n {
				t.Fatalf("after %d crashes: status = %s, crashes = %d, want processing and %d", n, got.Status, got.crashes, n)
			}
		}
		v.rescue(c.UUID, "recipient")
		if got := v.get(c.UUID); got.crashes != 2 {
			t.Errorf("crashes = %d after the crash of another job, want 2", got.crashes)
		}
		leave, err := v.enter(t.Context(), v.get(c.UUID)) // begins the trial
		if err != nil {
			t.Fatal(err)
		}
		v.rescue(c.UUID, "seal")
		if err := leave(); err != nil {
			t.Error(err)
		}
		got := v.get(c.UUID)
		if got.Status != Failed || got.Failure == nil || got.Failure.Code != "crashed" || !strings.Contains(got.Failure.Message, "3 times") {
			t.Errorf("after the third crash: status = %s, failure = %+v, want failed with the code crashed", got.Status, got.Failure)
		}
		if events := v.events(); len(events) != 2 || events[1].Name != "certificate_application.failed" {
			t.Errorf("events = %+v, want two, the second certificate_application.failed", events)
		}
		// A later crash does not change the failed certificate. A retry resets the number of crashes.
		v.rescue(c.UUID, "seal")
		if got := v.get(c.UUID); got.crashes != 3 || len(v.events()) != 2 {
			t.Errorf("after a crash of a failed certificate: crashes = %d, events = %+v, want 3 crashes and 2 events", got.crashes, v.events())
		}
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.rescue(c.UUID, "seal")
		if got := v.get(c.UUID); got.Status != Processing || got.crashes != 1 {
			t.Errorf("after the retry and one more crash: status = %s, crashes = %d, want processing and 1", got.Status, got.crashes)
		}
		v.rescue("00000000-0000-0000-0000-000000000000", "seal")
	})
}

// A crash of the process counts for all certificates that were being sealed. Only the certificate that
// causes the crashes fails.
func TestNeighboursOfCrashingCertificateDoNotFail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		culprit, first, second := v.upload(titled("culprit")), v.upload(titled("first")), v.upload(titled("second"))
		all := []*Certificate{culprit, first, second}
		crash := func() {
			for _, c := range all {
				v.rescue(c.UUID, "seal")
			}
		}
		crash()
		crash()
		// In the next process, no other certificate is sealed during the trial of the culprit.
		started, crashed, done := make(chan struct{}), make(chan struct{}), make(chan error)
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			close(started)
			<-crashed
			return nil, errors.New("the process is gone")
		}
		go func() { done <- v.work(t.Context(), culprit, 1) }()
		<-started
		fresh := v.upload(titled("fresh"))
		if _, ok := errors.AsType[*river.JobSnoozeError](v.work(t.Context(), fresh, 1)); !ok {
			t.Error("the job of another certificate was not snoozed during the trial")
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.enter(impatient, v.get(first.UUID)); !errors.Is(err, errTrial) {
			t.Errorf("enter of a certificate with two crashes during a trial: err = %v, want errTrial", err)
		}
		all = append(all, fresh) // the job of fresh is interrupted too, although it is not being sealed
		crash()
		if got := v.get(culprit.UUID); got.Status != Failed || got.Failure.Code != "crashed" {
			t.Errorf("culprit: status = %s, failure = %+v, want failed with crashed", got.Status, got.Failure)
		}
		close(crashed)
		<-done
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			return sealed(o, []byte(tailText), false)
		}
		for _, c := range []*Certificate{first, second, fresh} {
			if err := v.work(t.Context(), c, 1); err != nil {
				t.Error(err)
			}
			if got := v.get(c.UUID); got.Status != Approved {
				t.Errorf("certificate %s: status = %s, failure = %+v, want approved", c.Title, got.Status, got.Failure)
			}
		}
	})
}

// The end of a trial without a crash resets the number of crashes to trialCrashes.
func TestTrialWithoutCrashIsNotCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		v.rescue(c.UUID, "seal")
		v.rescue(c.UUID, "seal")
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			if got := v.get(c.UUID); got.crashes != crashesInTrial {
				t.Errorf("the record has %d crashes during the trial, want %d", got.crashes, crashesInTrial)
			}
			return nil, errors.New("the renderer is missing")
		}
		if err := v.work(t.Context(), c, 1); err == nil {
			t.Error("an attempt with a failing sealer returned no error")
		}
		v.rescue(c.UUID, "seal")
		if got := v.get(c.UUID); got.Status != Processing || got.crashes != trialCrashes {
			t.Errorf("after the trial and a crash: status = %s with %d crashes, want %s with %d", got.Status, got.crashes, Processing, trialCrashes)
		}
	})
}

// If this process was suspended and another node counted a crash for an attempt, the end of the attempt
// subtracts one crash. Other crashes remain.
func TestSuspensionIsNoCrash(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	v := newVault(t, d)
	attempt := func(title string, rescues, want int) {
		t.Helper()
		c := v.upload(titled(title))
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			for range rescues {
				v.rescue(c.UUID, "seal")
			}
			return sealed(o, []byte(tailText), false)
		}
		if err := v.work(t.Context(), c, 1); err != nil {
			t.Fatal(err)
		}
		if got := v.get(c.UUID); got.Status != Approved || got.crashes != want {
			t.Errorf("after %d rescues during an attempt that ended: status = %s, crashes = %d, want approved and %d", rescues, got.Status, got.crashes, want)
		}
	}
	// This process sends no heartbeats, as if it were suspended.
	attempt("first", 0, 0)
	attempt("second", 1, 0)
	attempt("third", 2, 1)
	if err := v.queue.Heartbeat(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	attempt("fourth", 1, 1)
}
