package panel

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
)

// TestProblemsForPeople checks the messages of problems that depend on the text, and that they
// contain no wire names.
func TestProblemsForPeople(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		field      cert.Field
		text, want string
	}{
		{cert.FieldTitle, "BSc", ""},
		{cert.FieldTitle, " ", "The title is missing."},
		{cert.FieldName, "", "The name is missing."},
		{cert.FieldName, "a\x00b", "The name has a character that cannot be kept. Type it anew."},
		{cert.FieldEmail, "", "The e-mail address is missing."},
		{cert.FieldEmail, "ada.example.org", "This e-mail address has no @."},
		{cert.FieldEmail, "ada@", "This is no e-mail address. It must look like name@example.org."},
		{cert.FieldIssueDate, "", ""},
		{cert.FieldIssueDate, "2026-02-31", "The day 2026-02-31 does not exist."},
		{cert.FieldIssueDate, "in June", "“in June” is no date. Write it as 2026-06-30."},
		{cert.FieldDetails, strings.Repeat("x", 1001), "The text of the details is too long: it has 1001 characters, and can have 1000."},
		{cert.FieldReason, "", "The reason is missing."},
	} {
		got := ""
		if _, problem := one.field.Check(one.text); problem != nil {
			got = say(*problem, one.text)
		}
		if got != one.want {
			t.Errorf("%s %q: %q, want %q", one.field, one.text, got, one.want)
		}
	}
}
