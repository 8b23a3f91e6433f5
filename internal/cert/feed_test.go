package cert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/seal"
)

// batch creates n certificates of a batch and calls FeedTx.
func (v *vault) batch(inst *account.Institution, n int) (list []*Certificate) {
	v.tb.Helper()
	u := v.input(inst)
	u.BatchID, u.Context = "b-"+inst.Prefix, BulkUpload
	v.tx(func(tx *db.Tx) error {
		for range n {
			u.Title = fmt.Sprintf("BSc %d", len(list))
			c, err := v.CreateTx(v.tb.Context(), tx, u)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return v.FeedTx(v.tb.Context(), tx, inst.ID)
	})
	return list
}

// enqueued returns the UUIDs of the certificates that have a job in BulkQueue, in the order of the jobs.
// The jobs of finished certificates remain in the queue.
func (v *vault) enqueued() []string {
	v.tb.Helper()
	list, err := db.Column[string](v.d.QueryContext(v.tb.Context(),
		`SELECT c.uuid FROM river_job j JOIN certificates c ON c.job_id = j.id WHERE j.queue = 'seal_bulk' ORDER BY j.id`))
	if err != nil {
		v.tb.Fatal(err)
	}
	return list
}

func uuids(list []*Certificate) (all []string) {
	for _, c := range list {
		all = append(all, c.UUID)
	}
	return all
}

// The number of workers limits the number of jobs. After each finished certificate, the next one is
// enqueued.
func TestFeedLimitsJobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, func(c *Config) { c.BulkWorkers = 2 })
		all := v.batch(v.inst, doubleShareLimit+4)
		want := uuids(all)
		for i := range all {
			// Two unfinished certificates have jobs, or four if few certificates are waiting.
			if have := []int{2, 3, 4, 7, 8}; i < len(have) {
				if got := v.enqueued(); !slices.Equal(got, want[:have[i]]) {
					t.Fatalf("after %d finished certificates, %d certificates were enqueued, want the oldest %d", i, len(got), have[i])
				}
			}
			v.approved(all[i])
		}
		if got := v.enqueued(); !slices.Equal(got, want) {
			t.Errorf("%d certificates were enqueued, want all %d in the order of creation", len(got), len(want))
		}
		if single := v.upload(titled("single")); v.get(single.UUID).jobID == 0 || slices.ContainsFunc(v.jobs(), func(j jobRow) bool {
			return j.ID == v.get(single.UUID).jobID && j.Queue != SealQueue
		}) {
			t.Error("the single upload has no job in SealQueue, want one")
		}
	})
}

// The institutions take turns. The limit of jobs is doubled for an institution with few waiting
// certificates.
func TestFeedAlternatesInstitutions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		names := map[string]string{}
		name := func(letter string, list []*Certificate) {
			for _, c := range list {
				names[c.UUID] = letter
			}
		}
		name("a", v.batch(v.inst, 100))
		name("b", v.batch(v.institution("BB"), 100))
		done := 0
		work := func(n int) string {
			var order strings.Builder
			for range n {
				next := v.enqueued()[done]
				done++
				order.WriteString(names[next])
				v.approved(v.get(next))
			}
			return order.String()
		}
		if got := work(8); got != "abababab" {
			t.Errorf("order with two large batches = %s, want abababab", got)
		}
		name("c", v.batch(v.institution("CC"), 5))
		if got := work(13); got != "abccabccabcab" {
			t.Errorf("order with one small batch = %s, want abccabccabcab", got)
		}
	})
}

// The job of a certificate that waits for another attempt does not count towards the limit.
func TestFeedContinuesAfterTransientFault(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		all := v.batch(v.inst, doubleShareLimit+10)
		fine := v.sealer.seal
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			return nil, errors.New("transient fault")
		}
		if err := v.work(t.Context(), all[0], 1); err == nil {
			t.Fatal("an attempt with a transient fault returned no error")
		}
		v.exec(`UPDATE river_job SET state = 'retryable' WHERE id = $1`, v.get(all[0].UUID).jobID)
		if got := v.enqueued(); !slices.Equal(got, uuids(all[:2])) {
			t.Fatalf("%d certificates were enqueued after the transient fault, want the first two", len(got))
		}
		v.sealer.seal = fine
		v.approved(all[1])
		v.exec(`UPDATE river_job SET state = 'available' WHERE id = $1`, v.get(all[0].UUID).jobID)
		if got := v.enqueued(); len(got) != 3 {
			t.Errorf("%d certificates were enqueued after the second was approved, want 3", len(got))
		}
		// With the available job of the first certificate, there are two unfinished jobs. The limit is one.
		v.approved(all[0])
		if got := v.enqueued(); len(got) != 3 {
			t.Errorf("%d certificates were enqueued after the first was approved, want 3", len(got))
		}
		v.approved(all[2])
		if got := v.enqueued(); len(got) != 4 {
			t.Errorf("%d certificates were enqueued after the third was approved, want 4", len(got))
		}
	})
}

