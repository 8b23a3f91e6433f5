// Package listing owns what all lists of records have in common: pages by
// number with their bounds, and the cursors by which a list is walked without
// one. It knows neither the records nor how they are shown.
package listing

import (
	"fmt"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// DefaultPage is how many records a page has when nobody says.
	DefaultPage = 15
	// MaxPage is how many it can have.
	MaxPage = 100
	// MaxDepth is the last record that can be reached by page number.
	MaxDepth = 100_000
)

// Range says which part of a list is asked for.
type Range struct {
	PerPage int
	// Page counts from 1, where Cursor is nil.
	Page int
	// Cursor walks the list without a bound: empty it starts, then each part
	// gives the cursor of the next.
	Cursor *string
	// Back walks towards the beginning: the part ends before the cursor's place. Where
	// fewer records stand there than a part has, it is the first part of the list.
	Back bool
}

// Check adds what is wrong with the range.
func (r Range) Check(bad *fault.Fields) {
	if r.PerPage < 1 || r.PerPage > MaxPage {
		bad.Add("per_page", fmt.Sprintf("A page has 1 to %d records.", MaxPage))
	}
	switch {
	case r.Walks():
	case r.Page < 1:
		bad.Add("page", "Pages count from 1.")
	case r.Page > MaxDepth || r.Page*r.PerPage > MaxDepth:
		bad.Add("page", fmt.Sprintf("Pages reach the first %d records only. To go on, walk the list with cursor: begin with cursor= and follow links.next.", MaxDepth))
	}
}

// Walks says that the list is walked by cursor.
func (r Range) Walks() bool { return r.Cursor != nil }

// Begun says that there is a place behind which the part begins.
func (r Range) Begun() bool { return r.Cursor != nil && *r.Cursor != "" }

// Returns says that the part ends before a place.
func (r Range) Returns() bool { return r.Back && r.Begun() }

// Offset is how many records stand before the part, which a cursor does not
// tell.
func (r Range) Offset() int {
	if r.Walks() {
		return 0
	}
	return (r.Page - 1) * r.PerPage
}

// Part says what a part of a list is a part of.
type Part struct {
	// Total is nil when there are more than are counted; then there are at
	// least AtLeast. A list that is walked by cursor has neither.
	Total   *int
	AtLeast int
	// More says that something follows, and Next is its cursor; empty at the end.
	More bool
	Next string
	// Prev is the cursor that, walked back, gives the part before; empty at the
	// beginning, and where the list is not walked.
	Prev string
}
