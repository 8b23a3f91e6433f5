package panel

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
)

// listPage is how many certificates a page of the list has.
const listPage = 25

// sorting is an order that people can choose.
type sorting struct {
	Value, Label string
	sort         search.Sort
	ascending    bool
}

// sorts are the orders that people can choose.
var sorts = []sorting{
	{"", "Newest first", search.ByCreated, false},
	{"oldest", "Oldest first", search.ByCreated, true},
	{"name", "Name, A to Z", search.ByName, true},
	{"name-desc", "Name, Z to A", search.ByName, false},
	{"email", "E-mail", search.ByEmail, true},
	{"status", "Status", search.ByStatus, true},
	{"status-desc", "Status, the other way round", search.ByStatus, false},
	{"issued", "Issue date, latest first", search.ByIssueDate, false},
	{"issued-asc", "Issue date, earliest first", search.ByIssueDate, true},
	{"changed", "Last changed", search.ByUpdated, false},
}

// columns are the headings by which the list can be ordered: the order that one
// gives first, and the one that it gives when it is used again.
var columns = map[string]struct{ first, again string }{
	"Person": {"name", "name-desc"}, "Status": {"status", "status-desc"}, "Issued": {"issued", "issued-asc"}, "Added": {"", "oldest"},
}

// column is a heading as the page shows it: where it leads, and the way in which
// the list is ordered by it, empty when it is not.
type column struct{ Label, Href, Order string }

// selectionFields are what of an address says which certificates are meant.
var selectionFields = []string{"status", "q", "from", "to", "batch", "email", "failure", "sort"}

// certificateList is the list of certificates as it is asked for.
type certificateList struct {
	Visit  *Visit
	Query  url.Values
	Filter search.Filter
	List   *search.List
	Counts map[cert.Status]int
	// Counted says that Counts are all there are, and All is their sum.
	Counted bool
	All     int
	// BatchName is of the batch that the list is narrowed to.
	BatchName string
}

// Column gives the heading of a column.
func (l *certificateList) Column(label string) column {
	c, now := columns[label], l.Query.Get("sort")
	col := column{Label: label, Href: l.With("sort", c.first)}
	if now != c.first && now != c.again {
		return col
	}
	if now == c.first {
		col.Href = l.With("sort", c.again)
	}
	col.Order = "descending"
	if i := slices.IndexFunc(sorts, func(one sorting) bool { return one.Value == now }); sorts[i].ascending {
		col.Order = "ascending"
	}
	return col
}

// Sorts gives the orders that can be chosen.
func (*certificateList) Sorts() any { return sorts }

// Narrowed says that the list is by more than a status.
func (l *certificateList) Narrowed() bool {
	return slices.ContainsFunc([]string{"q", "from", "to", "batch", "email", "failure"}, func(name string) bool { return l.Query.Get(name) != "" })
}

