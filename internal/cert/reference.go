package cert

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"
)

const (
	// crockford is the alphabet of Crockford's base 32, without I, L, O and U.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// codeLen is the number of characters for 80 random bits, at five bits each.
	codeLen = 16
	// minPrefixLen and maxPrefixLen are the minimum and maximum length of an institution's prefix.
	minPrefixLen, maxPrefixLen = 2, 10
	// maxTyped is the maximum length of a typed reference id: in bytes for FoldReference, and in
	// characters for FindTypo.
	maxTyped = 128
)

// newReference returns a new reference id: the institution's prefix, a hyphen and 80
// random bits.
func newReference(prefix string) (string, error) {
	var random [codeLen]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("creating a reference id: %w", err)
	}
	for i, b := range random {
		random[i] = crockford[b%32]
	}
	return prefix + "-" + string(random[:]), nil
}

// WidestReference returns a text that is as long as the reference ids of an institution, and at least as
// wide as each of them in nearly every font.
func WidestReference(prefix string) string { return prefix + "-" + strings.Repeat("W", codeLen) }

// SampleReference returns a text that looks like a reference id of an institution and is as long, but
// is never one: reference ids have no U after the prefix.
func SampleReference(prefix string) string { return prefix + "-SAMPLENUMBERONLY" }

// FoldReference returns a typed reference id in its canonical form: upper case,
// without white space, hyphens and invisible characters, with O as 0, and I and L as
// 1. It returns "" if the text cannot be a reference id.
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

// foldCharacter folds one upper-case character. It returns 0 for a separator, and false if no
// reference id has the character.
func foldCharacter(c rune) (folded byte, ok bool) {
	switch {
	case c == 'O':
		return '0', true
	case c == 'I', c == 'L':
		return '1', true
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
		return byte(c), true
	case unicode.IsSpace(c), isHyphen(c), unicode.Is(unicode.Cf, c):
		// Cf contains invisible characters that copied text may have: marks of direction, soft
		// hyphens and zero-width spaces.
		return 0, true
	}
	return 0, false
}

// isHyphen reports whether a keyboard or word processor may use a character as a hyphen.
func isHyphen(c rune) bool { return unicode.Is(unicode.Pd, c) || c == 0x2212 }
