package cert

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"
)

const (
	// crockford is the alphabet of Crockford's base 32, which has no I, L, O or U.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// codeLen is the number of random characters in a reference id. 16 characters of 5 bits are 80 bits.
	codeLen = 16
	// minPrefixLen and maxPrefixLen are the minimum and maximum length of an institution's prefix.
	minPrefixLen, maxPrefixLen = 2, 10
	// maxTyped is the maximum length of a typed reference id: in bytes for FoldReference, and in
	// characters for FindTypo.
	maxTyped = 128
)

// newReference returns a new reference id: the institution's prefix, a hyphen and 80 random bits.
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

// WidestReference returns a text with the length of the institution's reference ids. In nearly every font,
// none of these ids is wider than the text.
func WidestReference(prefix string) string { return prefix + "-" + strings.Repeat("W", codeLen) }

// SampleReference returns a text with the form and the length of an institution's reference ids. It is
// never a reference id, because reference ids have no U after the prefix.
func SampleReference(prefix string) string { return prefix + "-SAMPLENUMBERONLY" }

// FoldReference returns a typed reference id in its canonical form: in upper case, without white space,
// hyphens and invisible characters, and with O replaced by 0, and I and L by 1. It returns "" if the text
// cannot be a reference id.
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

// foldCharacter folds one uppercase character. It returns 0 for a character that FoldReference removes,
// and false for a character that no reference id can contain.
func foldCharacter(c rune) (folded byte, ok bool) {
	switch {
	case c == 'O':
		return '0', true
	case c == 'I', c == 'L':
		return '1', true
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
		return byte(c), true
	case unicode.IsSpace(c), isHyphen(c), unicode.Is(unicode.Cf, c):
		// Cf contains invisible characters that copied text may have: directional marks, soft hyphens
		// and zero-width spaces.
		return 0, true
	}
	return 0, false
}

// isHyphen reports whether c is a hyphen, a dash or a minus sign.
func isHyphen(c rune) bool { return unicode.Is(unicode.Pd, c) || c == 0x2212 }
