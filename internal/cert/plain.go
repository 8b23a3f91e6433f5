package cert

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
)

// nouns are what people call the fields, in the order of Fields.
var nouns = [len(Fields)]string{"title", "name", "e-mail address", "issue date", "text of the details"}

// Noun is what people call the field.
func (f *Field) Noun() string {
	for i := range Fields {
		if Fields[i].Name == f.Name {
			return nouns[i]
		}
	}
	return f.label()
}

// Say tells a person what Check finds wrong with a text, in words without the names
// of the interface; "" where it finds nothing.
func (f *Field) Say(text string) string {
	if _, problem := f.Check(text); problem == "" {
		return ""
	}
	text = strings.TrimSpace(text)
	length := utf8.RuneCountInString(text)
	switch {
	case !account.CleanText(text):
		return "The " + f.Noun() + " has a character that cannot be kept. Type it anew."
	case text == "":
		return "The " + f.Noun() + " is missing."
	case length > f.limit:
		return fmt.Sprintf("The %s is too long: it has %d characters, and can have %d.", f.Noun(), length, f.limit)
	case f.Name == "applicant_email" && !strings.Contains(text, "@"):
		return "This e-mail address has no @."
	case f.Name == "applicant_email":
		return "This is no e-mail address. It must look like name@example.org."
	case len(text) == len(time.DateOnly) && strings.Trim(text, "0123456789-") == "" && strings.Count(text, "-") == 2:
		return "The day " + text + " does not exist."
	default:
		return "“" + text + "” is no date. Write it as 2026-06-30."
	}
}
