package panel

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
)

// TestProblemMessages checks the messages of problems. The messages contain no field names of the
// API.
func TestProblemMessages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field      cert.Field
		text, want string
	}{
		{cert.FieldTitle, "BSc", ""},
		{cert.FieldTitle, " ", "The title is missing."},
		{cert.FieldName, "", "The name is missing."},
		{cert.FieldName, "a\x00b", "Name: one character cannot be stored. Type the text again."},
		{cert.FieldEmail, "", "The e-mail address is missing."},
		{cert.FieldEmail, "ada.example.org", "This e-mail address has no @."},
		{cert.FieldEmail, "ada@", "This is not an e-mail address. It must look like name@example.org."},
		{cert.FieldIssueDate, "", ""},
		{cert.FieldIssueDate, "2026-02-31", "The date 2026-02-31 does not exist. Enter another date."},
		{cert.FieldIssueDate, "in June", "“in June” is not a date. Write it as 2026-06-30."},
		{cert.FieldDetails, strings.Repeat("x", 1001), "Details: this text is too long. It has 1,001 characters. The limit is 1,000."},
		{cert.FieldReason, "", "The reason is missing."},
	} {
		got := ""
		if _, problem := tc.field.Check(tc.text); problem != nil {
			got = english(t).problemMessage(*problem, tc.text)
		}
		if got != tc.want {
			t.Errorf("%s %q: message = %q, want %q", tc.field, tc.text, got, tc.want)
		}
	}
}