// With gives the address of the list with one thing changed.
func (l *certificateList) With(key, value string) string {
	q := url.Values{}
	for _, name := range selectionFields {
		if v := l.Query.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	if q.Del(key); value != "" {
		q.Set(key, value)
	}
	if len(q) == 0 {
		return l.Visit.Path("certificates")
	}
	return l.Visit.Path("certificates") + "?" + q.Encode()
}

// Matching counts what the list has on all its pages, "" where that is too much to
// count.
func (l *certificateList) Matching() string {
	if !l.Counted {
		return ""
	}
	if s := l.Query.Get("status"); s != "" {
		return number(l.Counts[cert.Status(s)])
	}
	return number(l.All)
}

// Statuses gives the tabs.
func (*certificateList) Statuses() []cert.Status { return cert.Statuses }

// First and Prev give the addresses of the first page and of the one before this,
// empty on the first.
func (l *certificateList) First() string {
	if l.Prev() == "" {
		return ""
	}
	return l.With("cursor", "")
}

// Prev is for the template.
func (l *certificateList) Prev() string {
	if l.List == nil || l.List.Prev == "" {
		return ""
	}
	return l.With("before", l.List.Prev)
}

// Next gives the address of the next page, empty on the last.
func (l *certificateList) Next() string {
	if l.List == nil || l.List.Next == "" {
		return ""
	}
	return l.With("cursor", l.List.Next)
}

// Fields gives what the forms below the list carry along, so that they mean what it
// shows.
func (l *certificateList) Fields() [][2]string {
	var list [][2]string
	for _, name := range selectionFields {
		if v := l.Query.Get(name); v != "" {
			list = append(list, [2]string{name, v})
		}
	}
	return list
}

// filterOf reads which certificates an address or a form means.
func filterOf(q url.Values) (search.Filter, error) {
	f := search.Filter{
		Search: strings.TrimSpace(q.Get("q")), IssuedFrom: q.Get("from"), IssuedTo: q.Get("to"), BatchID: q.Get("batch"),
		Email: strings.TrimSpace(q.Get("email")), FailureCode: q.Get("failure"),
	}
	if s := cert.Status(q.Get("status")); s != "" {
		if !slices.Contains(cert.Statuses, s) {
			return f, fault.OfField("status", "There is no such status.")
		}
		f.Statuses = []cert.Status{s}
	}
	for _, one := range sorts {
		if one.Value == q.Get("sort") {
			f.Sort, f.Ascending = one.sort, one.ascending
		}
	}
	return f, nil
}

// certificates lists certificates.
func (p *Panel) certificates(w http.ResponseWriter, r *http.Request, v *Visit) error {
	l := &certificateList{Visit: v, Query: r.URL.Query()}
	err := p.fill(r, v, l)
	if fault.Is(err, fault.Invalid) {
		l.List = &search.List{}
		return p.again(w, r, "certificates.html", l, err)
	}
	if err != nil {
		return err
	}
	if len(l.List.Items) == 0 && placed(l.Query).Begun() {
		// What stood here was moved or filtered away meanwhile.
		http.Redirect(w, r, l.With("cursor", ""), http.StatusSeeOther)
		return nil
	}
	return p.draw(w, r, "certificates.html", l)
}

// placed reads which part of a list an address means: the one behind a cursor, or
// the one before it.
func placed(q url.Values) listing.Range {
	cursor, before := q.Get("cursor"), q.Get("before")
	if before != "" {
		return listing.Range{Cursor: &before, Back: true}
	}
	return listing.Range{Cursor: &cursor}
}

func (p *Panel) fill(r *http.Request, v *Visit, l *certificateList) error {
	var err error
	if l.Filter, err = filterOf(l.Query); err != nil {
		return controls(err)
	}
	f := l.Filter
	f.Range = placed(l.Query)
	f.PerPage = listPage
	// Under a search each of the two looks through the same thousands of records,
	// which nobody need wait for twice.
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() (err error) {
		l.List, err = p.Search.List(ctx, v.Institution().ID, f)
		return controls(err)
	})
	group.Go(func() (err error) {
		l.Counts, l.Counted, err = p.Search.ByStatuses(ctx, v.Institution().ID, l.Filter)
		return controls(err)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range l.Counts {
		l.All += n
	}
	if l.Filter.BatchID != "" {
		names, err := p.Batches.Names(r.Context(), v.Institution().ID, []string{l.Filter.BatchID})
		if err != nil {
			return err
		}
		l.BatchName = names[l.Filter.BatchID]
	}
	return nil
}

// controls renames the fields of an error to the controls of the list.
func controls(err error) error {
	names := map[string]string{"search": "q", "failure": "q", "issue_date_from": "from", "issue_date_to": "to", "batch_id": "batch"}
	return renamed(err, names)
}

// renamed gives an error whose fields have the names of a page's controls.
func renamed(err error, names map[string]string) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Invalid {
		return err
	}
	other := *e
	other.Fields = slices.Clone(e.Fields)
	for i := range other.Fields {
		if name, ok := names[other.Fields[i].Name]; ok {
			other.Fields[i].Name = name
		}
	}
	return &other
}

var errNothingSelected = fault.New(fault.BadRequest, "Select certificates in the list first, or choose all that it shows.")

// selectionOf reads which certificates a form below the list means: those selected, or
// all that the list shows.
func selectionOf(form url.Values) (task.Selection, error) {
	var c task.Selection
	f, err := filterOf(form)
	if err != nil {
		return c, err
	}
	c.Filter = f
	if form.Get("which") == "all" {
		return c, nil
	}
	if c.Selected = form["selected"]; len(c.Selected) == 0 {
		return c, errNothingSelected
	}
	return c, nil
}

// listAgain shows the list once more, with what is wrong with a form below it.
func (p *Panel) listAgain(w http.ResponseWriter, r *http.Request, v *Visit, err error) error {
	l := &certificateList{Visit: v, Query: r.PostForm}
	if e := p.fill(r, v, l); e != nil {
		return e
	}
	return p.again(w, r, "certificates.html", l, err)
}

// retryMany begins the retrying of many certificates.
func (p *Panel) retryMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	var started *task.Task
	if err == nil {
		started, err = p.Tasks.Start(r.Context(), v.Institution().ID, task.Request{Kind: task.Retry, Selection: c})
	}
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	return p.lead(w, r, v, "tasks/"+started.UUID, "")
}

