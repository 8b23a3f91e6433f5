package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/cert"
)

// view is a filter in the form that queries use. Its exported fields identify the list. A cursor is valid
// only for the list for which it was made.
type view struct {
	InstitutionID   int64         `json:"institution"`
	Sources         []cert.Source `json:"sources"`
	Statuses        []cert.Status `json:"statuses"`
	Email           string        `json:"email"`
	Search          string        `json:"search"`
	Title           string        `json:"title,omitempty"`
	BatchID         string        `json:"batch"`
	FailureCode     string        `json:"failure,omitempty"`
	CustomerID      int64         `json:"customer"`
	IssuedFrom      string        `json:"issued_from"`
	IssuedTo        string        `json:"issued_to"`
	GeneratedFrom   int64         `json:"generated_from"` // microseconds, 0 is no bound
	GeneratedBefore int64         `json:"generated_before"`
	Sort            Sort          `json:"sort"`
	Ascending       bool          `json:"ascending"`
	StatusOrder     []cert.Status `json:"status_order"`
	Expired         Expiry        `json:"expired,omitempty"`
	ExpiresFrom     string        `json:"expires_from,omitempty"`
	ExpiresTo       string        `json:"expires_to,omitempty"`
	Replaced        Replaced      `json:"replaced,omitempty"`

	// present has the sources that Service.present returns. It is set only if Sources is empty.
	present       []cert.Source
	today         string
	limit, offset int
	after         *position
	// back is true if the page ends before the position in the field after, and false if the page
	// begins after that position.
	back bool
}

// position is the position of a record in a list. It has the sort key of the record (a text or a
// number), the creation time of the record and its id.
type position struct {
	Text    string `json:"t,omitempty"`
	Number  int64  `json:"n,omitempty"`
	Created int64  `json:"c"`
	ID      int64  `json:"i"`
}

// sortColumns are the columns of the orders. ByStatus has no column, since Filter.StatusOrder sets
// the order.
var sortColumns = map[Sort]string{
	ByCreated: "created_at", ByUpdated: "updated_at", ByGenerated: "generated_at", ByIssueDate: "issue_date", ByName: "name_folded", ByEmail: "email_folded",
}

// ofSources returns the sources of the list.
func (v *view) ofSources() []cert.Source {
	switch {
	case len(v.Sources) > 0:
		return v.Sources
	case len(v.present) > 0:
		return v.present
	default:
		return cert.Sources
	}
}

// ofStatuses returns the listed statuses in the order of ByStatus.
func (v *view) ofStatuses() []cert.Status {
	order := v.StatusOrder
	if len(order) == 0 {
		order = cert.Statuses
	}
	if len(v.Statuses) == 0 {
		return order
	}
	listed := slices.DeleteFunc(slices.Clone(order), func(s cert.Status) bool { return !slices.Contains(v.Statuses, s) })
	for _, s := range v.Statuses {
		if !slices.Contains(listed, s) {
			listed = append(listed, s)
		}
	}
	return listed
}

// textual reports whether the list is sorted by a text column.
func (v *view) textual() bool { return v.Sort == ByName || v.Sort == ByEmail || v.Sort == ByIssueDate }

func (v *view) issued() bool    { return v.IssuedFrom != "" || v.IssuedTo != "" }
func (v *view) generated() bool { return v.GeneratedFrom != 0 }

// filtered reports whether the list has filters other than source and status. The database has no
// counts for such filters.
func (v *view) filtered() bool {
	return v.Email != "" || v.Search != "" || v.Title != "" || v.BatchID != "" || v.FailureCode != "" || v.CustomerID != 0 || v.issued() || v.generated() ||
		v.Expired != AnyExpiry || v.expires() || v.Replaced != AnyReplaced
}

// statement collects the arguments of a query. The parts of the query may be written in any order.
type statement struct{ args []any }

// arg adds an argument and returns its placeholder.
func (q *statement) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// in returns the term that compares a column with the values of a list.
func in[T ~string](q *statement, column string, list []T) string {
	marks := make([]string, len(list))
	for i, value := range list {
		marks[i] = q.arg(string(value))
	}
	if len(marks) == 1 {
		return column + " = " + marks[0]
	}
	return column + " IN (" + strings.Join(marks, ", ") + ")"
}

func (v *view) direction() string {
	if v.Ascending {
		return " ASC"
	}
	return " DESC"
}

// reversed returns the view in the order in which it is queried. If back is true, this is the
// opposite order: the page that ends before a position in the list begins after this position in
// the reversed list.
func (v *view) reversed() *view {
	other := *v
	other.Ascending = v.Ascending != v.back
	return &other
}

