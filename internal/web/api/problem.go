package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web"
)

// names maps fields to their names in requests. The name of the file is the name in a single upload. In
// a bulk upload, the name is fileID.
var names = map[cert.Field]string{
	cert.FieldTitle: "certificate_title", cert.FieldName: "full_name", cert.FieldEmail: "applicant_email", cert.FieldIssueDate: "issue_date",
	cert.FieldDetails: "details", cert.FieldFile: "certificate_file", cert.FieldReason: "reason", cert.FieldNote: "note",
	cert.FieldExpiresOn: "expires_on", cert.FieldNotify: notifyName,
	holdField: "kind",
}

// holdField is the field of the kind of a hold.
const holdField cert.Field = "hold"

// fileID is the field of the file in an entry of a bulk upload.
const fileID = "file_id"

// entryFields maps the names in requests to the fields of an entry of a bulk upload.
var entryFields = map[string]cert.Field{
	"certificate_title": cert.FieldTitle, "full_name": cert.FieldName, "applicant_email": cert.FieldEmail, "issue_date": cert.FieldIssueDate,
	"details": cert.FieldDetails, fileID: cert.FieldFile, "expires_on": cert.FieldExpiresOn,
}

// These are the codes of malformed names and values in requests.
const (
	// codeNotString means that a value is not text.
	codeNotString cert.Code = "not_string"
	// codeNotEntry means that an entry is not an object.
	codeNotEntry cert.Code = "not_entry"
	// codeNotArray means that the value of the field entries is not an array.
	codeNotArray cert.Code = "not_array"
	// codeBadName means that the name of a field begins with "entries" but is malformed.
	codeBadName cert.Code = "bad_name"
	// codeBadIndex means that the number of an entry is invalid.
	codeBadIndex cert.Code = "bad_index"
	// codeNotValues means that the member "values" of an entry is not an object.
	codeNotValues cert.Code = "not_values"
)

// messages maps codes to the messages in responses. {field} is the name of the field, with spaces
// instead of underscores. {limit} and {detail} are values of the problem. problemText has a general message
// for other codes.
var messages = map[cert.Code]string{
	cert.CodeNotText:             "The {field} field must be text in UTF-8 without NUL characters.",
	cert.CodeRequired:            "The {field} field is required.",
	cert.CodeTooLong:             "The {field} field must not be greater than {limit} characters.",
	cert.CodeNotEmail:            "The {field} field must be a valid email address.",
	cert.CodeNotDate:             "The {field} field must be a date that exists, as YYYY-MM-DD.",
	cert.CodeNotAfterIssue:       "The {field} field must be a date after the issue date.",
	cert.CodeTooLate:             "The {field} field must be at most {limit} years after the issue date.",
	cert.CodeNotFile:             "The {field} field must be a file.",
	cert.CodeRefusedFile:         "{detail}",
	cert.CodeDuplicate:           "A vault certificate with this email, title, and issue date already exists",
	cert.CodeSameFile:            "The {field} field must be another file than that of the certificate to replace.",
	batch.CodeTooManyEntries:     "The {field} field must not have more than {limit} entries.",
	batch.CodeRepeated:           "The {field} field is given more than once.",
	batch.CodeUnknownFile:        "The selected {field} is invalid: upload the file first, and refer to it within 24 hours.",
	template.CodeSameEntry:       "The entry would become the same certificate as entry {limit}: it has the same email, title, and issue date.",
	design.CodeMissingCharacters: "{detail}",
	design.CodeNoRoom:            "The {field} field does not fit the template at its smallest size, in the field {detail}.",
	design.CodeValueMissing:      "The template requires the {field} field.",
	design.CodeValueUnknown:      "The template has no value named {detail}.",
	application.CodeHoldKind:     "The {field} field must be information, payment or identity.",
	application.CodeField:        "The offer has no field with this key.",
	application.CodeNumber:       "The {field} field must be a number.",
	application.CodeChoice:       "The {field} field must be one of the choices of the offer.",
	application.CodeCheck:        "The {field} field must be yes or no.",
	application.CodeFiles:        "An application for this offer can have at most {limit} files.",
	application.CodeOpen:         "There is already an open application of this person for this offer.",
	application.CodeTooManyOpen:  "This person has {limit} open applications. Decide one of them first.",
	cert.CodeNotNotify:           "The {field} field must be now, never, or a time as in RFC 3339, such as 2026-07-01T09:00:00Z.",
	cert.CodePastTime:            "The {field} field must be a time in the future.",
	cert.CodeFarTime:             "The {field} field must be a time at most a year ahead.",
	codeNotString:                "The {field} field must be text.",
	codeNotEntry:                 "The entry must be an object with its fields.",
	codeNotArray:                 "The {field} field must be an array.",
	codeNotValues:                "The values field must be an object with texts.",
	codeBadName:                  "The field must be named entries[<n>][<field>].",
	codeBadIndex:                 fmt.Sprintf("The number of an entry must be from 0 to %d, in digits and without leading zeros.", batch.MaxIndex),
}

