package panel

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// controlOf maps the fields of a certificate to the controls of forms.
var controlOf = map[cert.Field]string{
	cert.FieldTitle: "certificate_title", cert.FieldName: "full_name", cert.FieldEmail: "applicant_email", cert.FieldIssueDate: "issue_date",
	cert.FieldDetails: "details", cert.FieldFile: "file", cert.FieldReason: "reason", cert.FieldNote: "note", cert.FieldSelected: "selected",
	cert.FieldExpiresOn: "expires_on",
	cert.FieldNotify:    "notify_at",
}

// fieldKeys are the names of fields in the keys of messages.
var fieldKeys = map[cert.Field]string{
	cert.FieldTitle: "title", cert.FieldName: "name", cert.FieldEmail: "email", cert.FieldIssueDate: "issue_date",
	cert.FieldDetails: "details", cert.FieldFile: "file", cert.FieldReason: "reason", cert.FieldNote: "note",
	cert.FieldExpiresOn: "expires_on",
}

// maxDetail is the maximum number of characters of the detail of a problem in a message.
const maxDetail = 500

// problemMessage returns the message for a problem of a submitted text.
func (t texts) problemMessage(p cert.Problem, text string) string {
	text = strings.TrimSpace(text)
	field := t.of("cert_field." + cmp.Or(fieldKeys[p.Field], "file"))
	switch p.Code {
	case cert.CodeRequired:
		return t.of("cert_problem.required_" + cmp.Or(fieldKeys[p.Field], "file"))
	case cert.CodeTooLong:
		return t.of("cert_problem.too_long", "field", field, "n", t.language.Number(utf8.RuneCountInString(text)), "limit", t.language.Number(p.Limit))
	case cert.CodeNotText:
		return t.of("cert_problem.not_text", "field", field)
	case cert.CodeNotEmail:
		if !strings.Contains(text, "@") {
			return t.of("cert_problem.no_at")
		}
		return t.of("cert_problem.not_email")
	case cert.CodeNotDate:
		if len(text) == len(time.DateOnly) && strings.Trim(text, "0123456789-") == "" && strings.Count(text, "-") == 2 {
			return t.of("cert_problem.no_date_exists", "text", text)
		}
		return t.of("cert_problem.not_date", "text", sample(text))
	case cert.CodeNotAfterIssue:
		return t.of("cert_problem.not_after_issue")
	case cert.CodeTooLate:
		return t.of("cert_problem.too_late", "years", t.language.Number(p.Limit))
	case cert.CodeRefusedFile:
		return t.domain(sheet.Excerpt(p.Detail, maxDetail))
	case cert.CodeTooMany:
		return t.of("cert_problem.too_many", "limit", t.language.Number(p.Limit))
	case cert.CodeNotNotify, cert.CodePastTime, cert.CodeFarTime:
		return t.of("cert_problem." + string(p.Code))
	case cert.CodeDuplicate, cert.CodeUnchanged, cert.CodeSameFile, cert.CodeNotCertificate, batch.CodeUnknownFile:
		return t.of("cert_problem." + string(p.Code))
	default:
		return t.of("cert_problem.invalid", "field", field)
	}
}

// withMessages replaces the problems in err with messages at the controls of the form. It returns err if it
// contains no problems.
func withMessages(t texts, err error, form url.Values) error {
	var bad fault.Fields
	for _, p := range cert.ProblemsOf(err) {
		control := controlOf[p.Field]
		bad.Add(control, t.problemMessage(p, form.Get(control)))
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
