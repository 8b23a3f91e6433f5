package panel

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
)

// listMessage returns the message for a problem of a text from a list. Dates have messages of their own,
// because a list may contain dates in several formats.
func (t texts) listMessage(p bulkimport.Problem, text string) string {
	if isTemplateProblem(p.Problem) && p.Code != bulkimport.CodeLostCharacter {
		return t.templateMessage(p.Problem, text)
	}
	switch p.Code {
	case cert.CodeNotDate:
		numbers := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-/. ", r) })
		if len(numbers) == 3 && strings.Trim(strings.Join(numbers, ""), "0123456789") == "" {
			return t.of("bulk_problem.no_date_exists", "text", sample(text))
		}
		return t.of("bulk_problem.not_date", "text", sample(text))
	case bulkimport.CodeAmbiguousDate:
		return t.of("bulk_problem.ambiguous_date", "text", sample(p.Detail))
	case bulkimport.CodeManyFiles:
		return t.of("bulk_problem.many_files", "count", p.Limit, "name", sheet.Excerpt(p.Detail, maxDetail), "first", p.Paths[0], "second", p.Paths[1])
	case bulkimport.CodeNoFile:
		return t.of("bulk_problem.no_file", "name", sheet.Excerpt(p.Detail, maxDetail))
	case bulkimport.CodeLostCharacter:
		return t.of("bulk_problem.lost_character", "field", t.columnLabel(p.Column))
	case bulkimport.CodeSameRow:
		return t.of("bulk_problem.same_row", "row", p.Limit)
	case bulkimport.CodeLimit:
		return t.domain(p.Detail)
	case bulkimport.CodeSkipped, bulkimport.CodeNoColumn, bulkimport.CodeNoDefault, bulkimport.CodeNoOrder:
		return t.of("bulk_problem." + string(p.Code))
	default:
		return t.problemMessage(p.Problem, text)
	}
}

// rowMessage returns the message for a problem of a row.
func (t texts) rowMessage(row *bulkimport.Row, p bulkimport.Problem) string {
	if p.Field == cert.FieldFile && p.Code == cert.CodeRequired {
		return t.of("bulk_problem.missing_file")
	}
	text := ""
	if of := p.Field.Of(&row.Text); of != nil {
		text = *of
	} else if p.Column != "" {
		text = row.Value(p.Column)
	}
	return t.listMessage(p, text)
}

// resultMessage returns the reasons why there is no certificate of a row, or why the certificate failed.
// If there is no reason, it returns "".
func (t texts) resultMessage(r *bulkimport.Result) string {
	if len(r.Reasons) == 0 {
		return t.domain(r.Error)
	}
	list := make([]string, len(r.Reasons))
	for i, p := range r.Reasons {
		list[i] = t.rowMessage(r.Row, p)
	}
	return strings.Join(list, " ")
}

// columnMessage returns the message for a problem of the meaning of a column or of a correction of a row,
// and the name of the control to which the message belongs.
func (t texts) columnMessage(p bulkimport.Problem, form url.Values) (control, text string) {
	control = controlOfColumn(p.Column)
	if p.Row > 0 {
		control = rowControl(p.Row, p.Column)
		return control, t.listMessage(p, form.Get(control))
	}
	switch p.Code {
	case cert.CodeRequired:
		if name, ok := bulkimport.ValueName(p.Column); ok {
			return control, t.of("issue_list.unmapped", "name", name)
		}
		return control, t.of("bulk_problem.unmapped_" + control)
	case bulkimport.CodeNoOrder:
		return "dates", t.listMessage(p, "")
	case bulkimport.CodeAmbiguousDate:
		return control, t.of("bulk_problem.ambiguous_default", "text", sample(p.Detail))
	default:
		return control, t.listMessage(p, strings.TrimSpace(cmp.Or(form.Get("same_"+control), form.Get(control))))
	}
}

// rowControl returns the name of the control for a field of a row in a form with several rows.
func rowControl(number int, column sheet.Column) string {
	return fmt.Sprintf("r%d-%s", number, controlOfColumn(column))
}
