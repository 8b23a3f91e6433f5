package cert

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxText    = 255
	maxDetails = 1000
	dateLayout = time.DateOnly
)

// Text is what is said of a certificate beside its file.
type Text struct{ Title, FullName, Email, IssueDate, Details string }

// Field is one of the texts of a certificate, under the name by which the
// interface knows it.
type Field struct {
	Name string
	// Of gives the field's place in a Text.
	Of func(t *Text) *string

	limit    int
	required bool
	// rule looks at text that is not empty and gives what is wrong with it.
	rule func(text string) string
}

// Fields are all texts of a certificate, in the order in which what is wrong
// with them is told.
var Fields = [...]Field{
	{Name: "certificate_title", Of: func(t *Text) *string { return &t.Title }, limit: maxText, required: true},
	{Name: "full_name", Of: func(t *Text) *string { return &t.FullName }, limit: maxText, required: true},
	{Name: "applicant_email", Of: func(t *Text) *string { return &t.Email }, limit: maxText, required: true, rule: emailRule},
	{Name: "issue_date", Of: func(t *Text) *string { return &t.IssueDate }, limit: maxText, rule: dateRule},
	{Name: "details", Of: func(t *Text) *string { return &t.Details }, limit: maxDetails},
}

// Check takes white space off both ends of a text and tells what is wrong with
// what is left, "" where it can be kept. Lengths count code points.
func (f *Field) Check(text string) (kept, problem string) {
	kept = strings.TrimSpace(text)
	switch {
	case !account.CleanText(kept):
		return "", "The " + f.label() + " field must be text in UTF-8 without NUL characters."
	case kept == "" && f.required:
		return "", "The " + f.label() + " field is required."
	case utf8.RuneCountInString(kept) > f.limit:
		return "", f.TooLong()
	case kept != "" && f.rule != nil:
		problem = f.rule(kept)
	}
	return kept, problem
}

// TooLong says that a text has more characters than the field takes.
func (f *Field) TooLong() string {
	return fmt.Sprintf("The %s field must not be greater than %d characters.", f.label(), f.limit)
}

func (f *Field) label() string { return strings.ReplaceAll(f.Name, "_", " ") }

func emailRule(text string) string {
	if _, err := account.ParseEmail(text); err != nil {
		return "The applicant email field must be a valid email address."
	}
	return ""
}

func dateRule(text string) string {
	if at, err := time.Parse(dateLayout, text); err != nil || at.Year() < 1 {
		return "The issue date field must be a date that exists, as YYYY-MM-DD."
	}
	return ""
}

// Today is the date that a certificate without one is issued on.
func Today(now time.Time) string { return now.UTC().Format(dateLayout) }

// read gives a text as it is kept and notes what is wrong with it.
func (f *Field) read(bad *fault.Fields, text string) string {
	kept, problem := f.Check(text)
	if problem != "" {
		bad.Add(f.Name, problem)
	}
	return kept
}

// check gives the texts as they are kept.
func (t *Text) check(bad *fault.Fields, now time.Time) (kept Text) {
	for i := range Fields {
		f := &Fields[i]
		*f.Of(&kept) = f.read(bad, *f.Of(t))
	}
	if kept.IssueDate == "" {
		kept.IssueDate = Today(now)
	}
	return kept
}
