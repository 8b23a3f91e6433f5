// Package listing owns what all lists of records share: pages by number with their
// limits, and cursors, which have none. It knows neither the records nor how they
// are shown.
package listing

import (
	"fmt"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// DefaultPage is the number of records of a page if the request does not say.
	DefaultPage = 15
	// MaxPage is the largest number of records of a page.
	MaxPage = 100
	// MaxDepth is the last record that a page number reaches. To find a page by its
	// number, the database reads all records before it. A cursor has no such cost.
	MaxDepth = 10_000
)

// Range is the part of a list that a request asks for.
type Range struct {
	PerPage int
	// Page counts from 1. It is used if Cursor is nil.
	Page int
	// Cursor starts a walk through the list if it is empty. Each part has the cursor of
	// the next.
	Cursor *string
	// Back returns the part that ends before the cursor's position. If fewer records
	// than a part has are there, it is the first part of the list.
	Back bool
}

// Check adds the problems of the range to bad.
func (r Range) Check(bad *fault.Fields) {
	if r.PerPage < 1 || r.PerPage > MaxPage {
		bad.Add("per_page", fmt.Sprintf("A page has 1 to %d records.", MaxPage))
	}
	switch {
	case r.Walks():
	case r.Page < 1:
		bad.Add("page", "Pages count from 1.")
	case r.Page > MaxDepth || r.Page*r.PerPage > MaxDepth:
		bad.Add("page", fmt.Sprintf("Pages reach the first %d records. For more, use cursor: start with cursor= and follow links.next.", MaxDepth))
	}
}

// Walks reports whether the range has a cursor.
func (r Range) Walks() bool { return r.Cursor != nil }

// Begun reports whether the cursor has a position.
func (r Range) Begun() bool { return r.Cursor != nil && *r.Cursor != "" }

// Returns reports whether the part ends before a position.
func (r Range) Returns() bool { return r.Back && r.Begun() }

// Offset returns the number of records before the part, which is 0 with a cursor.
func (r Range) Offset() int {
	if r.Walks() {
		return 0
	}
	return (r.Page - 1) * r.PerPage
}

// Part describes the list that a part belongs to.
type Part struct {
	// Total is nil if there are more records than are counted. Then there are at least
	// AtLeast. A list that is read by cursor has neither.
	Total   *int
	AtLeast int
	// More reports whether another part follows. Next is its cursor, empty at the end.
	More bool
	Next string
	// Prev is the cursor of the part before, to be used with Back. It is empty at the
	// beginning and for pages by number.
	Prev string
}
