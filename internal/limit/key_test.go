package limit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/limit"
)

// clock is a clock that the test advances.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Microseconds()) }

func institution(t *testing.T, d *db.DB, prefix string) (id int64) {
	t.Helper()
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $1, $1, $1, 0) RETURNING id`, prefix).Scan(&id)
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func response(content, body string) *limit.StoredResponse {
	return &limit.StoredResponse{Fingerprint: sha256.Sum256([]byte(content)), Status: 201, Body: []byte(body)}
}

// begin claims a key and fails the test if the key is not free.
func begin(t *testing.T, k *limit.Keys, s limit.Scope) *limit.Claim {
	t.Helper()
	c, stored, err := k.Begin(t.Context(), s)
	if err != nil || stored != nil || c == nil {
		t.Fatalf("Begin: stored response = %v, err = %v, want a claim", stored, err)
	}
	return c
}

func expectConflict(t *testing.T, k *limit.Keys, s limit.Scope) {
	t.Helper()
	c, stored, err := k.Begin(t.Context(), s)
	e, ok := errors.AsType[*fault.Error](err)
	if c != nil || stored != nil || !ok || e.Kind != fault.Conflict || e.RetryAfter <= 0 {
		t.Fatalf("Begin: claim = %v, stored response = %v, err = %v, want a Conflict with RetryAfter", c, stored, err)
	}
}

func rows(t *testing.T, d *db.DB) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM idempotency_keys`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFirstResponseIsStoredForADay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		k := limit.NewKeys(d, "node", at.now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), TokenID: 1, Method: "POST", Path: "/a", Key: "key"}
		c := begin(t, k, s)
		expectConflict(t, k, s)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error { return c.StoreTx(t.Context(), tx, response("content", "first")) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context()); err != nil { // a request releases its claim if the response to its commit was lost
			t.Fatal(err)
		}
		at.advance(limit.KeyLifetime - time.Second)
		_, stored, err := k.Begin(t.Context(), s)
		if err != nil || stored == nil || stored.Status != 201 || string(stored.Body) != "first" || stored.Fingerprint != sha256.Sum256([]byte("content")) {
			t.Fatalf("before the response expires: stored response = %+v, err = %v, want the first response", stored, err)
		}
		at.advance(time.Second)
		c = begin(t, k, s)
		if err := c.Store(t.Context(), response("other", "second")); err != nil {
			t.Fatal(err)
		}
		if _, stored, err = k.Begin(t.Context(), s); err != nil || stored == nil || string(stored.Body) != "second" {
			t.Fatalf("after the first response expired: stored response = %+v, err = %v, want the second response", stored, err)
		}
	})
}

// The same key in another scope belongs to another request. Two scopes also differ if only the
// boundaries between their parts differ.
func TestScopesAreIndependent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		a, b := institution(t, d, "AAA"), institution(t, d, "BBB")
		for _, s := range []limit.Scope{
			{a, 1, "POST", "/a", "key"}, {b, 1, "POST", "/a", "key"}, {a, 2, "POST", "/a", "key"}, {a, 1, "PUT", "/a", "key"},
			{a, 1, "POST", "/b", "key"}, {a, 1, "POST", "/a", "Key"}, {a, 1, "POST", "/ak", "ey"}, {a, 1, "POST/", "a", "key"},
		} {
			begin(t, k, s)
		}
	})
}

func TestReleasedKeyIsFree(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		first := begin(t, k, s)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := begin(t, k, s)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectConflict(t, k, s) // the claim of the second request is not released
		if err := first.Store(t.Context(), response("x", "y")); !fault.Is(err, fault.Conflict) {
			t.Fatalf("storing a response with a released claim: err = %v, want Conflict", err)
		}
		if err := second.Store(t.Context(), response("x", "y")); err != nil {
			t.Fatal(err)
		}
	})
}

