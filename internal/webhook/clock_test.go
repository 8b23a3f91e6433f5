package webhook

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestDeliveryOfAClockThatWasAheadIsPulledBack checks that PullBack corrects a delivery, a backoff and a
// lease that a node wrote while its clock was a year ahead.
func TestDeliveryOfAClockThatWasAheadIsPulledBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		n := newNode(t, d, createDelivery(t, d))
		next := db.Micros(epoch.AddDate(1, 0, 0))
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE webhook_deliveries SET due_at = $1`, next); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `UPDATE webhook_endpoints SET leased_until = $1, held_until = $1, served_at = $1`, next)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int64{2, 0} {
			if rows, err := n.PullBack(ctx); err != nil || rows != want {
				t.Fatalf("PullBack = %d rows, error %v; want %d rows", rows, err, want)
			}
		}
		if leases := n.leaseDue(t); len(leases) != 0 {
			t.Errorf("leased %d endpoints before the old lease ended, want 0", len(leases))
		}
		n.at = epoch.Add(leaseTime)
		leases := n.leaseDue(t)
		if len(leases) != 1 {
			t.Fatalf("leased %d endpoints, want 1", len(leases))
		}
		if _, results := n.sendAll(t, leases[0]); len(results) != 1 || results[0].outcome != Delivered {
			t.Errorf("results = %+v, want one delivery", results)
		}
	})
}

// TestLeaseOfAnotherNodeIsNotPulledBack checks that PullBack does not change the lease of a node whose
// clock is one second ahead, which is less than db.ClockTolerance.
func TestLeaseOfAnotherNodeIsNotPulledBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		n := newNode(t, d, createDelivery(t, d))
		n.at = epoch.Add(time.Second)
		if leases := n.leaseDue(t); len(leases) != 1 {
			t.Fatalf("leased %d endpoints, want 1", len(leases))
		}
		n.at = epoch
		if rows, err := n.PullBack(t.Context()); err != nil || rows != 0 {
			t.Errorf("PullBack = %d rows, error %v; want 0 rows", rows, err)
		}
	})
}

// TestLongestScheduleIsNotPulledBack checks that PullBack does not change a delivery that waits almost as
// long as the schedule allows.
func TestLongestScheduleIsNotPulledBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		n := newNode(t, d, createDelivery(t, d))
		n.waits = []time.Duration{time.Minute, 48 * time.Hour}
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE webhook_deliveries SET due_at = $1`, db.Micros(epoch.Add(57*time.Hour)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if rows, err := n.PullBack(ctx); err != nil || rows != 0 {
			t.Errorf("PullBack = %d rows, error %v; want 0 rows", rows, err)
		}
	})
}
