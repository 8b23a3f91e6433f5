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

// clock is a clock that a test sets.
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

func answer(content, body string) *limit.Kept {
	return &limit.Kept{Fingerprint: sha256.Sum256([]byte(content)), Status: 201, Body: []byte(body)}
}

// begin claims a key and fails the test if the key is not free.
func begin(t *testing.T, k *limit.Keys, s limit.Scope) *limit.Claim {
	t.Helper()
	c, kept, err := k.Begin(t.Context(), s)
	if err != nil || kept != nil || c == nil {
		t.Fatalf("the key is not free: %v, %v", kept, err)
	}
	return c
}

func inFlight(t *testing.T, k *limit.Keys, s limit.Scope) {
	t.Helper()
	c, kept, err := k.Begin(t.Context(), s)
	e, ok := errors.AsType[*fault.Error](err)
	if c != nil || kept != nil || !ok || e.Kind != fault.Conflict || e.RetryAfter <= 0 {
		t.Fatalf("not in flight: %v, %v, %v", c, kept, err)
	}
}

func rows(t *testing.T, d *db.DB) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM idempotency_keys`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFirstAnswerIsStoredForADay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		k := limit.NewKeys(d, "node", at.now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), TokenID: 1, Method: "POST", Path: "/a", Key: "key"}
		c := begin(t, k, s)
		inFlight(t, k, s)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error { return c.KeepTx(t.Context(), tx, answer("content", "first")) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context()); err != nil { // as after a commit whose result was lost
			t.Fatal(err)
		}
		at.advance(limit.KeyLife - time.Second)
		_, kept, err := k.Begin(t.Context(), s)
		if err != nil || kept == nil || kept.Status != 201 || string(kept.Body) != "first" || kept.Fingerprint != sha256.Sum256([]byte("content")) {
			t.Fatalf("kept %+v, %v", kept, err)
		}
		at.advance(time.Second)
		c = begin(t, k, s)
		if err := c.Keep(t.Context(), answer("other", "second")); err != nil {
			t.Fatal(err)
		}
		if _, kept, err = k.Begin(t.Context(), s); err != nil || kept == nil || string(kept.Body) != "second" {
			t.Fatalf("kept %+v, %v", kept, err)
		}
	})
}

// The same key in another scope is independent; parts of a scope do not run
// together.
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
		inFlight(t, k, s) // another's claim is not released
		if err := first.Keep(t.Context(), answer("x", "y")); !fault.Is(err, fault.Conflict) {
			t.Fatalf("a lost claim was completed: %v", err)
		}
		if err := second.Keep(t.Context(), answer("x", "y")); err != nil {
			t.Fatal(err)
		}
	})
}

// A transaction whose claim was lost is rolled back.
func TestLostClaimRollsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := newClock()
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		slow := begin(t, limit.NewKeys(d, "slow", at.now), s)
		// The node sent no heartbeat for too long, and another one claimed the
		// key.
		other := begin(t, limit.NewKeys(d, "other", at.now), s)
		err := d.Tx(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('action', 0, 0)`); err != nil {
				return err
			}
			return slow.KeepTx(t.Context(), tx, answer("x", "slow"))
		})
		if !fault.Is(err, fault.Conflict) {
			t.Fatalf("the lost claim was settled: %v", err)
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM nodes WHERE id = 'action'`).Scan(&n); err != nil || n != 0 {
			t.Fatalf("the action was committed, %v", err)
		}
		if err := other.Keep(t.Context(), answer("x", "other")); err != nil {
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
		beat := func() {
			t.Helper()
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				_, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('mine', 0, $1)
					ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`, db.Micros(at.now()))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		beat()
		begin(t, mine, s)
		inFlight(t, other, s)
		at.advance(job.DeadAfter)
		inFlight(t, other, s)
		beat()
		at.advance(job.DeadAfter + time.Second)
		inFlight(t, mine, s) // a process that claims keys is alive
		begin(t, other, s)
	})
}

// A claim that is never completed expires.
func TestUnsettledClaimExpires(t *testing.T) {
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
					t.Errorf("%v, %v", c, err)
				}
			})
		}
		wg.Wait()
		if claimed.Load() != 1 || refused.Load() != 15 {
			t.Fatalf("%d have the key, %d are refused", claimed.Load(), refused.Load())
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
			if err := c.Keep(t.Context(), answer("x", "y")); err != nil {
				t.Fatal(err)
			}
		}
		at.advance(limit.KeyLife / 2)
		c := begin(t, k, limit.Scope{InstitutionID: inst, Key: "later"})
		if err := c.Keep(t.Context(), answer("x", "y")); err != nil {
			t.Fatal(err)
		}
		at.advance(limit.KeyLife / 2)
		if err := k.Sweep(t.Context()); err != nil || rows(t, d) != 1 {
			t.Fatalf("%d rows are left, %v", rows(t, d), err)
		}
	})
}

// A sweep releases a key whose release failed.
func TestSweepReleasesPendingClaims(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		s := limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"}
		c := begin(t, k, s)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Release(gone); err == nil {
			t.Fatal("released with a context that is over")
		}
		inFlight(t, k, s)
		if err := k.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin(t, k, s)
	})
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := limit.NewKeys(d, "node", newClock().now)
		c := begin(t, k, limit.Scope{InstitutionID: institution(t, d, "AAA"), Key: "key"})
		body := bytes.Repeat([]byte{'x'}, limit.MaxAnswer+1)
		if err := c.Keep(t.Context(), &limit.Kept{Body: body}); err == nil {
			t.Fatal("an answer over the limit is stored")
		}
		if err := c.Keep(t.Context(), &limit.Kept{Body: body[1:]}); err != nil {
			t.Fatal(err)
		}
	})
}
