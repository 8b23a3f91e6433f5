package api

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
)

// nameKind is the kind of a field's name.
type nameKind int

const (
	// otherName is the name of a field outside the entries. The field is ignored.
	otherName nameKind = iota
	// entryField is a name entries[n][field], or a name entries[n][field][...] of an unknown field.
	entryField
	// nestedField is a name entries[n][field][...] of a known field, which must be text.
	nestedField
	// wholeEntry is a name entries[n]. It is invalid, because an entry must have fields.
	wholeEntry
	// malformedName is a name that begins like the name of an entry but is malformed.
	malformedName
)

// maxNameShown is the maximum number of bytes of a request's name that a response repeats.
const maxNameShown = 100

// fieldName is the parsed name of a field.
type fieldName struct {
	kind  nameKind
	index int
	field string
	// key is a malformed name as responses show it, and problem is its problem.
	key     string
	problem cert.Code
}

// known returns the field of a certificate that n names, or "" for an unknown field.
func (n *fieldName) known() cert.Field { return entryFields[n.field] }

// text reports whether n is the name of a text field of an entry.
func (n *fieldName) text() bool { return n.kind == entryField && n.known() != "" }

// readName parses a name such as entries[<n>][<field>].
func readName(name string) fieldName {
	rest, ok := strings.CutPrefix(name, "entries")
	if !ok || rest != "" && rest[0] != '[' && rest[0] != '.' {
		return fieldName{}
	}
	if rest == "" {
		return fieldName{kind: malformedName, key: name, problem: codeNotArray}
	}
	keys, ok := brackets(rest)
	if !ok || keys[0] == "" {
		return fieldName{kind: malformedName, key: shorten(name), problem: codeBadName}
	}
	index, ok := readIndex(keys[0])
	switch {
	case !ok:
		return fieldName{kind: malformedName, key: shorten("entries." + strings.Join(keys, ".")), problem: codeBadIndex}
	case len(keys) == 1:
		return fieldName{kind: wholeEntry, index: index}
	case len(keys) == 2:
		return fieldName{kind: entryField, index: index, field: keys[1]}
	case entryFields[keys[1]] != "":
		return fieldName{kind: nestedField, index: index, field: keys[1]}
	default:
		return fieldName{kind: entryField, index: index}
	}
}

// brackets parses a text such as [a][b] into its keys. ok reports whether the text is well-formed.
func brackets(s string) (keys []string, ok bool) {
	for s != "" {
		rest, opened := strings.CutPrefix(s, "[")
		key, after, closed := strings.Cut(rest, "]")
		if !opened || !closed || strings.Contains(key, "[") {
			return nil, false
		}
		keys, s = append(keys, key), after
	}
	return keys, true
}

// readIndex parses the number of an entry, which is at most batch.MaxIndex and has no leading zeros. It
// reports whether the number is valid.
func readIndex(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n <= batch.MaxIndex && strconv.Itoa(n) == s
}

// shorten returns at most the first maxNameShown bytes of a text, without splitting a character. Then it replaces
// invalid UTF-8 with U+FFFD.
func shorten(s string) string {
	if len(s) > maxNameShown {
		n := maxNameShown
		for n > maxNameShown-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
