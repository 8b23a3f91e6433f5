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

// maxEmail is the maximum length of an address in code points.
const maxEmail = 255

// Email is an address in two forms: Text is the address as entered, and Folded is for comparisons.
type Email struct {
	Text string
	// Folded has the local part in NFC with its ASCII letters in lower case, and the domain in ASCII
	// (RFC 5891). Two addresses are the same if their folded forms are equal. Mail that verifies an
	// address is sent to the folded form, because the form identifies the account. Letters outside
	// ASCII are not converted to lower case: the lower case of İ is i, so two mailboxes would share one
	// account.
	Folded string
}

var errEmail = errors.New("the address must look like name@example.org")

// ParseEmail parses an address: the addr-spec of RFC 5322, 3.4.1 with the UTF-8 of RFC 6532. It
// refuses display names, comments and quoted local parts. The text of the error is for the person
// who entered the address.
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
	if len(local) > 64 || strings.ContainsFunc(local, isInvisible) || strings.ContainsFunc(domain, func(r rune) bool { return isInvisible(r) && !isJoiner(r) }) {
		return Email{}, errEmail
	}
	ascii, err := idna.Lookup.ToASCII(domain)
	if err != nil || len(ascii) > 253 || !hostName(ascii) {
		return Email{}, errEmail
	}
	return Email{Text: text, Folded: lowerASCII(norm.NFC.String(local)) + "@" + strings.ToLower(ascii)}, nil
}

// lowerASCII converts the ASCII letters of a text to lower case. It does not change other
// characters.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// isInvisible reports whether a character is invisible: white space, control characters, marks that
// change the direction of text, and code points that are not characters. Such characters would make
// two different addresses look the same.
func isInvisible(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// isJoiner reports whether a character is one of the two invisible characters that some scripts need
// within a word. Package idna checks that a domain has them only where RFC 5892, appendix A, allows
// them.
func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// hostName reports whether a domain has at least two labels, each of at most 63 octets (RFC 1035,
// 2.3.4), and is not an IP address: the last label has a character that is not a digit (RFC 3696, 2).
func hostName(ascii string) bool {
	for label := range strings.SplitSeq(ascii, ".") {
		if len(label) > 63 {
			return false
		}
	}
	dot := strings.LastIndexByte(ascii, '.')
	return dot > 0 && strings.Trim(ascii[dot+1:], "0123456789") != ""
}

// CleanText reports whether s is valid UTF-8 and contains no NUL, which PostgreSQL cannot store.
func CleanText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
