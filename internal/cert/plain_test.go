package cert

import (
	"strings"
	"testing"
)

// What is wrong is told without the names of the interface, and told whenever the
// interface would refuse the text.
func TestFieldsTellPeopleWhatIsWrong(t *testing.T) {
	t.Parallel()
	const title, name, email, date, details = 0, 1, 2, 3, 4
	for _, one := range []struct {
		field      int
		text, want string
	}{
		{title, "BSc", ""},
		{title, " ", "The title is missing."},
		{name, "", "The name is missing."},
		{name, "a\x00b", "The name has a character that cannot be kept. Type it anew."},
		{email, "", "The e-mail address is missing."},
		{email, "ada.example.org", "This e-mail address has no @."},
		{email, "ada@", "This is no e-mail address. It must look like name@example.org."},
		{date, "", ""},
		{date, "2026-02-31", "The day 2026-02-31 does not exist."},
		{date, "in June", "“in June” is no date. Write it as 2026-06-30."},
		{details, strings.Repeat("x", 1001), "The text of the details is too long: it has 1001 characters, and can have 1000."},
	} {
		f := &Fields[one.field]
		got := f.Say(one.text)
		if _, problem := f.Check(one.text); got != one.want || (got == "") != (problem == "") {
			t.Errorf("%s %q: %q, want %q; the interface says %q", f.Name, one.text, got, one.want, problem)
		}
	}
}
