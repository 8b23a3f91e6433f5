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

// node is a deliverer that is not started: the test runs its steps one by one, with its own clock.
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

// sendAll reads and sends the due deliveries of a leased endpoint and returns the results to
// record.
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

// createDelivery creates an institution with one endpoint and one delivery for it.
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

// If a deliverer stops at any point, the next deliverer sends the same delivery again after the
// lease expires, and not before.
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
				t.Errorf("bodies = %q and %q, want the same body twice", first.bodies, second.bodies)
			}
			if count(t, d, `webhook_deliveries WHERE status = 'delivered' AND attempts = 1`) != 1 || count(t, d, `webhook_attempts`) != 1 {
				t.Errorf("%s: the delivery is not recorded exactly once", stopped)
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
			t.Error("the late deliverer recorded an attempt, finished the delivery or ended the new lease")
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
		t.Errorf("%d requests were sent after beginTime, want 0, and no results", n.sent)
	}
	if beginTime+attemptTime >= leaseTime {
		t.Error("an attempt can run longer than its lease")
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

// The endpoints of a dead node can be leased as soon as the node is known to be dead, and the node
// records nothing afterwards. The leases of other nodes stay.
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
			t.Errorf("the dead node recorded its attempts: %v", err)
		}
		// The release of a lease clears leased_by. A node with an earlier version of the software does
		// not set leased_by, and FreeDeadLeases would end its lease if leased_by named a dead node.
		heartbeat("next", next.at)
		serving, results = next.sendAll(t, again[0])
		if err := serving.record(results, true); err != nil || count(t, d, `webhook_endpoints WHERE leased_by = ''`) != 1 {
			t.Errorf("a free endpoint names a node: %v", err)
		}
	})
}

// TestStopEndsLeases checks that a deliverer that stops ends its leases for which it has no lane. It can have
// such a lease if it stops during the commit of the lease. The leases of other deliverers remain.
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
			t.Fatal("a deliverer that stopped ended the lease of another one")
		}
		stopping.Stop(t.Context())
		if leases := next.leaseDue(t); len(leases) != 1 {
			t.Error("the endpoint is not free after the deliverer stopped")
		}
	})
}

// brokenResult is the result of a statement whose response was lost.
type brokenResult struct{ err error }

func (r brokenResult) LastInsertId() (int64, error) { return 0, r.err }
func (r brokenResult) RowsAffected() (int64, error) { return 0, r.err }

// TestUnknownResultIsNoLostLease checks that an error of the database is not mistaken for a lease
// that another deliverer has, which would drop the attempts without an error.
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
