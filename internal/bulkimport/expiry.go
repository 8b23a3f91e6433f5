package bulkimport

import (
	"slices"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
)

// isDate reports whether the values of a column are dates.
func isDate(column sheet.Column) bool { return column == sheet.IssueDate || column == sheet.ExpiresOn }

// checkExpiry adds a problem if the last day of validity of a row breaks a rule. It does nothing if a
// date of the row has a problem already.
func (r *Row) checkExpiry(today string) {
	if slices.ContainsFunc(r.Problems, func(p Problem) bool { return isDate(p.Column) }) {
		return
	}
	if problem := cert.CheckExpiry(r.Text.IssueDate, r.Text.ExpiresOn, today); problem != nil {
		r.Problems = r.Problems.with(sheet.ExpiresOn, *problem)
	}
}