// The revocation of a certificate that has a job enqueues the next certificate. A retried certificate
// of a batch gets a job only when the limit allows it.
func TestFeedAfterRevocationAndRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		all := v.batch(v.inst, doubleShareLimit+10)
		revoke := func(c *Certificate) {
			t.Helper()
			if _, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: "A mistake"}); err != nil {
				t.Fatal(err)
			}
		}
		revoke(all[1]) // a certificate without a job
		revoke(all[0]) // a certificate with a job
		if got := v.enqueued(); !slices.Equal(got, []string{all[0].UUID, all[2].UUID}) {
			t.Errorf("%d certificates were enqueued after the revocations, want the first and the third", len(got))
		}
		if err := v.work(ctx, all[0], 1); err != nil || v.get(all[0].UUID).Status != Revoked {
			t.Errorf("job of a revoked certificate: err = %v, want nil and the status revoked", err)
		}
		if err := v.fail(ctx, all[2], Failure{Code: "x", Message: "x"}); err != nil {
			t.Fatal(err)
		}
		retried, err := v.Retry(ctx, v.inst.ID, all[2].UUID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if retried.Status != Processing {
			t.Fatalf("status of the retried certificate = %s, want %s", retried.Status, Processing)
		}
		if v.get(all[2].UUID).jobID != 0 {
			t.Error("the retried certificate has a job, want none")
		}
		v.approved(all[3])
		if last := v.enqueued(); last[len(last)-1] != all[2].UUID {
			t.Error("the last enqueued certificate is not the retried one, which is the oldest waiting one")
		}
	})
}

// SweepJobs enqueues a certificate of a batch again if its job was lost.
func TestSweepJobsFeeds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		all := v.batch(v.inst, doubleShareLimit+10)
		sweep := func() {
			t.Helper()
			v.clock.Advance(requeueAfter + time.Second)
			if err := v.SweepJobs(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		if got := v.enqueued(); len(got) != 1 {
			t.Errorf("%d certificates have jobs after a sweep without lost jobs, want 1", len(got))
		}
		v.exec(`DELETE FROM river_job`)
		sweep()
		if got := v.enqueued(); !slices.Equal(got, uuids(all[:1])) {
			t.Errorf("%d certificates have jobs, want only the oldest", len(got))
		}
		// If no certificate has a job, only the sweep can enqueue one.
		v.exec(`UPDATE certificates SET job_id = NULL`)
		sweep()
		if got := v.enqueued(); !slices.Equal(got, uuids(all[:1])) {
			t.Errorf("%d certificates have jobs, want only the oldest", len(got))
		}
	})
}

// The limit of jobs is multiplied by the number of live nodes.
func TestFeedCountsNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		second, err := job.New(d, job.Config{NodeID: "second", MaxAttempts: 1, Timeout: time.Minute, Logger: v.log})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		for i, step := range []struct {
			beat func() error
			want int
		}{
			{func() error { return v.queue.Heartbeat(ctx, now) }, 1},
			{func() error { return errors.Join(second.Heartbeat(ctx, now), v.queue.Heartbeat(ctx, now)) }, 2},
			{func() error { return v.queue.Heartbeat(ctx, now.Add(time.Minute)) }, 1},
		} {
			if err := step.beat(); err != nil || v.queue.Nodes() != step.want {
				t.Errorf("step %d: nodes = %d, err = %v, want %d nodes", i, v.queue.Nodes(), err, step.want)
			}
			if i == 1 {
				if v.batch(v.inst, doubleShareLimit+10); len(v.enqueued()) != 2 {
					t.Errorf("%d certificates have jobs, want 2, one for each node", len(v.enqueued()))
				}
			}
		}
	})
}

// Concurrent workers enqueue different certificates. Each certificate gets one job, and no certificate
// stays in processing.
func TestFeedWithConcurrentWorkers(t *testing.T) {
	t.Parallel()
	const n = 150
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, func(c *Config) { c.BulkWorkers = 4 })
		queue, err := job.New(d, job.Config{
			NodeID: "many", Queues: map[string]int{BulkQueue: 4}, MaxAttempts: 8, Timeout: time.Minute, Logger: v.log,
		})
		if err != nil {
			t.Fatal(err)
		}
		job.Add(queue, v.worker)
		v.batch(v.inst, n)
		v.batch(v.institution("BB"), n)
		if err := queue.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		deadline := time.After(time.Minute)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for waiting := 1; waiting > 0; {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("timeout: %d certificates are still in processing", waiting)
			}
			if waiting, err = Stuck(t.Context(), d, v.clock.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if err := queue.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		jobs := 0
		for _, j := range v.jobs() {
			if j.Queue == BulkQueue {
				jobs++
			}
		}
		if jobs != 2*n {
			t.Errorf("got %d jobs for %d certificates, want one for each", jobs, 2*n)
		}
	})
}
