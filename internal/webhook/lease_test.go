package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
)

// node is a deliverer that is not started. The test calls its methods and sets its clock.
type node struct {
	*Deliverer

	at     time.Time
	sent   int
	bodies []string
}

func newNode(t *testing.T, d *db.DB, ring *keyring.Ring) *node {
	t.Helper()
	n := &node{at: epoch}
	n.Deliverer = NewDeliverer(New(d, ring, func() time.Time { return n.at }), DelivererConfig{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			n.sent++
			n.bodies = append(n.bodies, string(body))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, err
		}),
		Log: slog.New(slog.DiscardHandler),
	})
	n.soft, n.stopSoft = context.WithCancel(t.Context())
	n.hard, n.stopHard = context.WithCancel(t.Context())
	return n
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// leaseDue leases endpoints with due deliveries.
func (n *node) leaseDue(t *testing.T) []*lease {
	t.Helper()
	found, err := n.due(t.Context(), false, 10)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := n.leaseAll(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

// sendAll reads and sends the due deliveries of a leased endpoint. It returns the results without
// recording them.
func (n *node) sendAll(t *testing.T, l *lease) (*lane, []*result) {
	t.Helper()
	serving := &lane{Deliverer: n.Deliverer, lease: l}
	list, err := serving.fetch(t.Context(), false, quantum)
	if err != nil {
		t.Fatal(err)
	}
	results := serving.attempt(list, false)
	return serving, results
}

// createDelivery creates an institution with one endpoint and one delivery, and returns the keyring.
func createDelivery(t *testing.T, d *db.DB) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var inst int64
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(),
			`INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ('i', 'i', 'i', 'I', 0) RETURNING id`).Scan(&inst)
	}); err != nil {
		t.Fatal(err)
	}
	s := New(d, ring, func() time.Time { return epoch })
	e, _, err := s.Create(t.Context(), inst, "https://receiver.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Test(t.Context(), inst, e.UUID, Created); err != nil {
		t.Fatal(err)
	}
	return ring
}

