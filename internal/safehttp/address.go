package safehttp

import "net/netip"

// specialNetworks are networks that are not part of the public internet: the entries of the IANA
// special-purpose address registries (RFC 6890) that are not globally reachable, multicast (RFC 5771),
// 6to4, and the public address of a metadata service. The list has no IPv6 networks outside 2000::/3.
// Public converts IPv4-mapped addresses to IPv4, and returns false for all other addresses there, including
// loopback, ULA, link-local, IPv4-compatible, NAT64 (64:ff9b::/96) and multicast.
var specialNetworks = parse(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared, for carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"169.254.0.0/16",   // link-local, and the metadata services of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"168.63.129.16/32", // metadata service of a cloud provider at a public address
	"2001::/23",        // protocol assignments, including Teredo
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which can contain any IPv4 address
	"3fff::/20",        // documentation
)

// globalIPv6 is the range of IPv6 from which public addresses are assigned (RFC 3587, 3).
var globalIPv6 = netip.MustParsePrefix("2000::/3")

func parse(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Public reports whether an address is part of the public internet.
func Public(a netip.Addr) bool {
	a = normalize(a)
	if !a.IsValid() || a.Is6() && !globalIPv6.Contains(a) {
		return false
	}
	return !within(specialNetworks, a)
}

// normalize converts an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) to IPv4 and removes the zone.
func normalize(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
