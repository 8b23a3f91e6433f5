package bulkimport

import (
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// The rules of bulk uploads, in addition to those of certificates.
const (
	// CodeAmbiguousDate is a date that has two meanings. Detail is the date.
	CodeAmbiguousDate cert.Code = "ambiguous_date"
	// CodeLostCharacter is a text with a replacement character: a character was lost when the list
	// was saved.
	CodeLostCharacter cert.Code = "lost_character"
	// CodeNoFile is a file name that matches no file of the draft. Detail is the name.
	CodeNoFile cert.Code = "no_file"
	// CodeManyFiles is a file name that matches several files; Limit is their number. Detail is the
	// name, Paths are two of the files.
	CodeManyFiles cert.Code = "many_files"
	// CodeSameRow is a row that would become the same certificate as row Limit.
	CodeSameRow cert.Code = "same_row"
	// CodeLeftOut is a valid row that a person skipped.
	CodeLeftOut cert.Code = "left_out"
	// CodeNoColumn is a meaning that no column of the list has.
	CodeNoColumn cert.Code = "no_column"
	// CodeNoDefault is a text for all rows in a field that must differ between rows.
	CodeNoDefault cert.Code = "no_default"
	// CodeNoOrder is an unknown order of day, month and year.
	CodeNoOrder cert.Code = "no_order"
)

// Problem is a rule that a row, or the meaning of the columns, breaks.
type Problem struct {
	// Column is "" for a problem of another input.
	Column sheet.Column
	Paths  []string

	cert.Problem
}

// Problems are the cause of a fault of kind Invalid.
type Problems []Problem

// Error returns all problems, for logs.
func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, one := range p {
		texts[i] = string(one.Column) + ": " + one.Error()
	}
	return strings.Join(texts, "; ")
}

// Err returns a fault of kind Invalid, or nil without a problem.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, "The input is not valid.", p)
}

// with returns p with another problem.
func (p Problems) with(column sheet.Column, problem cert.Problem) Problems {
	return append(p, Problem{Column: column, Problem: problem})
}
