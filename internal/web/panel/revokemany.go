package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
)

// revokeManyForm is the data of the form for revoking or renewing many certificates.
type revokeManyForm struct {
	List     *certificateList
	Selected []string
	All      bool
	// N is the number of selected certificates or, if All is set, of the matching certificates that
	// the task can change. N is "" if there are too many certificates to count.
	N            string
	Reason, Note string
	// ShownAt is the time of the page in microseconds, which its form contains. The task omits certificates
	// that were created since then.
	ShownAt int64
	// Notify reports whether the recipients get mail about the revocation.
	Notify bool
	// Names are the first selected or matching certificates. More is the number of the remaining ones,
	// or 0 if there are none or too many to count.
	Names []*cert.Certificate
	More  int
}

// shownNames is the maximum number of certificates that the form lists. If there are at least typedNumber
// certificates, the person must type their number.
const (
	shownNames  = 10
	typedNumber = 21
)

// Typed returns the number that the person must type, or "" for fewer than typedNumber certificates.
func (m *revokeManyForm) Typed() string {
	if m.N == "" {
		return strconv.Itoa(uncounted)
	}
	if n, err := strconv.Atoi(m.N); err == nil && n < typedNumber {
		return ""
	}
	return m.N
}

// StatusKey returns the key of the label of the status that the filter selects.
func (m *revokeManyForm) StatusKey() string {
	return statusOf(cert.Status(m.List.Query.Get("status"))).Key
}

// uncounted is the number to type for a selection that is too large to count.
const uncounted = 10_000

// Visit returns the visit, for the template.
func (m *revokeManyForm) Visit() *Visit { return m.List.Visit }

// revokeMany shows a form that asks for the reason. When the form is submitted, revokeMany starts a task
// that revokes the certificates.
func (p *Panel) revokeMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	m := &revokeManyForm{
		List: &certificateList{Visit: v, Query: r.PostForm}, Selected: c.Selected, All: len(c.Selected) == 0, N: strconv.Itoa(len(c.Selected)),
		ShownAt: db.Micros(p.Now()), Reason: r.PostForm.Get("reason"), Note: r.PostForm.Get("note"),
	}
	applies, err := p.applies(r, v, c, cert.Processing, cert.Approved, cert.Failed)
	if err == nil && m.All {
		m.N, err = p.countOf(r, v, task.Revoke, c.Filter)
	}
	if err != nil {
		return p.listAgain(w, r, v, withControls(err))
	}
	if !applies {
		return p.backToList(w, r, v, "nothing_applies")
	}
	if err := p.fillNames(r, v, m, c); err != nil {
		return err
	}
	m.Notify = r.PostForm.Get("sure") == "" || r.PostForm.Get("notify") != ""
	if r.PostForm.Get("sure") == "" {
		return p.draw(w, r, "revoke_many.html", m)
	}
	if m.Typed() != "" && digitsOf(r.PostForm.Get("number")) != m.Typed() {
		return p.showAgain(w, r, "revoke_many.html", m, fault.OfField("number", "revoke_many.number_differs"))
	}
	c.Before = shownAt(r.PostForm)
	started, err := p.Tasks.Start(r.Context(), v.Institution().ID, task.Request{Kind: task.Revoke, Selection: c, Reason: m.Reason, Note: m.Note, Notify: m.Notify})
	if err != nil {
		return p.showAgain(w, r, "revoke_many.html", m, err)
	}
	return p.redirect(w, r, v, "tasks/"+started.UUID, "")
}

// digitsOf returns a typed number without thousands separators.
func digitsOf(number string) string {
	return strings.NewReplacer(",", "", ".", "", " ", "", "\u00a0", "", "\u202f", "").Replace(number)
}

// shownAt returns the time of the page with a form, or the zero time if the form has none.
func shownAt(form url.Values) time.Time {
	micros, err := strconv.ParseInt(form.Get("shown_at"), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return db.Time(micros)
}

// fillNames sets Names and More of the form.
func (p *Panel) fillNames(r *http.Request, v *Visit, m *revokeManyForm, c task.Selection) error {
	if m.All {
		f := c.Filter
		f.Range = listing.Range{PerPage: shownNames, Cursor: new(string)}
		if len(f.Statuses) == 0 {
			f.Statuses = []cert.Status{cert.Processing, cert.Approved, cert.Failed}
		}
		list, err := p.Search.List(r.Context(), v.Institution().ID, f)
		if err != nil {
			return err
		}
		m.Names = list.Items
	} else {
		for _, id := range c.Selected[:min(len(c.Selected), shownNames)] {
			found, err := p.selected(r, v, id)
			if fault.Is(err, fault.NotFound) {
				continue // the task skips it
			}
			if err != nil {
				return err
			}
			m.Names = append(m.Names, found)
		}
	}
	if n, err := strconv.Atoi(m.N); err == nil && n > len(m.Names) && len(m.Names) > 0 {
		m.More = n - len(m.Names)
	}
	return nil
}

// countOf returns the number of certificates of a filter that a task can change, or "" if there are too
// many to count.
func (p *Panel) countOf(r *http.Request, v *Visit, kind task.Kind, f search.Filter) (string, error) {
	counts, exact, err := p.Search.CountByStatus(r.Context(), v.Institution().ID, f)
	if err != nil || !exact {
		return "", err
	}
	n := 0
	for status, count := range counts {
		if slices.Contains(task.Changeable(kind), status) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)) {
			n += count
		}
	}
	return strconv.Itoa(n), nil
}
