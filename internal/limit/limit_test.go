package limit_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/limit"
)

func TestCounterLimitsEachKeyInItsWindow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := limit.NewCounter(2, func() time.Time { return now })
	for i, want := range []limit.Decision{
		{Limit: 2, Remaining: 1, Allowed: true, RetryAfter: time.Minute},
		{Limit: 2, Remaining: 0, Allowed: true, RetryAfter: 50 * time.Second},
		{Limit: 2, Remaining: 0, Allowed: false, RetryAfter: 40 * time.Second},
	} {
		if got := c.Take("a"); got != want {
			t.Fatalf("request %d: Take = %+v, want %+v", i, got, want)
		}
		now = now.Add(10 * time.Second)
	}
	if !c.Take("b").Allowed {
		t.Fatal("requests of key a were counted for key b")
	}
	now = now.Add(30 * time.Second)
	if !c.Take("a").Allowed {
		t.Fatal("the new window has the counts of the old window")
	}
	unlimited := limit.NewCounter(0, time.Now)
	for range 10_000 {
		if a := unlimited.Take("a"); !a.Allowed || a.Limit != 0 {
			t.Fatal("a request was refused or limited with the limit 0")
		}
	}
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	same := func(a, b string) bool {
		return limit.AddressKey(netip.MustParseAddr(a)) == limit.AddressKey(netip.MustParseAddr(b))
	}
	if !same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") || same("2001:db8:1:2::1", "2001:db8:1:3::1") {
		t.Error("AddressKey is not the /64 network of an IPv6 address")
	}
	if same("192.0.2.1", "192.0.2.2") || !same("192.0.2.1", "::ffff:192.0.2.1") {
		t.Error("AddressKey is not the same for both forms of an IPv4 address")
	}
}
