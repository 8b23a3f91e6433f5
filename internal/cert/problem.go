package cert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/fault"
)

// Code identifies the rule that an input breaks. The API and the pages have their own messages for the codes.
type Code string

const (
	// CodeNotText is a value that is not UTF-8, or contains a NUL character.
	CodeNotText Code = "not_text"
	// CodeRequired is a field without a value.
	CodeRequired Code = "required"
	// CodeTooLong is a text of more than Limit code points.
	CodeTooLong Code = "too_long"
	// CodeNotEmail is a text that is not an e-mail address.
	CodeNotEmail Code = "not_email"
	// CodeNotDate is a text that is not an existing date in the form YYYY-MM-DD.
	CodeNotDate Code = "not_date"
	// CodeNotAfterIssue is a last day of validity that is not after the issue date.
	CodeNotAfterIssue Code = "not_after_issue"
	// CodeTooLate is a last day of validity that is more than Limit years after the issue date.
	CodeTooLate Code = "too_late"
	// CodeNotFile is a text in a field that must be a file.
	CodeNotFile Code = "not_file"
	// CodeRefusedFile is a file that can never be sealed. Detail is the Reason of the seal.Refusal.
	// Limit is MaxFile if the file is too large.
	CodeRefusedFile Code = "refused_file"
	// CodeDuplicate is a certificate with the address, title and issue date of another certificate.
	// Detail is the UUID of that certificate, or "" if it is not known.
	CodeDuplicate Code = "duplicate"
	// CodeUnchanged is a new value that equals the old one.
	CodeUnchanged Code = "unchanged"
	// CodeSameFile is a replacement with the file of the certificate that it replaces.
	CodeSameFile Code = "same_file"
	// CodeTooMany is a selection of more than Limit certificates.
	CodeTooMany Code = "too_many"
	// CodeNotCertificate is a selection with an id that belongs to no certificate.
	CodeNotCertificate Code = "not_certificate"
)

// Problem describes one rule that an input breaks.
type Problem struct {
	// Field is "" for a problem of the input as a whole.
	Field Field `json:"field,omitempty"`
	Code  Code  `json:"code"`
	// Limit is the bound that the input exceeds, or another number that the code defines. It is 0 for codes
	// without a number.
	Limit int `json:"limit,omitempty"`
	// Detail depends on the code.
	Detail string `json:"detail,omitempty"`
}

// Error returns the field and the code, for logs.
func (p Problem) Error() string {
	text := string(p.Code)
	if p.Field != "" {
		text = string(p.Field) + ": " + text
	}
	if p.Limit != 0 {
		text += fmt.Sprintf(" (limit %d)", p.Limit)
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

// Problems lists the rules that an input breaks, in the order of its fields. It is the cause of a
// fault of kind Invalid.
type Problems []Problem

// Error returns all problems, for logs.
func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Error()
	}
	return strings.Join(texts, "; ")
}

// Err returns a fault of kind Invalid with the problems as its cause, or nil if there is no
// problem.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, "The input is not valid.", p)
}

// ProblemsOf returns the problems in the chain of an error, or nil.
func ProblemsOf(err error) Problems {
	p, _ := errors.AsType[Problems](err)
	return p
}
