package panel

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// controlOf maps the fields of a certificate to the controls of forms. nouns maps the fields to
// their names in messages.
var (
	controlOf = map[cert.Field]string{
		cert.FieldTitle: "certificate_title", cert.FieldName: "full_name", cert.FieldEmail: "applicant_email", cert.FieldIssueDate: "issue_date",
		cert.FieldDetails: "details", cert.FieldFile: "file", cert.FieldReason: "reason", cert.FieldNote: "note", cert.FieldSelected: "selected",
	}
	nouns = map[cert.Field]string{
		cert.FieldTitle: "title", cert.FieldName: "name", cert.FieldEmail: "e-mail address", cert.FieldIssueDate: "issue date",
		cert.FieldDetails: "text of the details", cert.FieldFile: "file", cert.FieldReason: "reason", cert.FieldNote: "note",
	}
)

// messages maps a code to the message for people. {noun} is the name of the field, {limit} and
// {detail} are the limit and the detail of the problem. Messages that depend on the text are in
// problemMessage. Those of bulk uploads are in bulkproblem.go.
var messages = map[cert.Code]string{
	cert.CodeNotText:        "The {noun} has a character that cannot be stored. Type it again.",
	cert.CodeRequired:       "The {noun} is missing.",
	cert.CodeRefusedFile:    "{detail}",
	cert.CodeDuplicate:      "There is a certificate with this e-mail, title and issue date already.",
	cert.CodeUnchanged:      "This is the address that the certificate has.",
	cert.CodeTooMany:        "At most {limit} certificates can be selected one by one.",
	cert.CodeNotCertificate: "A selected item is not a certificate.",
	batch.CodeUnknownFile:   "The file is not there any more. Add it again.",
}

// maxDetail is the maximum number of characters of the detail in a message, such as a file's path.
const maxDetail = 500

// problemMessage returns the message for a problem of a text.
func problemMessage(p cert.Problem, text string) string {
	text = strings.TrimSpace(text)
	switch p.Code {
	case cert.CodeTooLong:
		return fmt.Sprintf("The %s is too long: it has %d characters, and can have %d.", nouns[p.Field], utf8.RuneCountInString(text), p.Limit)
	case cert.CodeNotEmail:
		if !strings.Contains(text, "@") {
			return "This e-mail address has no @."
		}
		return "This is no e-mail address. It must look like name@example.org."
	case cert.CodeNotDate:
		if len(text) == len(time.DateOnly) && strings.Trim(text, "0123456789-") == "" && strings.Count(text, "-") == 2 {
			return "The day " + text + " does not exist."
		}
		return "“" + sample(text) + "” is no date. Write it as 2026-06-30."
	default:
		return strings.NewReplacer("{noun}", nouns[p.Field], "{limit}", strconv.Itoa(p.Limit), "{detail}", sheet.Excerpt(p.Detail, maxDetail)).
			Replace(cmp.Or(messages[p.Code], "The {noun} is not right."))
	}
}

// withMessages replaces the problems in err by messages for people, at the controls of the form. It
// returns an error without problems unchanged.
func withMessages(t texts, err error, form url.Values) error {
	var bad fault.Fields
	for _, p := range cert.ProblemsOf(err) {
		control := controlOf[p.Field]
		bad.Add(control, problemMessage(p, form.Get(control)))
	}
	if problems, ok := errors.AsType[bulkimport.Problems](err); ok {
		for _, p := range problems {
			bad.Add(t.columnMessage(p, form))
		}
	}
	if bad.Len() == 0 {
		return err
	}
	return bad.Err()
}
