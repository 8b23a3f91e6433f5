package cert

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
)

const (
	maxText    = 255
	maxDetails = 1000
	dateLayout = time.DateOnly
)

// Text has the texts of a certificate.
type Text struct{ Title, FullName, Email, IssueDate, Details, ExpiresOn string }

// Field is an input of an operation on certificates. The API, the panel and other interfaces have their
// own names for fields.
type Field string

// The fields of a certificate, of a revocation and of a selection of certificates.
const (
	FieldTitle     Field = "title"
	FieldName      Field = "name"
	FieldEmail     Field = "email"
	FieldIssueDate Field = "issue_date"
	FieldDetails   Field = "details"
	FieldFile      Field = "file"
	FieldReason    Field = "reason"
	FieldNote      Field = "note"
	FieldSelected  Field = "selected"
	FieldExpiresOn Field = "expires_on"
)

// Fields has the fields of a Text, in the order in which problems are listed.
var Fields = [...]Field{FieldTitle, FieldName, FieldEmail, FieldIssueDate, FieldDetails, FieldExpiresOn}

// rule is the rule for the text of a field.
type rule struct {
	limit    int
	required bool
	// check returns the code of the problem of a text that is not empty, or "" for a valid text.
	check func(text string) Code
}

var rules = map[Field]rule{
	FieldTitle:     {limit: maxText, required: true},
	FieldName:      {limit: maxText, required: true},
	FieldEmail:     {limit: maxText, required: true, check: checkEmail},
	FieldIssueDate: {limit: maxText, check: checkDate},
	FieldDetails:   {limit: maxDetails},
	FieldReason:    {limit: maxDetails, required: true},
	FieldNote:      {limit: maxDetails},
	FieldExpiresOn: {limit: maxText, check: checkDate},
}

// Of returns a pointer to the field in a Text, or nil if a Text does not have the field.
func (f Field) Of(t *Text) *string {
	switch f {
	case FieldTitle:
		return &t.Title
	case FieldName:
		return &t.FullName
	case FieldEmail:
		return &t.Email
	case FieldIssueDate:
		return &t.IssueDate
	case FieldDetails:
		return &t.Details
	case FieldExpiresOn:
		return &t.ExpiresOn
	default:
		return nil
	}
}

// Check returns a valid text without leading and trailing white space. For a text that is not
// valid, it returns "" and the problem. Lengths are in code points.
func (f Field) Check(text string) (valid string, problem *Problem) {
	valid = strings.TrimSpace(text)
	r := rules[f]
	var code Code
	switch {
	case !account.CleanText(valid):
		code = CodeNotText
	case valid == "" && r.required:
		code = CodeRequired
	case utf8.RuneCountInString(valid) > r.limit:
		return "", f.TooLong()
	case valid != "" && r.check != nil:
		code = r.check(valid)
	}
	if code != "" {
		return "", &Problem{Field: f, Code: code}
	}
	return valid, nil
}

// TooLong returns the problem of a text that exceeds the limit of the field.
func (f Field) TooLong() *Problem {
	return &Problem{Field: f, Code: CodeTooLong, Limit: rules[f].limit}
}

func checkEmail(text string) Code {
	if _, err := account.ParseEmail(text); err != nil {
		return CodeNotEmail
	}
	return ""
}

func checkDate(text string) Code {
	if at, err := time.Parse(dateLayout, text); err != nil || at.Year() < 1 {
		return CodeNotDate
	}
	return ""
}

// Today returns the date of now in UTC. An upload without an issue date has this date.
func Today(now time.Time) string { return now.UTC().Format(dateLayout) }

// read returns a valid text in its stored form. For a text that is not valid, it returns "" and
// adds the problem to bad.
func (f Field) read(bad *Problems, text string) string {
	valid, problem := f.Check(text)
	if problem != nil {
		*bad = append(*bad, *problem)
	}
	return valid
}

// check returns the texts in their stored form, and adds their problems to bad. An empty issue date
// becomes the current day.
func (t *Text) check(bad *Problems, now time.Time) (valid Text) {
	for _, f := range Fields {
		*f.Of(&valid) = f.read(bad, *f.Of(t))
	}
	issued := valid.IssueDate != "" || strings.TrimSpace(t.IssueDate) == ""
	if valid.IssueDate == "" {
		valid.IssueDate = Today(now)
	}
	if problem := CheckExpiry(valid.IssueDate, valid.ExpiresOn, ""); problem != nil && issued {
		*bad = append(*bad, *problem)
	}
	return valid
}