// manyRevoked is what is asked before many certificates are revoked.
type manyRevoked struct {
	List     *certificateList
	Selected []string
	All      bool
	// N is how many are concerned, "" where they are too many to count.
	N            string
	Reason, Note string
}

// Visit is for the template.
func (m *manyRevoked) Visit() *Visit { return m.List.Visit }

// revokeMany asks for the reason first, and then begins the revoking of many
// certificates.
func (p *Panel) revokeMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	m := &manyRevoked{
		List: &certificateList{Visit: v, Query: r.PostForm}, Selected: c.Selected, All: len(c.Selected) == 0, N: strconv.Itoa(len(c.Selected)),
		Reason: r.PostForm.Get("reason"), Note: r.PostForm.Get("note"),
	}
	if m.All {
		if m.N, err = p.countRevocable(r, v, c.Filter); err != nil {
			return p.listAgain(w, r, v, controls(err))
		}
	}
	if r.PostForm.Get("sure") == "" {
		return p.draw(w, r, "revoke_many.html", m)
	}
	started, err := p.Tasks.Start(r.Context(), v.Institution().ID, task.Request{Kind: task.Revoke, Selection: c, Reason: m.Reason, Note: m.Note})
	if err != nil {
		return p.again(w, r, "revoke_many.html", m, err)
	}
	return p.lead(w, r, v, "tasks/"+started.UUID, "")
}

func (p *Panel) countRevocable(r *http.Request, v *Visit, f search.Filter) (string, error) {
	counts, exact, err := p.Search.ByStatuses(r.Context(), v.Institution().ID, f)
	if err != nil || !exact {
		return "", err
	}
	n := 0
	for status, count := range counts {
		if status != cert.Revoked && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)) {
			n += count
		}
	}
	return strconv.Itoa(n), nil
}

// download sets the headers of a file that is made while it leaves.
func download(w http.ResponseWriter, mediaType, name string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the download's time: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", filePolicy)
	return nil
}

// exportCSV writes certificates as CSV. What goes wrong after the first byte ends
// the connection, so that nobody takes a part for the whole.
func (p *Panel) exportCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	if err := download(w, "text/csv; charset=utf-8", v.Institution().Slug+"-certificates-"+p.Now().UTC().Format(time.DateOnly)+".csv"); err != nil {
		return err
	}
	return p.whole(r, p.Tasks.WriteCSV(r.Context(), v.Institution().ID, c, w))
}

// exportZIP writes the verified PDFs of certificates as a ZIP.
func (p *Panel) exportZIP(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	var archive *task.Archive
	if err == nil {
		archive, err = p.Tasks.Archive(r.Context(), v.Institution().ID, c)
	}
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	if err := download(w, "application/zip", v.Institution().Slug+"-certificates-"+p.Now().UTC().Format(time.DateOnly)+".zip"); err != nil {
		return err
	}
	return p.whole(r, archive.Write(r.Context(), w))
}
