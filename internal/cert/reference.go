package cert

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"
)

const (
	// crockford is the alphabet of Crockford's base 32: no I, L, O and U.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// codeLen characters of five bits are 80 random bits.
	codeLen = 16
	// minPrefixLen and maxPrefixLen are what an institution's prefix may have.
	minPrefixLen, maxPrefixLen = 2, 10
	// maxTyped bounds a typed reference id in bytes before it is looked at.
	maxTyped = 128
)

// newReference makes a reference id: the institution's prefix, a hyphen and 80
// random bits.
func newReference(prefix string) (string, error) {
	var random [codeLen]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("making a reference id: %w", err)
	}
	for i, b := range random {
		random[i] = crockford[b%32]
	}
	return prefix + "-" + string(random[:]), nil
}

// FoldReference gives a typed reference id in the form in which two are one:
// upper case, without white space, hyphens and characters that nobody sees, O as
// 0, I and L as 1. What cannot be a reference id gives "".
func FoldReference(typed string) string {
	if len(typed) > maxTyped {
		return ""
	}
	var b strings.Builder
	for _, c := range strings.ToUpper(typed) {
		folded, ok := foldCharacter(c)
		if !ok {
			return ""
		}
		if folded != 0 {
			b.WriteByte(folded)
		}
	}
	if b.Len() <= codeLen {
		return ""
	}
	return b.String()
}

// foldCharacter folds one character in upper case; 0 is one that only separates,
// and not ok one that no reference id has.
func foldCharacter(c rune) (folded byte, ok bool) {
	switch {
	case c == 'O':
		return '0', true
	case c == 'I', c == 'L':
		return '1', true
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
		return byte(c), true
	case unicode.IsSpace(c), isHyphen(c), unicode.Is(unicode.Cf, c):
		// Cf is what nobody sees and copying brings along: marks of direction, soft
		// hyphens, zero-width spaces.
		return 0, true
	}
	return 0, false
}

// isHyphen takes what keyboards and word processors make of a hyphen.
func isHyphen(c rune) bool { return unicode.Is(unicode.Pd, c) || c == 0x2212 }
