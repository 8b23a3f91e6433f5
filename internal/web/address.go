package web

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// localSuffixes are domains whose names work only on one machine or in one network. RFC 6761, RFC 6762 and
// RFC 8375 reserve most of them. ICANN has reserved internal for private use. lan is common, but not reserved.
var localSuffixes = []string{"localhost", "local", "internal", "test", "invalid", "home.arpa", "lan"}

// sharedAddresses is the shared address space for carrier-grade NAT (RFC 6598).
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// IsLocal reports whether a base URL works only on the machine or in the private network of the vault.
// The host of such a URL is a name without a dot, a name in one of localSuffixes, or a loopback, private,
// link-local, shared or unspecified IP address. Other people cannot verify certificates with such a URL.
func IsLocal(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified() || sharedAddresses.Contains(a)
	}
	return host != "" && (!strings.Contains(host, ".") ||
		slices.ContainsFunc(localSuffixes, func(s string) bool { return host == s || strings.HasSuffix(host, "."+s) }))
}
