package account

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
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
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(domain, "."))
	if err != nil || !strings.Contains(ascii, ".") || strings.HasSuffix(domain, ".") || len(ascii) > 253 || len(local) > 64 {
		return Email{}, errEmail
	}
	return Email{Text: text, Folded: strings.ToLower(norm.NFC.String(local)) + "@" + strings.ToLower(ascii)}, nil
}

// CleanText tells whether text can be stored and shown everywhere: valid UTF-8
// without NUL, which PostgreSQL cannot hold.
func CleanText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
