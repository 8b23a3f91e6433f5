package application

import (
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/template"
)

// The codes of problems of this package, in addition to those of packages cert, template and design.
const (
	// CodeSlug is a text that is not a slug. A slug has lowercase letters, digits and hyphens between them.
	CodeSlug cert.Code = "not_slug"
	// CodeTaken is a slug that another offer of the institution has.
	CodeTaken cert.Code = "taken"
	// CodeRange is a number below 0 or above Limit. The number 0 means the default.
	CodeRange cert.Code = "out_of_range"
	// CodeKey is a text that cannot be the key of a field. A key has lowercase letters, digits and
	// underscores, and is not "answer".
	CodeKey cert.Code = "not_key"
	// CodeSameKey is a key that an earlier field has.
	CodeSameKey cert.Code = "same_key"
	// CodeType is an unknown FieldType.
	CodeType cert.Code = "unknown_type"
	// CodeChoices is a field of type Choice with fewer than 2 or more than Limit choices, or with choices
	// that are equal, empty, too long or not text.
	CodeChoices cert.Code = "wrong_choices"
	// CodeTemplate is a template that the institution does not have.
	CodeTemplate cert.Code = "template_unknown"
	// CodeMember is a reviewer who is not a member of the institution.
	CodeMember cert.Code = "not_member"
	// CodeHoldKind is an unknown HoldKind.
	CodeHoldKind cert.Code = "unknown_hold"
	// CodeField is a field that the offer does not have, or a field of the wrong type.
	CodeField cert.Code = "unknown_field"
	// CodeNumber is a text that is not a number.
	CodeNumber cert.Code = "not_number"
	// CodeChoice is a text that is not one of the choices.
	CodeChoice cert.Code = "not_choice"
	// CodeCheck is a value of a field of type Check that is neither yes nor no.
	CodeCheck cert.Code = "not_check"
	// CodeFiles means that there are more than Limit files.
	CodeFiles cert.Code = "too_many_files"
	// CodeFields is an offer with more than Limit fields.
	CodeFields cert.Code = "too_many_fields"
	// CodeOpen means that there is an open application for the offer and the address. Detail is its UUID.
	CodeOpen cert.Code = "application_open"
	// CodeTooManyOpen means that the person already has Limit open applications.
	CodeTooManyOpen cert.Code = "too_many_open"
	// CodeRows is a register with more than Limit rows. CodeRow is a row with neither a number nor a name;
	// Detail is the number of this row, from 1.
	CodeRows cert.Code = "too_many_rows"
	CodeRow  cert.Code = "empty_row"
)

// FieldOf returns the cert.Field of a problem with the value of an offer's field.
func FieldOf(key string) cert.Field { return cert.Field("fields." + key) }

// FileOf returns the cert.Field of a problem with the files of an offer's field.
func FileOf(key string) cert.Field { return cert.Field("files." + key) }

// ofAnswers returns err. If a problem of err has a column of the template as its field, ofAnswers replaces
// the column with the offer's field that fills it.
func ofAnswers(fields []Field, err error) error {
	problems := cert.ProblemsOf(err)
	if problems == nil {
		return err
	}
	bad := slices.Clone(problems)
	for i := range bad {
		column, ok := strings.CutPrefix(string(bad[i].Field), string(template.ValueField("")))
		if !ok {
			continue
		}
		for j := range fields {
			if fields[j].Column == column {
				bad[i].Field = FieldOf(fields[j].Key)
			}
		}
	}
	return bad.Err()
}

func add(bad *cert.Problems, field cert.Field, code cert.Code, limit int) {
	*bad = append(*bad, cert.Problem{Field: field, Code: code, Limit: limit})
}

// limited returns a text without surrounding space, or "" if the text has a problem. It adds
// the problem to bad.
func limited(bad *cert.Problems, field cert.Field, text string, limit int, required bool) string {
	valid, code := checkText(text, limit)
	switch {
	case code != "":
		add(bad, field, code, limitOf(code, limit))
	case valid == "" && required:
		add(bad, field, cert.CodeRequired, 0)
	}
	return valid
}

func limitOf(code cert.Code, limit int) int {
	if code == cert.CodeTooLong {
		return limit
	}
	return 0
}
