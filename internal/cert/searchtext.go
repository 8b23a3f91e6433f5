package cert

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/account"
)

// SearchText is what a search looks in: name, title, e-mail and reference id,
// folded in Go since SQLite folds ASCII alone. Each stands on a line of its
// own, which no search crosses, the name on the first, and after a space, as
// every word does.
func SearchText(c *Certificate, email account.Email) string {
	parts := []string{c.FullName, c.Title, c.Email, email.Folded, c.ReferenceID}
	for i, p := range parts {
		parts[i] = " " + strings.Join(strings.FieldsFunc(FoldText(p), unicode.IsSpace), " ")
	}
	return strings.Join(slices.Compact(parts), "\n") + "\n"
}

// FoldText gives text in the form in which it is compared: composed, without
// case, white space collapsed.
func FoldText(s string) string {
	return strings.Join(strings.Fields(cases.Fold().String(norm.NFC.String(strings.ToValidUTF8(s, "")))), " ")
}