// The transaction of a request is rolled back if another request has claimed the key.
func TestLostClaimRollsBackTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		slow := begin(t, limit.NewKeys(d, "slow", at.now), s)
		// The node slow has no heartbeat, so another node can claim the key.
		other := begin(t, limit.NewKeys(d, "other", at.now), s)
		err := d.Tx(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('action', 0, 0)`); err != nil {
				return err
			}
			return slow.StoreTx(t.Context(), tx, response("x", "slow"))
		})
		if !fault.Is(err, fault.Conflict) {
			t.Fatalf("storing a response with a lost claim: err = %v, want Conflict", err)
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM nodes WHERE id = 'action'`).Scan(&n); err != nil || n != 0 {
			t.Fatalf("%d rows of the request were committed, want 0; err = %v", n, err)
		}
		if err := other.Store(t.Context(), response("x", "other")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestClaimExpiresWithItsNode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		mine, other := limit.NewKeys(d, "mine", at.now), limit.NewKeys(d, "other", at.now)
		heartbeat := func() {
			t.Helper()
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				_, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, roles, started_at, heartbeat_at) VALUES ('mine', 'web,work', 0, $1)
					ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`, db.Micros(at.now()))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		heartbeat()
		begin(t, mine, s)
		expectConflict(t, other, s)
		at.advance(job.DeadAfter)
		expectConflict(t, other, s)
		heartbeat()
		at.advance(job.DeadAfter + time.Second)
		expectConflict(t, mine, s) // a process takes over its own claims only after they have expired
		begin(t, other, s)
	})
}

func TestClaimExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		k := limit.NewKeys(d, "node", at.now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		begin(t, k, s)
		at.advance(time.Hour)
		begin(t, k, s)
	})
}

func TestConcurrentRequestsGetOneClaim(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		k := limit.NewKeys(d, "node", at.now)
		var claimed, refused atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				c, _, err := k.Begin(t.Context(), s)
				switch {
				case c != nil && err == nil:
					claimed.Add(1)
				case fault.Is(err, fault.Conflict):
					refused.Add(1)
				default:
					t.Errorf("Begin = %v, %v, want a claim or Conflict", c, err)
				}
			})
		}
		wg.Wait()
		if claimed.Load() != 1 || refused.Load() != 15 {
			t.Fatalf("%d requests claimed the key and %d were refused, want 1 and 15", claimed.Load(), refused.Load())
		}
		k.Reused()
		if inProgress, reused := k.Conflicts(); inProgress != 15 || reused != 1 {
			t.Errorf("Conflicts = %d in progress, %d reused, want 15 and 1", inProgress, reused)
		}
	})
}

func TestSweepDeletesExpiredKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		k := limit.NewKeys(d, "node", at.now)
		inst := institution(t, d, "AAA")
		for i := range 3 {
			c := begin(t, k, limit.Scope{InstitutionID: inst, Key: strings.Repeat("k", i+1)})
			if err := c.Store(t.Context(), response("x", "y")); err != nil {
				t.Fatal(err)
			}
		}
		at.advance(limit.KeyLifetime / 2)
		c := begin(t, k, limit.Scope{InstitutionID: inst, Key: "later"})
		if err := c.Store(t.Context(), response("x", "y")); err != nil {
			t.Fatal(err)
		}
		at.advance(limit.KeyLifetime / 2)
		if err := k.Sweep(t.Context()); err != nil || rows(t, d) != 1 {
			t.Fatalf("%d keys remain after the sweep, want 1; err = %v", rows(t, d), err)
		}
	})
}

// A sweep repeats a release that failed.
func TestSweepReleasesPendingClaims(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		c := begin(t, k, s)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Release(canceled); err == nil {
			t.Fatal("Release with a canceled context returned no error")
		}
		expectConflict(t, k, s)
		if err := k.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin(t, k, s)
	})
}

func TestResponseSizeIsLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		c := begin(t, k, limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"})
		body := bytes.Repeat([]byte{'x'}, limit.MaxResponse+1)
		if err := c.Store(t.Context(), &limit.StoredResponse{Body: body}); err == nil {
			t.Fatal("Store accepts MaxResponse+1 bytes, want an error")
		}
		if err := c.Store(t.Context(), &limit.StoredResponse{Body: body[1:]}); err != nil {
			t.Fatal(err)
		}
	})
}
