package account

import (
	"slices"
	"strings"
)

// providers has the domains of the most common mail providers: the key is the first label of a
// domain, and the value has the rest of each domain.
var providers = map[string][]string{
	"gmail":      {"com"},
	"googlemail": {"com"},
	"hotmail":    {"com", "co.uk", "de", "es", "fr", "it", "be", "ca", "ch", "nl", "se", "no", "dk", "com.ar", "com.br"},
	"outlook":    {"com", "at", "be", "de", "dk", "es", "fr", "it", "jp", "pt", "sa", "com.ar", "com.au", "com.br", "com.tr"},
	"yahoo": {
		"com", "at", "ca", "de", "dk", "es", "fr", "ie", "in", "it", "no", "pl", "ro", "se",
		"co.id", "co.in", "co.jp", "co.uk", "co.za", "com.ar", "com.au", "com.br", "com.mx", "com.tr",
	},
	"icloud":     {"com"},
	"protonmail": {"com", "ch"},
	"t-online":   {"de"},
	"live":       {"com", "co.uk", "de", "fr", "it", "nl"},
	"msn":        {"com"},
	"aol":        {"com", "de", "fr"},
	"gmx":        {"at", "ch", "com", "de", "net"},
}

// proper has correct domains that look like misspelt ones.
var proper = map[string]bool{"mail.com": true, "email.com": true, "ymail.com": true, "gmx.co.uk": true, "online.de": true}

// misspeltCom has misspellings of com after the name of a provider. Some are top-level domains of
// countries, but none of the providers offers addresses in those domains.
var misspeltCom = map[string]bool{
	"con": true, "cmo": true, "comm": true, "coom": true, "ccom": true, "cpm": true, "vom": true, "xom": true,
	"cim": true, "ocm": true, "om": true, "co": true, "cm": true, "c0m": true, "como": true,
}

// minLabel is the minimum length of a provider's label in which typing mistakes are recognized:
// shorter labels are similar to too many correct labels.
const minLabel = 5

// SuggestedDomain returns the domain that was probably meant in a misspelt address, or "". It
// recognizes one typing mistake in the name of a common mail provider: an extra character, a missing
// character, a wrong character, or two characters in the wrong order. It also recognizes misspellings
// of com after the name.
func SuggestedDomain(e Email) string {
	_, domain, _ := strings.Cut(e.Folded, "@")
	label, ending, found := strings.Cut(domain, ".")
	if !found || proper[domain] {
		return ""
	}
	meant := ending
	if misspeltCom[ending] {
		meant = "com"
	}
	if endings, ok := providers[label]; ok {
		if slices.Contains(endings, ending) || !slices.Contains(endings, meant) {
			return ""
		}
		return label + "." + meant
	}
	// If several domains are equally similar, none is suggested.
	result := ""
	for name, endings := range providers {
		if len(name) < minLabel || !slices.Contains(endings, meant) || !oneTypo(name, label) {
			continue
		}
		if result != "" {
			return ""
		}
		result = name + "." + meant
	}
	return result
}

// oneTypo reports whether one typing mistake turns the first label into the second.
func oneTypo(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a)+len(b) == 1, len(a) == 1 && len(b) == 1:
		return true
	default:
		return len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	}
}
