package cert

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/account"
)

// SearchText returns the searchable text of a certificate: the name, the title, the e-mail address, its
// folded form if that differs, and the reference id. FoldText folds each part, because SQLite folds only
// ASCII. Each part is on its own line, so that no search matches across two parts. The name is on the
// first line. Each line begins with a space, so that every word follows a space.
func SearchText(c *Certificate, email account.Email) string {
	parts := []string{c.FullName, c.Title, c.Email, email.Folded, c.ReferenceID}
	for i, p := range parts {
		parts[i] = " " + strings.Join(strings.FieldsFunc(FoldText(p), unicode.IsSpace), " ")
	}
	return strings.Join(slices.Compact(parts), "\n") + "\n"
}

// FoldText returns a text in the form that is compared: in Unicode normalization form C, with folded case,
// and with each sequence of white space replaced by one space.
func FoldText(s string) string {
	return strings.Join(strings.Fields(cases.Fold().String(norm.NFC.String(strings.ToValidUTF8(s, "")))), " ")
}
