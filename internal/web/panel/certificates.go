package panel

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/web"
)

// certificatesPerPage is the number of certificates on a page of the list.
const certificatesPerPage = 25

// sorting is an order of the list that a person can choose. Label is the key of its name.
type sorting struct {
	Value, Label string
	sort         search.Sort
	ascending    bool
}

// sorts are all orders that a person can choose.
var sorts = []sorting{
	{"", "list.order_newest", search.ByCreated, false},
	{"oldest", "list.order_oldest", search.ByCreated, true},
	{"name", "list.order_name", search.ByName, true},
	{"name-desc", "list.order_name_desc", search.ByName, false},
	{"email", "list.order_email", search.ByEmail, true},
	{"email-desc", "list.order_email_desc", search.ByEmail, false},
	{"status", "list.order_status", search.ByStatus, true},
	{"status-desc", "list.order_status_desc", search.ByStatus, false},
	{"issued", "list.order_issued", search.ByIssueDate, false},
	{"issued-asc", "list.order_issued_asc", search.ByIssueDate, true},
	{"changed", "list.order_changed", search.ByUpdated, false},
}

// columns are the headings that order the list. first is the order after the first click. again is
// the order after the second click.
var columns = map[string]struct{ first, again string }{
	"name": {"name", "name-desc"}, "email": {"email", "email-desc"}, "status": {"status", "status-desc"}, "issued": {"issued", "issued-asc"}, "added": {"", "oldest"},
}

// column is a heading as the page shows it. Href is the address of its link, or "" if the column
// cannot order the list. Order is the current direction of the order, or "" if another column orders
// the list.
type column struct{ Name, Href, Order string }

// selectionFields are the parameters of an address that select certificates and their order.
var selectionFields = []string{"status", "q", "title", "from", "to", "batch", "email", "failure", "source", "sort", "expired", "expires_from", "expires_to", "replaced"}

// certificateList is one page of the list of certificates.
type certificateList struct {
	Visit  *Visit
	Query  url.Values
	Filter search.Filter
	List   *search.List
	Counts map[cert.Status]int
	// Counted reports whether the numbers in Counts are exact. All is their sum. They do not depend on
	// the status that the filter selects.
	Counted bool
	All     int
	// BatchName is the name of the batch by which the list is filtered, or "".
	BatchName string
	Layout    listLayout
	// Mails maps the ids of the listed certificates to the latest notices about them. Batches maps the
	// UUIDs of the batches of the listed certificates to the names of the batches. Mails and Batches are
	// nil if the list does not show their columns.
	Mails   map[int64]*recipient.Notice
	Batches map[string]string
	// Views are the member's saved views.
	Views []search.SavedView
	// Plan is the plan for the mail of the batch by which the list is filtered, or nil. Recent are the
	// newest batches, for the filter.
	Plan   *recipient.Plan
	Recent []*batch.Batch
}

// Column returns the heading of a column. The link of the heading orders the list by the column, or
// reverses the order if the column already orders the list.
func (l *certificateList) Column(name string) column {
	c, ok := columns[name]
	if !ok {
		return column{Name: name}
	}
	now := l.Query.Get("sort")
	col := column{Name: name, Href: l.With("sort", c.first)}
	if now != c.first && now != c.again {
		return col
	}
	if now == c.first {
		col.Href = l.With("sort", c.again)
	}
	col.Order = "descending"
	if i := slices.IndexFunc(sorts, func(s sorting) bool { return s.Value == now }); sorts[i].ascending {
		col.Order = "ascending"
	}
	return col
}

// Sorts returns the orders that can be chosen.
func (*certificateList) Sorts() any { return sorts }

// Filtered reports whether the list has a filter other than the status.
func (l *certificateList) Filtered() bool {
	return slices.ContainsFunc(selectionFields, func(name string) bool { return name != "status" && name != "sort" && l.Query.Get(name) != "" })
}

// With returns the address of the list with one parameter changed and without the position of the
// current page.
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

// Matching returns the number of certificates on all pages of the list, or 0 if there are too many
// certificates to count.
func (l *certificateList) Matching() int {
	if !l.Counted {
		return 0
	}
	if s := l.Query.Get("status"); s != "" {
		return l.Counts[cert.Status(s)]
	}
	return l.All
}

// Statuses returns the statuses, one for each tab.
func (*certificateList) Statuses() []cert.Status { return cert.Statuses }

// sourceLabels are the keys of the names of sources.
var sourceLabels = map[cert.Source]string{cert.Vault: "list.source_vault", cert.Template: "list.source_template", cert.Customer: "list.source_customer"}

// sourceChoice is a source that can be chosen as a filter. Label is the key of its name.
type sourceChoice struct {
	Value cert.Source
	Label string
}

// Sources returns the sources that can be chosen.
func (*certificateList) Sources() []sourceChoice {
	list := make([]sourceChoice, len(cert.Sources))
	for i, s := range cert.Sources {
		list[i] = sourceChoice{s, sourceLabels[s]}
	}
	return list
}

