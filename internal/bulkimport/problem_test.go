package bulkimport_test

import (
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
)

// codeOf returns the text of a problem of a row in tests.
func codeOf(_ *bulkimport.Row, p bulkimport.Problem) string { return p.Error() }

// codesOf returns the texts of the reasons of a result in tests.
func codesOf(r *bulkimport.Result) string {
	if len(r.Reasons) == 0 {
		return r.Error
	}
	texts := make([]string, len(r.Reasons))
	for i, p := range r.Reasons {
		texts[i] = codeOf(r.Row, p)
	}
	return strings.Join(texts, "; ")
}