// fromStart returns the view of the first page.
func (v *view) fromStart() *view {
	other := *v
	other.after, other.back = nil, false
	return &other
}

// beyond returns the comparison operator that selects records after a position.
func (v *view) beyond() string {
	if v.Ascending {
		return " > "
	}
	return " < "
}

// order returns the ORDER BY clause for columns.
func (v *view) order(columns ...string) string {
	return " ORDER BY " + strings.Join(columns, v.direction()+", ") + v.direction()
}

// key returns the expression that sorts the records of table c.
func (v *view) key(q *statement) string {
	if v.Sort != ByStatus {
		return "c." + sortColumns[v.Sort]
	}
	var b strings.Builder
	b.WriteString("CASE c.status")
	for rank, status := range v.ofStatuses() {
		fmt.Fprintf(&b, " WHEN %s THEN %d", q.arg(string(status)), rank)
	}
	b.WriteString(" END")
	return b.String()
}

// base returns the terms that select the records of table c by institution, source
// and status.
func (v *view) base(q *statement) []string {
	return append([]string{"c.institution_id = " + q.arg(v.InstitutionID)}, v.kinds(q)...)
}

// kinds returns the terms that select by source and status.
func (v *view) kinds(q *statement) []string {
	terms := []string{in(q, "c.source", v.ofSources())}
	if len(v.Statuses) > 0 {
		terms = append(terms, in(q, "c.status", v.Statuses))
	}
	return terms
}

// issuedTerms returns the terms of the range of dates of issue.
func (v *view) issuedTerms(q *statement, column string) []string {
	return dayRange{column, v.IssuedFrom, v.IssuedTo}.terms(q)
}

// generatedTerms returns the terms of the range of times of generation.
func (v *view) generatedTerms(q *statement, column string) (terms []string) {
	if v.GeneratedFrom != 0 {
		terms = append(terms, column+" >= "+q.arg(v.GeneratedFrom))
	}
	if v.GeneratedBefore != 0 {
		terms = append(terms, column+" < "+q.arg(v.GeneratedBefore))
	}
	return terms
}

// filters returns the terms that select the records of table c by the filters.
func (v *view) filters(q *statement) (terms []string) {
	if v.BatchID != "" {
		terms = append(terms, "c.batch_id = "+q.arg(v.BatchID))
	}
	if v.FailureCode != "" {
		terms = append(terms, "c.status = 'failed'", "c.failure_code = "+q.arg(v.FailureCode))
	}
	if v.CustomerID != 0 {
		terms = append(terms, "c.customer_id = "+q.arg(v.CustomerID))
	}
	if v.Email != "" {
		terms = append(terms, "c.email_folded = "+q.arg(v.Email))
	}
	if v.Search != "" {
		terms = append(terms, like("c.search_text", q, v.Search))
	}
	if v.Title != "" {
		// The title in folded form is the second line of search_text. If the title equals the name,
		// search_text has only one line for both.
		line := "\n " + v.Title + "\n"
		terms = append(terms, `(lower(c.title) <> lower(c.full_name)
				AND substr(c.search_text, length(c.name_folded) + 2, `+strconv.Itoa(utf8.RuneCountInString(line))+`) = `+q.arg(line)+`
			OR lower(c.title) = lower(c.full_name) AND c.name_folded = `+q.arg(v.Title)+`)`)
	}
	terms = append(terms, v.issuedTerms(q, "c.issue_date")...)
	terms = append(terms, v.expiryTerms(q)...)
	terms = append(terms, v.replacedTerms()...)
	return append(terms, v.generatedTerms(q, "c.generated_at")...)
}

// afterCursor returns the terms that select the records of table c after the cursor.
func (v *view) afterCursor(q *statement) []string {
	switch {
	case v.after == nil:
		return nil
	case v.Sort == ByCreated:
		return v.afterTime(q)
	default:
		var key any = v.after.Number
		if v.textual() {
			key = v.after.Text
		}
		return []string{"(" + v.key(q) + ", c.created_at, c.id)" + v.beyond() + "(" + q.arg(key) + ", " + q.arg(v.after.Created) + ", " + q.arg(v.after.ID) + ")"}
	}
}

// afterTime returns the terms of afterCursor for the order of creation.
func (v *view) afterTime(q *statement) []string {
	return []string{"(c.created_at, c.id)" + v.beyond() + "(" + q.arg(v.after.Created) + ", " + q.arg(v.after.ID) + ")"}
}

func and(lists ...[]string) string { return strings.Join(slices.Concat(lists...), " AND ") }