// First returns the address of the first page, or "" on the first page.
func (l *certificateList) First() string {
	if l.Prev() == "" {
		return ""
	}
	return l.With("cursor", "")
}

// Prev returns the address of the previous page, or "" on the first page.
func (l *certificateList) Prev() string {
	if l.List == nil || l.List.Prev == "" {
		return ""
	}
	return l.With("before", l.List.Prev)
}

// Next returns the address of the next page, or "" on the last page.
func (l *certificateList) Next() string {
	if l.List == nil || l.List.Next == "" {
		return ""
	}
	return l.With("cursor", l.List.Next)
}

// Fields returns the hidden fields of the list's forms. The fields select the certificates that the
// list shows.
func (l *certificateList) Fields() [][2]string {
	var list [][2]string
	for _, name := range selectionFields {
		if v := l.Query.Get(name); v != "" {
			list = append(list, [2]string{name, v})
		}
	}
	return list
}

// recordPath returns the address of the page of a record. This is the page of the application if the
// application has no decision and the member may review applications, or else the page of the certificate.
func recordPath(v *Visit, c *cert.Certificate) string {
	if isUndecided(c) && v.Can(account.MayReview) {
		return v.Path("applications/" + c.UUID)
	}
	return v.Path("certificates/" + c.UUID)
}

// isUndecided reports whether a record is an application without a decision.
func isUndecided(c *cert.Certificate) bool {
	return c.Source == cert.Customer && slices.Contains(openStatuses, c.Status) && c.File.Name == ""
}

// filterOf parses the filter and the order in a query string or a form. The error is fault.Invalid for an
// unknown status. filterOf ignores an unknown order, source, expiry or replacement.
func filterOf(q url.Values) (search.Filter, error) {
	f := search.Filter{
		Search: strings.TrimSpace(q.Get("q")), IssuedFrom: q.Get("from"), IssuedTo: q.Get("to"), BatchID: q.Get("batch"),
		Email: strings.TrimSpace(q.Get("email")), Title: strings.TrimSpace(q.Get("title")), FailureCode: q.Get("failure"),
	}
	if s := cert.Status(q.Get("status")); s != "" {
		if !slices.Contains(cert.Statuses, s) {
			return f, fault.OfField("status", "panel_error.no_status")
		}
		f.Statuses = []cert.Status{s}
	}
	f.ExpiresFrom, f.ExpiresTo = q.Get("expires_from"), q.Get("expires_to")
	if e := search.Expiry(q.Get("expired")); slices.Contains(search.Expiries, e) {
		f.Expired = e
	}
	if e := search.Replaced(q.Get("replaced")); slices.Contains(search.Replacements, e) {
		f.Replaced = e
	}
	if s := cert.Source(q.Get("source")); slices.Contains(cert.Sources, s) {
		f.Sources = []cert.Source{s}
	}
	for _, s := range sorts {
		if s.Value == q.Get("sort") {
			f.Sort, f.Ascending = s.sort, s.ascending
		}
	}
	return f, nil
}

// certificates shows one page of the list of certificates.
func (p *Panel) certificates(w http.ResponseWriter, r *http.Request, v *Visit) error {
	l := &certificateList{Visit: v, Query: r.URL.Query()}
	if l.Query.Get("layout") != "" {
		setLayout(w, l.Query)
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, l.With("", ""), http.StatusSeeOther)
		return nil
	}
	err := p.fill(r, v, l)
	if fault.Is(err, fault.Invalid) {
		l.List = &search.List{}
		return p.showAgain(w, r, "certificates.html", l, err)
	}
	if err != nil {
		return err
	}
	if len(l.List.Items) == 0 && rangeOf(l.Query).HasPosition() {
		// The certificates of this page have moved to other pages or no longer match the filter.
		http.Redirect(w, r, l.With("cursor", ""), http.StatusSeeOther)
		return nil
	}
	return p.draw(w, r, "certificates.html", l)
}

// rangeOf parses the position of a page, which is after or before a cursor. Without a cursor,
// rangeOf returns the first page.
func rangeOf(q url.Values) listing.Range {
	cursor, before := q.Get("cursor"), q.Get("before")
	if before != "" {
		return listing.Range{Cursor: &before, Back: true}
	}
	return listing.Range{Cursor: &cursor}
}

