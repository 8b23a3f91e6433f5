package web

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// localSuffixes are the top-level domains of names that work only on one machine or in one network
// (RFC 6761, RFC 6762, RFC 8375 and the domain that ICANN has reserved for private use).
var localSuffixes = []string{"localhost", "local", "internal", "test", "invalid", "home.arpa", "lan"}

// sharedAddresses is the network that carriers use behind address translation (RFC 6598).
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// IsLocal reports whether a base URL works only on the machine or in the private network of the
// vault: its host is localhost, a name without a domain, a reserved local name or a private
// address. Certificates with such an address cannot be checked by other people.
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
