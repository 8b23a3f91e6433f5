package limit_test

import (
	"fmt"
	"net/netip"
	"slices"
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
		t.Fatal("the first request of key b was refused")
	}
	now = now.Add(30 * time.Second)
	if !c.Take("a").Allowed {
		t.Fatal("the first request of key a in a new window was refused")
	}
	unlimited := limit.NewCounter(0, time.Now)
	for range 10_000 {
		if a := unlimited.Take("a"); !a.Allowed || a.Limit != 0 {
			t.Fatal("with the limit 0, a request was refused or its decision has a limit")
		}
	}
}

// A counter with the maximum number of keys counts new addresses by their wide networks, so that an
// attack from many addresses does not cause all new addresses to be refused.
func TestNewAddressesAreCountedByNetworkBeyondBound(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := limit.NewCounter(5, func() time.Time { return now })
	take := func(text string) bool { return c.Take(limit.AddressKey(netip.MustParseAddr(text))).Allowed }
	take("192.0.2.1")
	// The attacker uses 200,000 /64 networks, which are parts of four /48 networks.
	address := netip.MustParseAddr("2001:db8::1").As16()
	for i := range 200_000 {
		address[5], address[6], address[7] = byte(i>>16), byte(i>>8), byte(i)
		c.Take(limit.AddressKey(netip.AddrFrom16(address)))
	}
	for _, text := range []string{"198.51.100.1", "203.0.113.1", "2a00:1::1", "2a00:2::1"} {
		if !take(text) {
			t.Errorf("%s was refused after many requests of other addresses, want it allowed", text)
		}
	}
	// An address that already has a count is not counted by its network.
	if !take("192.0.2.1") {
		t.Error("an address with a count was refused")
	}
	for _, near := range []string{"198.51.%d.2", "2a00:1:0:%d::1"} {
		refused := 0
		for i := range 10 {
			if !take(fmt.Sprintf(near, i)) {
				refused++
			}
		}
		if refused != 6 {
			t.Errorf("%d of 10 requests from new addresses of a network with one counted request were refused, want 6", refused)
		}
	}
	// When the counter has 2*maxKeys keys, all new wide networks share one count.
	for i := range 200_000 {
		address[3], address[4], address[5] = byte(i>>16), byte(i>>8), byte(i)
		c.Take(limit.AddressKey(netip.AddrFrom16(address)))
	}
	refused := 0
	for i := range 10 {
		if !take(fmt.Sprintf("100.%d.0.1", i)) {
			refused++
		}
	}
	if refused < 9 {
		t.Errorf("%d of 10 requests that share one count were refused, want at least 9", refused)
	}
	now = now.Add(limit.Window)
	if !take("100.1.0.1") {
		t.Error("the first request of an address in the next window was refused")
	}
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	same := func(a, b string) bool {
		return limit.AddressKey(netip.MustParseAddr(a)) == limit.AddressKey(netip.MustParseAddr(b))
	}
	if !same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") || same("2001:db8:1:2::1", "2001:db8:1:3::1") {
		t.Error("AddressKey differs within a /64 network, or is the same for two /64 networks")
	}
	if same("192.0.2.1", "192.0.2.2") || !same("192.0.2.1", "::ffff:192.0.2.1") {
		t.Error("AddressKey is the same for two IPv4 addresses, or differs for the two forms of one IPv4 address")
	}
	for _, a := range []string{"127.0.0.1", "::1", "0.0.0.0"} {
		if limit.AddressKey(netip.Addr{}) == limit.AddressKey(netip.MustParseAddr(a)) {
			t.Errorf("AddressKey of an unknown address equals AddressKey of %s", a)
		}
	}
	if got := limit.Networks(netip.MustParseAddr("2001:db8:1:2ff::1")); !slices.Equal(got, []string{"2001:db8:1:200::/56", "2001:db8:1::/48"}) {
		t.Errorf("Networks of 2001:db8:1:2ff::1 = %v, want its /56 and its /48 network", got)
	}
	if got := limit.Networks(netip.MustParseAddr("::ffff:192.0.2.1")); got != nil {
		t.Errorf("Networks of an IPv4 address = %v, want nil", got)
	}
}

func TestRefusedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	c := limit.NewCounter(2, time.Now)
	for _, key := range []string{"a", "a", "b", "a", "a"} {
		c.Take(key)
	}
	if n := c.Refused(); n != 2 {
		t.Errorf("Refused = %d, want 2", n)
	}
}
