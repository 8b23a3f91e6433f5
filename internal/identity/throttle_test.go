package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// tryOften calls try until it is refused. It returns the number of successful calls and the wait.
func (b *bench) tryOften(o Origin) (tries int, wait time.Duration) {
	b.t.Helper()
	for tries = range 1000 {
		_, err := b.try(b.t.Context(), tryPassword, "ada@example.org", o)
		if err == nil {
			continue
		}
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Kind != fault.TooMany {
			b.t.Fatal(err)
		}
		return tries, e.RetryAfter
	}
	b.t.Fatal("1000 tries were not refused")
	return 0, 0
}

func TestPasswordTriesAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		if tries, wait := b.tryOften(home); tries != 5 || wait != time.Second {
			t.Errorf("first refusal after %d tries with a wait of %s, want 5 and 1s", tries, wait)
		}
		// Each wait is twice as long as the previous one, and a refusal does not extend it.
		for want := 2 * time.Second; want <= 16*time.Second; want *= 2 {
			b.Advance(want / 2)
			if tries, wait := b.tryOften(home); tries != 1 || wait != want {
				t.Errorf("after the wait: refusal after %d tries with a wait of %s, want 1 and %s", tries, wait, want)
			}
		}
		// An attacker can try about 100 passwords a day.
		tries := 0
		for end := b.Now().Add(24 * time.Hour); b.Now().Before(end); tries++ {
			n, wait := b.tryOften(home)
			if n > 1 {
				t.Fatalf("%d tries without a wait, want at most 1", n)
			}
			b.Advance(wait)
		}
		if tries < 90 || tries > 120 {
			t.Errorf("%d tries in a day, want 90 to 120", tries)
		}
		b.Advance(24*time.Hour + time.Second)
		if tries, _ := b.tryOften(home); tries != 5 {
			t.Errorf("after a day without tries: refusal after %d tries, want 5", tries)
		}
	})
}

func TestKnownBrowserIsNotLockedOut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		// Tries come from so many networks that the limit of the account applies.
		var err error
		for i := range 200 {
			if _, err = b.try(ctx, tryPassword, "ada@example.org", from(fmt.Sprintf("198.51.%d.7", i))); fault.Is(err, fault.TooMany) {
				break
			}
		}
		if !fault.Is(err, fault.TooMany) {
			t.Fatal("200 tries from many networks were not refused")
		}
		if _, err := b.SignIn(ctx, address, password, from("203.0.113.9")); !fault.Is(err, fault.TooMany) {
			t.Errorf("signing in from an unknown browser: error = %v, want fault.TooMany", err)
		}
		if _, err := b.SignIn(ctx, address, password, e.with(home)); err != nil {
			t.Errorf("signing in from a known browser: error = %v, want none", err)
		}
		if _, err := b.SignInByLink(ctx, b.link(ToSignIn, address), from("203.0.113.9")); err != nil {
			t.Errorf("signing in by link: error = %v, want none", err)
		}
		// A known browser has a separate limit, and is known only for one account.
		if tries, _ := b.tryOften(e.with(home)); tries != 5 {
			t.Errorf("a known browser is refused after %d tries, want 5", tries)
		}
		if known, err := b.isKnownDevice(ctx, "eve@example.org", e.Device); err != nil || known {
			t.Errorf("isKnownDevice for another account = %v, want false; error %v", known, err)
		}
	})
}

func TestNetworkLimitCoversAllAccounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		refused := 0
		for i := range 150 {
			o := from("192.0.2.1")
			// All addresses of a /64 count as one network.
			o.Address = netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))
			if _, err := b.try(ctx, tryPassword, fmt.Sprintf("p%d@example.org", i), o); fault.Is(err, fault.TooMany) {
				refused++
			}
		}
		if refused != 50 {
			t.Errorf("%d of 150 tries were refused, want 50", refused)
		}
	})
}

// All /64 networks in one /56 or /48 network share a limit.
func TestWideNetworksAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		n := 0
		try := func(address string) error {
			n++
			_, err := b.try(ctx, tryPassword, fmt.Sprintf("p%d@example.org", n), from(address))
			return err
		}
		for _, tc := range []struct {
			network, other string
			free           int
		}{{"2001:db8:1:200::/56", "2001:db8:1:2%02x::1", 200}, {"2001:db8:2::/48", "2001:db8:2:%02x00::1", 500}} {
			if err := try(fmt.Sprintf(tc.other, 1)); err != nil {
				t.Fatal(err)
			}
			if err := d.Tx(ctx, func(tx *db.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE throttles SET tries = $2 WHERE key = $1`, countedOf(tryPassword, rule{}, "network", tc.network).key, tc.free-1)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := try(fmt.Sprintf(tc.other, 2)); err != nil {
				t.Errorf("try %d from %s: error = %v, want none", tc.free, tc.network, err)
			}
			if err := try(fmt.Sprintf(tc.other, 3)); !fault.Is(err, fault.TooMany) {
				t.Errorf("try %d from %s: error = %v, want fault.TooMany", tc.free+1, tc.network, err)
			}
			if err := try("2001:db8:3::1"); err != nil {
				t.Errorf("a try from another network: error = %v, want none", err)
			}
		}
	})
}

func TestConcurrentTriesAreCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		var wg sync.WaitGroup
		errs := make([]error, 40)
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.try(ctx, tryPassword, "ada@example.org", home) })
		}
		wg.Wait()
		allowed := 0
		for _, err := range errs {
			if err == nil {
				allowed++
			} else if !fault.Is(err, fault.TooMany) {
				t.Error(err)
			}
		}
		if allowed != 5 {
			t.Errorf("%d of 40 concurrent tries were allowed, want 5", allowed)
		}
	})
}

func TestSuccessfulTriesDoNotCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		for range 200 {
			resetTries, err := b.try(ctx, tryPassword, "ada@example.org", home)
			if err != nil {
				t.Fatal(err)
			}
			resetTries(ctx)
		}
	})
}

// TestWaitOfAClockThatWasAheadEnds checks that PullBack ends a wait that was set while the clock was a
// year ahead.
func TestWaitOfAClockThatWasAheadEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.Advance(365 * 24 * time.Hour)
		b.tryOften(home)
		b.Advance(-365 * 24 * time.Hour)
		if tries, wait := b.tryOften(home); tries != 0 || wait < 364*24*time.Hour {
			t.Fatalf("refusal after %d tries with a wait of %s, want 0 tries and a wait of a year", tries, wait)
		}
		if n, err := b.PullBack(t.Context()); err != nil || n != 1 {
			t.Fatalf("PullBack ended %d waits, error %v, want 1", n, err)
		}
		if tries, wait := b.tryOften(home); tries != 1 || wait > 15*time.Minute {
			t.Errorf("refusal after %d tries with a wait of %s, want 1 try and a wait of at most 15 minutes", tries, wait)
		}
	})
}
