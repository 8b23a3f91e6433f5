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
// {detail} are the limit and the detail of the problem. Messages that depend on the text or on
// other data are in problemMessage and listMessage.
var messages = map[cert.Code]string{
	cert.CodeNotText:             "The {noun} has a character that cannot be stored. Type it again.",
	cert.CodeRequired:            "The {noun} is missing.",
	cert.CodeRefusedFile:         "{detail}",
	cert.CodeDuplicate:           "There is a certificate with this e-mail, title and issue date already.",
	cert.CodeUnchanged:           "This is the address that the certificate has.",
	cert.CodeTooMany:             "At most {limit} certificates can be selected one by one.",
	cert.CodeNotCertificate:      "A selected item is not a certificate.",
	batch.CodeUnknownFile:        "The file is not there any more. Add it again.",
	bulkimport.CodeLostCharacter: "The {noun} has a character that was lost when the list was saved.",
	bulkimport.CodeNoFile:        "No file with the name “{detail}” was uploaded.",
	bulkimport.CodeSameRow:       "It is the same certificate as row {limit}.",
	bulkimport.CodeSkipped:       "It was valid, but it was skipped.",
	bulkimport.CodeNoColumn:      "Choose one of the list's columns.",
	bulkimport.CodeNoDefault:     "This cannot be the same for all rows.",
	bulkimport.CodeNoOrder:       "Choose how dates are written.",
}

// unmapped contains the message for each required meaning, for the case that no column has the
// meaning.
var unmapped = map[sheet.Column]string{
	sheet.Title: "Choose the column with the certificate's title, or write the title that all of them have.",
	sheet.Name:  "Choose the column with the full name, or the two with its parts.",
	sheet.Email: "Choose the column with the e-mail address.",
	sheet.File:  "Choose the column with the name of the file.",
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

// listMessage returns the message for a problem of a text from a list. Dates in a list may have
// more formats than dates in a form.
func listMessage(p bulkimport.Problem, text string) string {
	switch p.Code {
	case cert.CodeNotDate:
		numbers := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-/. ", r) })
		if len(numbers) == 3 && strings.Trim(strings.Join(numbers, ""), "0123456789") == "" {
			return "The day " + sample(text) + " does not exist."
		}
		return "“" + sample(text) + "” is no date. Write it as 30.06.2026 or 2026-06-30."
	case bulkimport.CodeAmbiguousDate:
		return "“" + sample(p.Detail) + "” can be a day of one month or of another. Say under Columns how dates are written, or write this one as YYYY-MM-DD."
	case bulkimport.CodeManyFiles:
		return fmt.Sprintf("%d files have the name “%s”. Write it with its folder: “%s” or “%s”.", p.Limit, sheet.Excerpt(p.Detail, maxDetail), p.Paths[0], p.Paths[1])
	default:
		return problemMessage(p.Problem, text)
	}
}

// rowMessage returns the message for a problem of a row.
func rowMessage(row *bulkimport.Row, p bulkimport.Problem) string {
	if p.Field == cert.FieldFile && p.Code == cert.CodeRequired {
		return "The row names no file."
	}
	text := ""
	if of := p.Field.Of(&row.Text); of != nil {
		text = *of
	}
	return listMessage(p, text)
}

// resultMessage returns the reasons why a row became no certificate or the certificate failed.
// Otherwise it returns "".
func resultMessage(r *bulkimport.Result) string {
	if len(r.Reasons) == 0 {
		return r.Error
	}
	texts := make([]string, len(r.Reasons))
	for i, p := range r.Reasons {
		texts[i] = rowMessage(r.Row, p)
	}
	return strings.Join(texts, " ")
}

// columnMessage returns the message for a problem of the meaning of a column, and the control of
// the form to which the message belongs.
func columnMessage(p bulkimport.Problem, form url.Values) (control, text string) {
	control = string(p.Column)
	switch p.Code {
	case cert.CodeRequired:
		return control, unmapped[p.Column]
	case bulkimport.CodeNoOrder:
		return "dates", problemMessage(p.Problem, "")
	case bulkimport.CodeAmbiguousDate:
		return control, strings.Replace(listMessage(p, ""), "under Columns", "below", 1)
	default:
		return control, listMessage(p, strings.TrimSpace(cmp.Or(form.Get("same_"+control), form.Get(control))))
	}
}

// withMessages replaces the problems in err by messages for people, at the controls of the form. It
// returns an error without problems unchanged.
func withMessages(err error, form url.Values) error {
	var bad fault.Fields
	for _, p := range cert.ProblemsOf(err) {
		control := controlOf[p.Field]
		bad.Add(control, problemMessage(p, form.Get(control)))
	}
	if problems, ok := errors.AsType[bulkimport.Problems](err); ok {
		for _, p := range problems {
			bad.Add(columnMessage(p, form))
		}
	}
	if bad.Len() == 0 {
		return err
	}
	return bad.Err()
}
