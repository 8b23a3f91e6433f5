package account

import (
	"slices"
	"strings"
)

// providers are the domains that most people's addresses have, by their first
// label, with what comes behind it.
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

// proper are domains that look like a misspelt one and are not.
var proper = map[string]bool{"mail.com": true, "email.com": true, "ymail.com": true, "gmx.co.uk": true, "online.de": true}

// misspeltCom are endings that were meant to be com behind the name of a provider.
// Some are those of countries, under which no provider gives addresses.
var misspeltCom = map[string]bool{
	"con": true, "cmo": true, "comm": true, "coom": true, "ccom": true, "cpm": true, "vom": true, "xom": true,
	"cim": true, "ocm": true, "om": true, "co": true, "cm": true, "c0m": true, "como": true,
}

// minLabel is from which length on a label with one mistake is taken for that of a
// provider: shorter ones are near too many that are right.
const minLabel = 5

// MeantDomain gives the domain that an address seems to have been meant with, ""
// where its own is as likely. It knows the slips of fingers at the domains that most
// people have: one letter too many, too few, another, or two in the wrong order.
func MeantDomain(e Email) string {
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
	// Of several that are as near, none is meant more than another.
	result := ""
	for name, endings := range providers {
		if len(name) < minLabel || !slices.Contains(endings, meant) || !oneSlip(name, label) {
			continue
		}
		if result != "" {
			return ""
		}
		result = name + "." + meant
	}
	return result
}

// oneSlip tells whether one slip of a finger makes the second of the first.
func oneSlip(a, b string) bool {
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