// problemText returns the message of a problem of a field. name is the name of the field in
// requests.
func problemText(name string, p cert.Problem) string {
	for _, prefix := range []string{valuesPrefix, fieldsPrefix, filesPrefix} {
		name = strings.TrimPrefix(name, prefix)
	}
	if p.Code == design.CodeMissingCharacters {
		p.Detail = design.MissingCharacters(p.Detail)
	}
	return strings.NewReplacer("{field}", strings.ReplaceAll(name, "_", " "), "{limit}", strconv.Itoa(p.Limit), "{detail}", p.Detail).
		Replace(cmp.Or(messages[p.Code], "The {field} field is invalid."))
}

// withMessages returns a fault with the messages of the problems of err. If err has no problems, it
// returns err.
func withMessages(err error) error {
	var bad fault.Fields
	if problems, ok := errors.AsType[batch.Problems](err); ok {
		for _, p := range problems {
			name, text := entryProblemText(p)
			bad.Add(name, text)
		}
		return bad.Err()
	}
	for _, p := range cert.ProblemsOf(err) {
		name := issueName(p.Field)
		bad.Add(name, problemText(name, p))
		if p.Code == cert.CodeDuplicate || p.Code == application.CodeOpen {
			// This response also has the UUID of the existing certificate or application.
			bad.Add("existing_uuid", p.Detail)
			return &fault.Error{Kind: fault.Invalid, Message: problemText(name, p), Fields: bad.List()}
		}
	}
	if bad.Len() > 0 {
		return bad.Err()
	}
	return err
}

// entryProblemText returns the name of the field and the message of a problem of a batch.
func entryProblemText(p batch.Problem) (name, text string) {
	field := issueName(p.Field)
	if p.Field == cert.FieldFile {
		field = fileID
	}
	switch {
	case p.Entry == batch.NoEntry && field != "":
		return field, problemText(field, p.Problem)
	case p.Entry == batch.NoEntry && p.Detail != "":
		return p.Detail, problemText("entries", p.Problem)
	case p.Entry == batch.NoEntry:
		return "entries", problemText("entries", p.Problem)
	case field == "" && p.Code == batch.CodeRepeated:
		return fmt.Sprintf("entries.%d", p.Entry), "The entry is given more than once."
	case field == "":
		return fmt.Sprintf("entries.%d", p.Entry), problemText("entry", p.Problem)
	default:
		return fmt.Sprintf("entries.%d.%s", p.Entry, field), problemText(field, p.Problem)
	}
}

// rejectionText returns the reason why an entry failed or was rejected, or "". If e.Problem is nil,
// the reason is the text in e.Error.
func rejectionText(e *batch.Entry) string {
	if e.Problem == nil {
		return e.Error
	}
	text := problemText(names[e.Problem.Field], *e.Problem)
	if e.Problem.Code == cert.CodeDuplicate {
		text += ": " + e.Problem.Detail
	}
	return text
}

// writeError writes an error as JSON, with the messages of its problems.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	web.WriteJSONError(w, r, withMessages(err))
}
