package bulkimport

import (
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// These are the codes of rules for bulk uploads. The rules for certificates have codes of package cert.
const (
	// CodeAmbiguousDate means that the order of day and month in a date is unknown. Detail is the date.
	CodeAmbiguousDate cert.Code = "ambiguous_date"
	// CodeLostCharacter means that a text contains the replacement character U+FFFD, because a
	// character was lost when the list was saved.
	CodeLostCharacter cert.Code = "lost_character"
	// CodeNoFile means that a file name matches no file of the draft. Detail is the name.
	CodeNoFile cert.Code = "no_file"
	// CodeManyFiles means that a file name matches several files. Limit is their number, Detail is
	// the name, and Paths are two of the files.
	CodeManyFiles cert.Code = "many_files"
	// CodeSameRow means that a row would become the same certificate as the row with the number
	// Limit.
	CodeSameRow cert.Code = "same_row"
	// CodeSkipped means that a person skipped a valid row.
	CodeSkipped cert.Code = "left_out"
	// CodeLimit means that a batch exceeded a limit of the institution. Detail is the message of package quota.
	CodeLimit cert.Code = "institution_limit"
	// CodeNoColumn means that a meaning is unknown or that the list has no column for it.
	CodeNoColumn cert.Code = "no_column"
	// CodeNoDefault means that a default is not allowed: rows cannot share a value of this column, or
	// the text is too long, is not valid UTF-8 or contains NUL.
	CodeNoDefault cert.Code = "no_default"
	// CodeNoOrder means that the mapping has an unknown order of day and month.
	CodeNoOrder cert.Code = "no_order"
)

// Problem is a rule that a row or the mapping of the columns breaks.
type Problem struct {
	// Column is "" for a problem that belongs to no column.
	Column sheet.Column
	Paths  []string
	// Row is the number of the row in an error of FixAll, and 0 otherwise.
	Row int

	cert.Problem
}

// Problems is the cause of a fault of kind Invalid.
type Problems []Problem

// Error returns all problems, for logs.
func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = string(problem.Column) + ": " + problem.Error()
	}
	return strings.Join(texts, "; ")
}

// Err returns a fault of kind Invalid, or nil if there are no problems.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, "The input is not valid.", p)
}

// with returns p with one more problem.
func (p Problems) with(column sheet.Column, problem cert.Problem) Problems {
	return append(p, Problem{Column: column, Problem: problem})
}