func (p *Panel) fill(r *http.Request, v *Visit, l *certificateList) error {
	var err error
	if l.Filter, err = filterOf(l.Query); err != nil {
		return withControls(err)
	}
	f := l.Filter
	l.Layout = layoutOf(r)
	f.Range = rangeOf(l.Query)
	f.PerPage = l.Layout.Rows
	// For a search, both queries can scan thousands of records, so run them concurrently.
	group, ctx := errgroup.WithContext(p.Replica.Allow(r.Context()))
	group.Go(func() (err error) {
		l.List, err = p.Search.List(ctx, v.Institution().ID, f)
		return withControls(err)
	})
	group.Go(func() (err error) {
		l.Counts, l.Counted, err = p.Search.CountByStatus(ctx, v.Institution().ID, l.Filter)
		return withControls(err)
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
		if l.Plan, err = p.Mail.PlanOfBatch(r.Context(), v.Institution().ID, l.Filter.BatchID); err != nil {
			return err
		}
	}
	if l.Views, err = p.Search.SavedViews(r.Context(), v.Institution().ID, v.Person.ID); err != nil {
		return err
	}
	if l.Recent, err = p.Batches.Recent(r.Context(), v.Institution().ID, recentBatches); err != nil {
		return err
	}
	return p.fillRows(r, v, l)
}

// withControls replaces the names of the fields of an error with the names of the controls of the list's
// forms.
func withControls(err error) error {
	names := map[string]string{"search": "q", "failure": "q", "issue_date_from": "from", "issue_date_to": "to", "batch_id": "batch"}
	return renameFields(err, names)
}

// renameFields returns an error with renamed fields. names maps old names to new names; a field
// that is not in names keeps its name. An error that is not fault.Invalid is returned unchanged.
func renameFields(err error, names map[string]string) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Invalid {
		return err
	}
	renamed := *e
	renamed.Fields = slices.Clone(e.Fields)
	for i := range renamed.Fields {
		if name, ok := names[renamed.Fields[i].Name]; ok {
			renamed.Fields[i].Name = name
		}
	}
	return &renamed
}

var errNothingSelected = fault.New(fault.BadRequest, "panel_error.nothing_selected")

// selectionOf parses the selection of a form of the list: the selected certificates, or all
// certificates that match the list's filter. The error is errNothingSelected if neither is chosen.
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

// listAgain shows the list again, with the problems of one of its forms. For errNothingSelected, it
// redirects to the list, with a notice.
func (p *Panel) listAgain(w http.ResponseWriter, r *http.Request, v *Visit, err error) error {
	if errors.Is(err, errNothingSelected) {
		return p.backToList(w, r, v, "nothing_selected")
	}
	l := &certificateList{Visit: v, Query: r.PostForm}
	l.Query.Del("cursor")
	l.Query.Del("before")
	if e := p.fill(r, v, l); e != nil {
		return e
	}
	return p.showAgain(w, r, "certificates.html", l, err)
}

// retryMany starts a task that retries many certificates. If none of them has failed, it redirects to the
// list, with a notice.
func (p *Panel) retryMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	applies, err := p.applies(r, v, c, cert.Failed)
	if err != nil {
		return p.listAgain(w, r, v, withControls(err))
	}
	if !applies {
		return p.backToList(w, r, v, "nothing_failed")
	}
	started, err := p.Tasks.Start(r.Context(), v.Institution().ID, task.Request{Kind: task.Retry, Selection: c})
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	return p.redirect(w, r, v, "tasks/"+started.UUID, "")
}

// backToList redirects to the list with the filters of a form of the list.
func (p *Panel) backToList(w http.ResponseWriter, r *http.Request, v *Visit, notice string) error {
	return p.view.Redirect(w, r, (&certificateList{Visit: v, Query: r.PostForm}).With("", ""), notice)
}

// download sets the headers and the time limit of a file that is generated while it is sent.
func download(w http.ResponseWriter, mediaType, name string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting the download's deadline: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", web.FilePolicy)
	return nil
}

// export calls send with the selection of the form. The export of all certificates that a filter
// selects requires a recent sign-in, so that a stolen session is not enough to export all certificates.
func (p *Panel) export(w http.ResponseWriter, r *http.Request, v *Visit, send func(c task.Selection) error) error {
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	if len(c.Selected) > 0 {
		return send(c)
	}
	return p.afterRecentSignIn(w, r, func() error { return send(c) })
}

// exportCSV sends certificates as a CSV file.
func (p *Panel) exportCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.export(w, r, v, func(c task.Selection) error { return p.sendCSV(w, r, v, c) })
}

// sendCSV sends a CSV file. An error while the file is written closes the connection, because a
// partial file must not look complete.
func (p *Panel) sendCSV(w http.ResponseWriter, r *http.Request, v *Visit, c task.Selection) error {
	if err := download(w, "text/csv; charset=utf-8", v.Institution().Slug+"-certificates-"+p.Now().UTC().Format(time.DateOnly)+".csv"); err != nil {
		return err
	}
	return p.finishStream(r, p.Tasks.WriteCSV(p.Replica.Allow(r.Context()), v.Institution().ID, c, w))
}

// exportZIP sends the verified PDFs of certificates as a ZIP file.
func (p *Panel) exportZIP(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.export(w, r, v, func(c task.Selection) error { return p.sendZIP(w, r, v, c) })
}

func (p *Panel) sendZIP(w http.ResponseWriter, r *http.Request, v *Visit, c task.Selection) error {
	archive, err := p.Tasks.Archive(r.Context(), v.Institution().ID, c)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	if err := download(w, "application/zip", v.Institution().Slug+"-certificates-"+p.Now().UTC().Format(time.DateOnly)+".zip"); err != nil {
		return err
	}
	return p.finishStream(r, archive.Write(r.Context(), w))
}
