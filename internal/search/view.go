package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/cert"
)

// view is a filter in the form in which it is asked for. Its exported fields
// say which list it is, and a cursor holds for that list alone.
type view struct {
	InstitutionID   int64         `json:"institution"`
	Sources         []cert.Source `json:"sources"`
	Statuses        []cert.Status `json:"statuses"`
	Email           string        `json:"email"`
	Search          string        `json:"search"`
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

	limit, offset int
	after         *place
	// back says that the part ends before that place in place of beginning behind it.
	back bool
	// few says that the institution has no more records of these sources and
	// statuses than can all be looked at, most that nearly all of all
	// institutions' records are its.
	few, most bool
	// own is how many records the institution has, size how many of the sources
	// and statuses, and all about how many there are of all institutions.
	own, size, all int
	// merges says that the database, as it merges arms by the indexes of their order,
	// reads each no further than is asked for of all. SQLite does, unless an arm has
	// one key; with a bound of its own an arm is sorted once more.
	merges bool
	// common says that what is sought is in very many of the institution's
	// records.
	common bool
}

// place is where a record stands in a list: what it is sorted by, a text or a
// number, then its creation and its id.
type place struct {
	Text    string `json:"t,omitempty"`
	Number  int64  `json:"n,omitempty"`
	Created int64  `json:"c"`
	ID      int64  `json:"i"`
}

// sources are what a certificate can come from.
var sources = []cert.Source{cert.Vault}

// sortColumns are the columns that give a record its place. The status has
// none: its order is the filter's.
var sortColumns = map[Sort]string{
	ByCreated: "created_at", ByUpdated: "updated_at", ByGenerated: "generated_at", ByIssueDate: "issue_date", ByName: "name_folded", ByEmail: "email_folded",
}

func (v *view) ofSources() []cert.Source {
	if len(v.Sources) == 0 {
		return sources
	}
	return v.Sources
}

// ofStatuses are the statuses listed, in the order in which ByStatus has them.
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

// textual says that the list is sorted by a text.
func (v *view) textual() bool { return v.Sort == ByName || v.Sort == ByEmail || v.Sort == ByIssueDate }

func (v *view) issued() bool    { return v.IssuedFrom != "" || v.IssuedTo != "" }
func (v *view) generated() bool { return v.GeneratedFrom != 0 }

// narrowed says that the list is by more than source and status, of which the
// counts are kept.
func (v *view) narrowed() bool {
	return v.Email != "" || v.Search != "" || v.BatchID != "" || v.FailureCode != "" || v.CustomerID != 0 || v.issued() || v.generated()
}

// failed says that the list is of what is failed for a reason, and that no
// status but that is asked for.
func (v *view) failed() bool {
	return v.FailureCode != "" && (len(v.Statuses) == 0 || slices.Equal(v.Statuses, []cert.Status{cert.Failed}))
}

// statement is SQL with its arguments, which may be written in any order.
type statement struct{ args []any }

// arg adds an argument and gives its placeholder.
func (q *statement) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// in compares a column with one of a list.
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

// turned gives the view in the order in which it is asked for: a part that ends
// before a place is the one behind it in the list turned around.
func (v *view) turned() *view {
	other := *v
	other.Ascending = v.Ascending != v.back
	return &other
}

// begun gives the view of the first part.
func (v *view) begun() *view {
	other := *v
	other.after, other.back = nil, false
	return &other
}

// beyond compares what stands behind a place in the order of the list.
func (v *view) beyond() string {
	if v.Ascending {
		return " > "
	}
	return " < "
}

// order is ORDER BY over the columns that give a place.
func (v *view) order(columns ...string) string {
	return " ORDER BY " + strings.Join(columns, v.direction()+", ") + v.direction()
}

// key is what a record of table c is sorted by.
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

// base selects the records of table c that belong to the institution and to
// the sources and statuses asked for.
func (v *view) base(q *statement) []string {
	return append([]string{"c.institution_id = " + q.arg(v.InstitutionID)}, v.kinds(q)...)
}

// kinds selects by source and status alone.
func (v *view) kinds(q *statement) []string {
	terms := []string{in(q, "c.source", v.ofSources())}
	if len(v.Statuses) > 0 {
		terms = append(terms, in(q, "c.status", v.Statuses))
	}
	return terms
}

// issuedTerms and generatedTerms select between two bounds, either of which may
// be missing.
func (v *view) issuedTerms(q *statement, column string) (terms []string) {
	if v.IssuedFrom != "" {
		terms = append(terms, column+" >= "+q.arg(v.IssuedFrom))
	}
	if v.IssuedTo != "" {
		terms = append(terms, column+" <= "+q.arg(v.IssuedTo))
	}
	return terms
}

func (v *view) generatedTerms(q *statement, column string) (terms []string) {
	if v.GeneratedFrom != 0 {
		terms = append(terms, column+" >= "+q.arg(v.GeneratedFrom))
	}
	if v.GeneratedBefore != 0 {
		terms = append(terms, column+" < "+q.arg(v.GeneratedBefore))
	}
	return terms
}

// filters selects the records of table c that the filters let through.
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
	terms = append(terms, v.issuedTerms(q, "c.issue_date")...)
	return append(terms, v.generatedTerms(q, "c.generated_at")...)
}

// behind selects the records of table c that stand behind the cursor's place.
func (v *view) behind(q *statement) []string {
	switch {
	case v.after == nil:
		return nil
	case v.Sort == ByCreated:
		return v.behindTime(q)
	default:
		var key any = v.after.Number
		if v.textual() {
			key = v.after.Text
		}
		return []string{"(" + v.key(q) + ", c.created_at, c.id)" + v.beyond() + "(" + q.arg(key) + ", " + q.arg(v.after.Created) + ", " + q.arg(v.after.ID) + ")"}
	}
}

// behindTime is behind where nothing goes before the creation.
func (v *view) behindTime(q *statement) []string {
	return []string{"(c.created_at, c.id)" + v.beyond() + "(" + q.arg(v.after.Created) + ", " + q.arg(v.after.ID) + ")"}
}

func nothing(*statement) []string { return nil }

func and(lists ...[]string) string { return strings.Join(slices.Concat(lists...), " AND ") }
