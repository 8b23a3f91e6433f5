package account

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// maxEmail is the longest address in code points.
const maxEmail = 255

// Email is an address as it was given and in the form in which two addresses
// are one.
type Email struct {
	Text string
	// Folded has the local part in lower case and the domain in its ASCII form
	// (RFC 5891), so that case and the spelling of the domain do not matter.
	Folded string
}

var errEmail = errors.New("the address must look like name@example.org")

// ParseEmail reads an address: the addr-spec of RFC 5322, 3.4.1 with the UTF-8
// of RFC 6532, and no display name, comment or quoted local part. The error is
// a sentence for the person who typed it.
func ParseEmail(text string) (Email, error) {
	text = strings.TrimSpace(text)
	if utf8.RuneCountInString(text) > maxEmail {
		return Email{}, fmt.Errorf("the address must not have more than %d characters", maxEmail)
	}
	if !CleanText(text) || strings.ContainsAny(text, " \t\r\n\"<>(),;:\\[]") {
		return Email{}, errEmail
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name != "" || a.Address != text {
		return Email{}, errEmail
	}
	at := strings.LastIndexByte(text, '@')
	local, domain := text[:at], text[at+1:]
	if len(local) > 64 || strings.ContainsFunc(local, unseen) || strings.ContainsFunc(domain, func(r rune) bool { return unseen(r) && !joiner(r) }) {
		return Email{}, errEmail
	}
	ascii, err := idna.Lookup.ToASCII(domain)
	if err != nil || len(ascii) > 253 || !hostName(ascii) {
		return Email{}, errEmail
	}
	return Email{Text: text, Folded: strings.ToLower(norm.NFC.String(local)) + "@" + strings.ToLower(ascii)}, nil
}

// unseen tells characters that nobody sees: white space, controls, marks that turn
// the direction of text, and what is no character. Two addresses that look the same
// would be two.
func unseen(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// joiner tells the two unseen characters that some scripts need within a word; in a
// domain they stand only where RFC 5892, appendix A, lets them, which idna checks.
func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// hostName tells whether a domain has more than one label, none over 63 octets
// (RFC 1035, 2.3.4), and a last one that is not a number, by which addresses are
// told from names (RFC 3696, 2).
func hostName(ascii string) bool {
	for label := range strings.SplitSeq(ascii, ".") {
		if len(label) > 63 {
			return false
		}
	}
	dot := strings.LastIndexByte(ascii, '.')
	return dot > 0 && strings.Trim(ascii[dot+1:], "0123456789") != ""
}

// CleanText tells whether text can be stored and shown everywhere: valid UTF-8
// without NUL, which PostgreSQL cannot hold.
func CleanText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
