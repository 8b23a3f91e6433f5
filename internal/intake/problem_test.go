package intake_test

import (
	"strings"

	"github.com/certvault/certvault/internal/intake"
)

// codeOf is how tests word a problem of a row.
func codeOf(_ *intake.Row, p intake.Problem) string { return p.Problem.Error() }

// codesOf is how tests word the reasons of a result.
func codesOf(r *intake.Result) string {
	if len(r.Reasons) == 0 {
		return r.Error
	}
	texts := make([]string, len(r.Reasons))
	for i, p := range r.Reasons {
		texts[i] = codeOf(r.Row, p)
	}
	return strings.Join(texts, "; ")
}
