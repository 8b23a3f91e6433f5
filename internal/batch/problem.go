package batch

import (
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// These are the codes of rules for batches, in addition to those for certificates. Callers of
// Draft.Refuse and Draft.AddMalformed may use other codes for problems of the input format.
const (
	// CodeTooManyEntries means that a batch has more than MaxEntries entries. Limit is MaxEntries.
	CodeTooManyEntries cert.Code = "too_many_entries"
	// CodeRepeated means that a field or an entry is set more than once.
	CodeRepeated cert.Code = "repeated"
	// CodeUnknownFile means that an id is not that of a staged file of the institution.
	CodeUnknownFile cert.Code = "unknown_file"
)

// NoEntry is the index in a problem that belongs to no entry.
const NoEntry = -1

// Problem is a rule that a batch or one of its entries breaks.
type Problem struct {
	// Entry is the index of the entry, or NoEntry for a problem that belongs to no entry.
	Entry int

	cert.Problem
}

// Problems are the rules that a batch breaks. They are the cause of a fault of kind Invalid.
type Problems []Problem

// Error returns the number of problems and the first problem, for logs.
func (p Problems) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems", len(p))
	switch {
	case len(p) == 0:
	case p[0].Entry == NoEntry:
		fmt.Fprintf(&b, ", the first: %s", p[0].Error())
	default:
		fmt.Fprintf(&b, ", the first in entry %d: %s", p[0].Entry, p[0].Error())
	}
	return b.String()
}

// Err returns a fault of kind Invalid, or nil if there are no problems.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, "The batch is not valid.", p)
}