func count(t *testing.T, d *db.DB, query string) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM `+query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// If a deliverer dies before it records an attempt, another deliverer can lease the endpoint and send
// the delivery when the lease has expired, and not before.
func TestLeaseOfDeadDelivererExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ring := createDelivery(t, d)
		for _, stopped := range []string{"before sending", "between sending and recording"} {
			first, second := newNode(t, d, ring), newNode(t, d, ring)
			first.at = epoch.Add(time.Hour)
			if stopped == "before sending" {
				first.at = epoch
			}
			second.at = first.at
			leases := first.leaseDue(t)
			if len(leases) != 1 {
				t.Fatalf("%s: leased %d endpoints, want 1", stopped, len(leases))
			}
			if stopped != "before sending" {
				if _, results := first.sendAll(t, leases[0]); len(results) != 1 || results[0].outcome != Delivered {
					t.Fatalf("%s: results = %+v, want one delivery", stopped, results)
				}
			}
			second.at = first.at.Add(leaseTime - time.Microsecond)
			if n := len(second.leaseDue(t)); n != 0 {
				t.Fatalf("%s: another deliverer leased the endpoint before its lease expired", stopped)
			}
			second.at = first.at.Add(leaseTime)
			again := second.leaseDue(t)
			if len(again) != 1 || again[0].number != leases[0].number+1 {
				t.Fatalf("%s: after the lease expired, leased %d endpoints, want 1 with the next lease number", stopped, len(again))
			}
			if stopped == "before sending" {
				// The second deliverer stops too.
				continue
			}
			serving, results := second.sendAll(t, again[0])
			if err := serving.record(results, true); err != nil {
				t.Fatal(err)
			}
			if len(first.bodies) != 1 || len(second.bodies) != 1 || first.bodies[0] != second.bodies[0] {
				t.Errorf("bodies = %q and %q, want one body each, the same", first.bodies, second.bodies)
			}
			if count(t, d, `webhook_deliveries WHERE status = 'delivered' AND attempts = 1`) != 1 || count(t, d, `webhook_attempts`) != 1 {
				t.Errorf("%s: want one attempt in the log and one delivery with the status delivered", stopped)
			}
		}
	})
}

// A slow deliverer writes nothing after another deliverer has leased the endpoint.
func TestLateDelivererIsFenced(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ring := createDelivery(t, d)
		slow, other := newNode(t, d, ring), newNode(t, d, ring)
		serving, results := slow.sendAll(t, slow.leaseDue(t)[0])
		results[0].verdict.status = DeliveryExhausted
		other.at = epoch.Add(time.Minute)
		if len(other.leaseDue(t)) != 1 {
			t.Fatal("the lease did not expire after a minute")
		}
		err := d.Tx(t.Context(), func(tx *db.Tx) error { return serving.recordTx(t.Context(), tx, results, true, other.at) })
		if !errors.Is(err, errFenced) {
			t.Errorf("recordTx of the late deliverer: error = %v, want errFenced", err)
		}
		if err := serving.record(results, true); err != nil {
			t.Error(err)
		}
		if count(t, d, `webhook_attempts`) != 0 || count(t, d, `webhook_deliveries WHERE status = 'pending'`) != 1 ||
			count(t, d, `webhook_endpoints WHERE leased_until > 0`) != 1 {
			t.Error("the late deliverer recorded an attempt, finished the delivery or ended the new lease, want no change")
		}
	})
}

// No attempt begins so late that it could run longer than the lease.
func TestNoAttemptBeginsLate(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	n := newNode(t, d, createDelivery(t, d))
	l := n.leaseDue(t)[0]
	n.at = n.at.Add(beginTime)
	if _, results := n.sendAll(t, l); len(results) != 0 || n.sent != 0 {
		t.Errorf("%d requests and %d results after beginTime, want 0", n.sent, len(results))
	}
	if beginTime+attemptTime >= leaseTime {
		t.Errorf("beginTime + attemptTime = %v, want less than the lease of %v", beginTime+attemptTime, leaseTime)
	}
}

func TestFreeLeases(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	ring := createDelivery(t, d)
	dead, next := newNode(t, d, ring), newNode(t, d, ring)
	l := dead.leaseDue(t)[0]
	if err := next.hooks.FreeLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := next.leaseDue(t)
	if len(again) != 1 || again[0].number <= l.number {
		t.Errorf("after FreeLeases: leased %+v, want one endpoint with a higher lease number", again)
	}
}

// FreeDeadLeases ends the leases of dead nodes only. A dead node that continues to run records nothing.
func TestLeasesOfDeadNodeAreFreed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ring := createDelivery(t, d)
		dead, next := newNode(t, d, ring), newNode(t, d, ring)
		dead.node, next.node = "dead", "next"
		heartbeat := func(node string, at time.Time) {
			t.Helper()
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				_, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, roles, started_at, heartbeat_at) VALUES ($1, 'web,work', 0, $2)
					ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`, node, db.Micros(at))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		free := func() []*lease {
			t.Helper()
			if err := next.FreeDeadLeases(t.Context()); err != nil {
				t.Fatal(err)
			}
			return next.leaseDue(t)
		}
		heartbeat("dead", epoch)
		l := dead.leaseDue(t)[0]
		serving, results := dead.sendAll(t, l)
		next.at = epoch.Add(job.DeadAfter)
		if again := free(); len(again) != 0 {
			t.Fatal("the lease of a node that is alive was ended")
		}
		next.at = next.at.Add(time.Microsecond)
		again := free()
		if len(again) != 1 || again[0].number <= l.number {
			t.Fatalf("leased %+v after the node died, want one endpoint with a higher lease number", again)
		}
		if err := serving.record(results, true); err != nil || count(t, d, `webhook_attempts`) != 0 {
			t.Errorf("recording by the dead node: error = %v, want nil and no attempts in the log", err)
		}
		// The release of a lease clears leased_by. Earlier versions do not set leased_by when they lease an
		// endpoint. If the name of a dead node remained, FreeDeadLeases would end their leases.
		heartbeat("next", next.at)
		serving, results = next.sendAll(t, again[0])
		if err := serving.record(results, true); err != nil || count(t, d, `webhook_endpoints WHERE leased_by = ''`) != 1 {
			t.Errorf("releasing the lease: error = %v, want nil and an empty leased_by", err)
		}
	})
}

// TestStopEndsLeases checks that Stop ends the leases of its own deliverer only. A lease without a lane
// can exist if the deliverer stops while it commits the lease.
func TestStopEndsLeases(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ring := createDelivery(t, d)
		stopping, next := newNode(t, d, ring), newNode(t, d, ring)
		stopping.node, next.node = "stopping", "next"
		if leases := stopping.leaseDue(t); len(leases) != 1 {
			t.Fatalf("leased %d endpoints, want 1", len(leases))
		}
		next.Stop(t.Context())
		if leases := next.leaseDue(t); len(leases) != 0 {
			t.Fatalf("after Stop of another deliverer: leased %d endpoints, want 0", len(leases))
		}
		stopping.Stop(t.Context())
		if leases := next.leaseDue(t); len(leases) != 1 {
			t.Errorf("after Stop of the deliverer: leased %d endpoints, want 1", len(leases))
		}
	})
}

// brokenResult is a result that changed no row, or that returns an error.
type brokenResult struct{ err error }

func (r brokenResult) LastInsertId() (int64, error) { return 0, r.err }
func (r brokenResult) RowsAffected() (int64, error) { return 0, r.err }

// TestUnknownResultIsNoLostLease checks that checkLease returns errFenced only if no row was changed.
// After errFenced, attempts are dropped without an error.
func TestUnknownResultIsNoLostLease(t *testing.T) {
	t.Parallel()
	failure := errors.New("connection reset")
	if err := checkLease(brokenResult{failure}); !errors.Is(err, failure) || errors.Is(err, errFenced) {
		t.Errorf("checkLease = %v, want the error of the database", err)
	}
	if err := checkLease(brokenResult{}); !errors.Is(err, errFenced) {
		t.Errorf("checkLease of no row = %v, want errFenced", err)
	}
}
