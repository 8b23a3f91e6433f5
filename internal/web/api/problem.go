package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// names are the names of the fields in requests. The name of the file is that of the single upload.
var names = map[cert.Field]string{
	cert.FieldTitle: "certificate_title", cert.FieldName: "full_name", cert.FieldEmail: "applicant_email", cert.FieldIssueDate: "issue_date",
	cert.FieldDetails: "details", cert.FieldFile: "certificate_file", cert.FieldReason: "reason", cert.FieldNote: "note",
}

// fileID is the field of the file in an entry of a bulk upload.
const fileID = "file_id"

// entryFields are the fields of an entry of a bulk upload, by their names.
var entryFields = map[string]cert.Field{
	"certificate_title": cert.FieldTitle, "full_name": cert.FieldName, "applicant_email": cert.FieldEmail, "issue_date": cert.FieldIssueDate,
	"details": cert.FieldDetails, fileID: cert.FieldFile,
}

// The rules for the form of a bulk upload's request.
const (
	// codeNotString is a value that is not text.
	codeNotString cert.Code = "not_string"
	// codeNotEntry is a value that should be an entry.
	codeNotEntry cert.Code = "not_entry"
	// codeNotArray is a value that should be the array of entries.
	codeNotArray cert.Code = "not_array"
	// codeBadName is a malformed name that begins like that of a field of an entry.
	codeBadName cert.Code = "bad_name"
	// codeBadIndex is an invalid number of an entry.
	codeBadIndex cert.Code = "bad_index"
)

// wording maps each code to the message of the contract. {field} is the label of the field; {limit}
// and {detail} are those of the problem.
var wording = map[cert.Code]string{
	cert.CodeNotText:         "The {field} field must be text in UTF-8 without NUL characters.",
	cert.CodeRequired:        "The {field} field is required.",
	cert.CodeTooLong:         "The {field} field must not be greater than {limit} characters.",
	cert.CodeNotEmail:        "The {field} field must be a valid email address.",
	cert.CodeNotDate:         "The {field} field must be a date that exists, as YYYY-MM-DD.",
	cert.CodeNotFile:         "The {field} field must be a file.",
	cert.CodeRefusedFile:     "{detail}",
	cert.CodeDuplicate:       "A vault certificate with this email, title, and issue date already exists",
	batch.CodeTooManyEntries: "The {field} field must not have more than {limit} entries.",
	batch.CodeRepeated:       "The {field} field is given more than once.",
	batch.CodeUnknownFile:    "The selected {field} is invalid: upload the file first; it can be referred to for 24 hours.",
	codeNotString:            "The {field} field must be text.",
	codeNotEntry:             "The entry must be an object with its fields.",
	codeNotArray:             "The {field} field must be an array.",
	codeBadName:              "The field must be named entries[<n>][<field>].",
	codeBadIndex:             fmt.Sprintf("The number of an entry must be from 0 to %d, in digits and without leading zeros.", batch.MaxIndex),
}

// say words a problem of a field; name is its name in requests.
func say(name string, p cert.Problem) string {
	return strings.NewReplacer("{field}", strings.ReplaceAll(name, "_", " "), "{limit}", strconv.Itoa(p.Limit), "{detail}", p.Detail).
		Replace(cmp.Or(wording[p.Code], "The {field} field is invalid."))
}

// worded returns an error whose problems have the messages of the contract. Another error is
// returned unchanged.
func worded(err error) error {
	var bad fault.Fields
	if problems, ok := errors.AsType[batch.Problems](err); ok {
		for _, p := range problems {
			name, text := sayEntry(p)
			bad.Add(name, text)
		}
		return bad.Err()
	}
	for _, p := range cert.ProblemsOf(err) {
		name := names[p.Field]
		bad.Add(name, say(name, p))
		if p.Code == cert.CodeDuplicate {
			// The contract adds the existing certificate and uses the plain message.
			bad.Add("existing_uuid", p.Detail)
			return &fault.Error{Kind: fault.Invalid, Message: say(name, p), Fields: bad.List()}
		}
	}
	if bad.Len() > 0 {
		return bad.Err()
	}
	return err
}

// sayEntry returns the name and the message of a problem of a bulk upload.
func sayEntry(p batch.Problem) (name, text string) {
	field := names[p.Field]
	if p.Field == cert.FieldFile {
		field = fileID
	}
	switch {
	case p.Entry == batch.NoEntry && p.Detail != "":
		return p.Detail, say("entries", p.Problem)
	case p.Entry == batch.NoEntry:
		return "entries", say("entries", p.Problem)
	case field == "" && p.Code == batch.CodeRepeated:
		return fmt.Sprintf("entries.%d", p.Entry), "The entry is given more than once."
	case field == "":
		return fmt.Sprintf("entries.%d", p.Entry), say("entry", p.Problem)
	default:
		return fmt.Sprintf("entries.%d.%s", p.Entry, field), say(field, p.Problem)
	}
}

// sayRejection returns the message for a rejected entry. An entry that was rejected before problems
// had codes has its message stored.
func sayRejection(e *batch.Entry) string {
	if e.Problem == nil {
		return e.Error
	}
	text := say(names[e.Problem.Field], *e.Problem)
	if e.Problem.Code == cert.CodeDuplicate {
		text += ": " + e.Problem.Detail
	}
	return text
}

// writeError writes an error with the messages of the contract.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	web.WriteJSONError(w, r, worded(err))
}
