// Package listing implements the parts that all lists of records share: pages by number, which have
// a limit, and cursors, which have no limit. It does not depend on the records or on their
// presentation.
package listing

import (
	"fmt"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// DefaultPage is the number of records of a page if the request does not specify a number.
	DefaultPage = 15
	// MaxPage is the largest number of records of a page.
	MaxPage = 100
	// MaxDepth is the position of the last record that a page by number can contain. To find a page
	// by its number, the database reads all records before the page. With a cursor, it does not read
	// them.
	MaxDepth = 10_000
)

// Range is the part of a list that a request selects.
type Range struct {
	PerPage int
	// Page counts from 1. It is used if Cursor is nil.
	Page int
	// Cursor is the position after which the part begins, or nil for a page by number. The empty
	// cursor selects the first part.
	Cursor *string
	// Back selects the part that ends before the position of the cursor. If fewer than PerPage
	// records are before the position, the range is the first part of the list.
	Back bool
}

// Check adds the problems of the range to bad.
func (r Range) Check(bad *fault.Fields) {
	if r.PerPage < 1 || r.PerPage > MaxPage {
		bad.Add("per_page", fmt.Sprintf("A page has 1 to %d records.", MaxPage))
	}
	switch {
	case r.HasCursor():
	case r.Page < 1:
		bad.Add("page", "Pages count from 1.")
	case r.Page > MaxDepth || r.Page*r.PerPage > MaxDepth:
		bad.Add("page", fmt.Sprintf("Pages reach the first %d records. For more, use cursor: start with cursor= and follow links.next.", MaxDepth))
	}
}

// HasCursor reports whether the range has a cursor.
func (r Range) HasCursor() bool { return r.Cursor != nil }

// HasPosition reports whether the range has a cursor with a position.
func (r Range) HasPosition() bool { return r.Cursor != nil && *r.Cursor != "" }

// IsBackward reports whether the range selects the part that ends before the position of the
// cursor.
func (r Range) IsBackward() bool { return r.Back && r.HasPosition() }

// Offset returns the number of records before the page. It returns 0 if the range has a cursor.
func (r Range) Offset() int {
	if r.HasCursor() {
		return 0
	}
	return (r.Page - 1) * r.PerPage
}

// Part describes one part of a list.
type Part struct {
	// Total is the number of records of the list. If the list is too long to be counted, Total is nil
	// and the list has at least AtLeast records. A part that was selected by a cursor has neither
	// number.
	Total   *int
	AtLeast int
	// More reports whether another part follows. Next is the cursor of the next part, or "" at the end.
	More bool
	Next string
	// Prev is the cursor of the previous part, for use with Back. It is "" at the beginning and for
	// pages by number.
	Prev string
}
