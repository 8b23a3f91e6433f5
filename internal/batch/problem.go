package batch

import (
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// The rules of batches, in addition to those of certificates. A caller of Draft.Refuse and
// Draft.Stray may use further codes for the form in which it receives entries.
const (
	// CodeTooManyEntries is a batch of more than Limit entries.
	CodeTooManyEntries cert.Code = "too_many_entries"
	// CodeRepeated is a field, or an entry, that is given more than once.
	CodeRepeated cert.Code = "repeated"
	// CodeUnknownFile is an id that is not that of a staged file of the institution.
	CodeUnknownFile cert.Code = "unknown_file"
)

// NoEntry replaces the number of an entry in a problem of the batch as a whole.
const NoEntry = -1

// Problem is a rule that an entry of a batch breaks.
type Problem struct {
	// Entry is the number of the entry, NoEntry for a problem of the batch.
	Entry int

	cert.Problem
}

// Problems are the rules that a batch breaks. They are the cause of a fault of kind
// Invalid.
type Problems []Problem

// Error returns the number of the problems and the first of them, for logs.
func (p Problems) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems", len(p))
	if len(p) > 0 {
		fmt.Fprintf(&b, ", the first in entry %d: %s", p[0].Entry, p[0].Error())
	}
	return b.String()
}

// Err returns a fault of kind Invalid, or nil without a problem.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, "The bulk upload is not valid.", p)
}
