package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
)

// A cookie stores the columns and the number of rows that a person chose for the list of certificates.
const (
	listCookie    = "__Host-list"
	listCookieAge = 365 * 24 * 60 * 60
)

var (
	// allColumns are the columns that can be chosen, in their order in the list. The name and the
	// status are always shown.
	allColumns = []string{"title", "reference", "email", "batch", "mail", "issued", "added", "expires"}
	// defaultColumns are the columns of a person who has not chosen any.
	defaultColumns = []string{"title", "reference", "mail", "issued", "added"}
	// rowChoices are the numbers of rows that can be chosen.
	rowChoices = []int{certificatesPerPage, 50, 100}
)

// listLayout has the columns and the number of rows of the list of certificates.
type listLayout struct {
	Columns []string
	Rows    int
	// Default reports whether Columns are defaultColumns. A narrow window then hides some of them.
	Default bool
}

// layoutOf returns the layout that the cookie of a request selects.
func layoutOf(r *http.Request) listLayout {
	l := listLayout{Columns: defaultColumns, Rows: certificatesPerPage, Default: true}
	c, err := r.Cookie(listCookie)
	if err != nil {
		return l
	}
	parts := strings.Split(c.Value, ".")
	if n, err := strconv.Atoi(parts[0]); err == nil && slices.Contains(rowChoices, n) {
		l.Rows = n
	}
	l.Columns = knownColumns(parts[1:])
	l.Default = slices.Equal(l.Columns, defaultColumns)
	return l
}

// knownColumns returns the columns in a list of names, in the order of the page.
func knownColumns(names []string) []string {
	var known []string
	for _, name := range allColumns {
		if slices.Contains(names, name) {
			known = append(known, name)
		}
	}
	return known
}

// setLayout stores the submitted layout in a cookie.
func setLayout(w http.ResponseWriter, q url.Values) {
	rows, err := strconv.Atoi(q.Get("rows"))
	if err != nil || !slices.Contains(rowChoices, rows) {
		rows = certificatesPerPage
	}
	value := strings.Join(append([]string{strconv.Itoa(rows)}, knownColumns(q["columns"])...), ".")
	http.SetCookie(w, &http.Cookie{Name: listCookie, Value: value, Path: "/", MaxAge: listCookieAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// Has reports whether the list shows a column.
func (l *certificateList) Has(column string) bool { return slices.Contains(l.Layout.Columns, column) }

// AllColumns returns the columns that can be chosen.
func (*certificateList) AllColumns() []string { return allColumns }

// RowChoices returns the numbers of rows that can be chosen.
func (*certificateList) RowChoices() []int { return rowChoices }

// chip is a filter of the list as the page shows it. Label is the key of its name. If ValueKey is not
// empty, it is the key of the text that the page shows instead of Value. Href is the address of the list
// without the filter.
type chip struct{ Label, Value, ValueKey, Href string }

// Chips returns the filters of the list, except the status, which the tabs show.
func (l *certificateList) Chips() []chip {
	var list []chip
	for _, name := range []string{"q", "title", "email", "from", "to", "batch", "failure", "source", "expired", "expires_from", "expires_to", "replaced"} {
		value := l.Query.Get(name)
		if value == "" {
			continue
		}
		if name == "batch" && l.BatchName != "" {
			value = l.BatchName
		}
		next := chip{Label: "list.filter_" + name, Value: value, Href: l.With(name, "")}
		if name == "source" {
			if next.ValueKey = sourceLabels[cert.Source(value)]; next.ValueKey == "" {
				continue
			}
		}
		if name == "expired" {
			if next.ValueKey = l.ExpiryLabel(search.Expiry(value)); next.ValueKey == "" {
				continue
			}
		}
		if name == "replaced" {
			if next.ValueKey = l.ReplacedLabel(search.Replaced(value)); next.ValueKey == "" {
				continue
			}
		}
		list = append(list, next)
	}
	return list
}

// Titles returns the titles of the listed certificates, without duplicates.
func (l *certificateList) Titles() []string {
	var titles []string
	for _, c := range l.List.Items {
		if !slices.Contains(titles, c.Title) {
			titles = append(titles, c.Title)
		}
	}
	return titles
}

// Retryable reports whether the list may have certificates that can be retried.
func (l *certificateList) Retryable() bool { return l.has(cert.Failed) }

// Renewable reports whether the list may have certificates that can be renewed.
func (l *certificateList) Renewable() bool { return l.has(cert.Approved) }

// Revocable reports whether the list may have certificates that can be revoked.
func (l *certificateList) Revocable() bool {
	return l.has(cert.Approved) || l.has(cert.Processing) || l.has(cert.Failed)
}

// has reports whether certificates with a status may match the list's filters. If there are too many
// certificates to count, has checks only the filter by status.
func (l *certificateList) has(s cert.Status) bool {
	if selected := l.Query.Get("status"); selected != "" && selected != string(s) {
		return false
	}
	return !l.Counted || l.Counts[s] > 0
}

// mailLabel is the state of a certificate's mail in the list. Key is the key of its text.
type mailLabel struct{ Key, Tone string }

var mailLabels = map[recipient.Status]mailLabel{
	recipient.Waiting: {"list.mail_waiting", "wait"}, recipient.Queued: {"list.mail_waiting", "wait"}, recipient.Sent: {"list.mail_sent", "good"},
	recipient.Failed: {"list.mail_bounced", "bad"}, recipient.Unsent: {"list.mail_none", "wait"}, recipient.Unsubscribed: {"list.mail_unsubscribed", ""},
}

// MailOf returns the state of the latest mail about a certificate.
func (l *certificateList) MailOf(c *cert.Certificate) mailLabel {
	n := l.Mails[c.ID]
	if n == nil {
		return mailLabel{"list.mail_none", ""}
	}
	if n.OpenedAt != nil {
		return mailLabel{"list.mail_opened", "good"}
	}
	if label, ok := mailLabels[n.Status]; ok {
		return label
	}
	return mailLabel{"list.mail_none", ""}
}

// BatchOf returns the name of a certificate's batch, or "".
func (l *certificateList) BatchOf(c *cert.Certificate) string { return l.Batches[c.BatchID] }

// fillRows reads the states of mail and the names of batches, if the list shows these columns. It makes
// one query for each column, for the rows of the page.
func (p *Panel) fillRows(r *http.Request, v *Visit, l *certificateList) (err error) {
	if l.Has("mail") {
		if l.Mails, err = p.Mail.Latest(r.Context(), l.List.Items); err != nil {
			return err
		}
	}
	if !l.Has("batch") {
		return nil
	}
	var ids []string
	for _, c := range l.List.Items {
		if c.BatchID != "" && !slices.Contains(ids, c.BatchID) {
			ids = append(ids, c.BatchID)
		}
	}
	l.Batches, err = p.Batches.Names(r.Context(), v.Institution().ID, ids)
	return err
}

// find redirects to the certificate with a reference id or UUID. If the institution has no such
// certificate, find redirects to the list, which searches for the text.
func (p *Panel) find(w http.ResponseWriter, r *http.Request, v *Visit) error {
	text := strings.TrimSpace(r.URL.Query().Get("text"))
	c, err := p.Find.ByReference(r.Context(), text)
	if err == nil && c.InstitutionID != v.Institution().ID {
		err = errNoSuch
	}
	if id, e := uuid.Parse(text); e == nil {
		c, err = p.Find.ByUUID(r.Context(), v.Institution().ID, id.String())
	}
	switch {
	case err == nil:
		return p.redirect(w, r, v, "certificates/"+c.UUID, "")
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid), fault.Is(err, fault.BadRequest):
		return p.view.Redirect(w, r, (&certificateList{Visit: v}).With("q", text), "")
	default:
		return err
	}
}

// saveView saves the filters and the order of the list under a name.
func (p *Panel) saveView(w http.ResponseWriter, r *http.Request, v *Visit) error {
	l := &certificateList{Visit: v, Query: r.PostForm}
	if _, err := filterOf(r.PostForm); err != nil {
		return p.listAgain(w, r, v, err)
	}
	_, query, _ := strings.Cut(l.With("", ""), "?")
	if err := p.Search.SaveView(r.Context(), v.Institution().ID, v.Person.ID, r.PostForm.Get("name"), query); err != nil {
		return p.listAgain(w, r, v, err)
	}
	return p.redirect(w, r, v, "certificates?"+query, "view_saved")
}

// deleteView deletes a saved view.
func (p *Panel) deleteView(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Search.DeleteView(r.Context(), v.Institution().ID, v.Person.ID, r.PathValue("view")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "certificates", "view_deleted")
}

// CurrentView returns the name of the saved view with the filters and the order of the list, or "".
func (l *certificateList) CurrentView() string {
	_, query, _ := strings.Cut(l.With("", ""), "?")
	for _, v := range l.Views {
		if v.Query == query && query != "" {
			return v.Name
		}
	}
	return ""
}

// ViewPath returns the address of a saved view.
func (l *certificateList) ViewPath(v search.SavedView) string {
	return l.Visit.Path("certificates") + "?" + v.Query
}

// Saveable reports whether the list has filters or an order that can be saved.
func (l *certificateList) Saveable() bool { return len(l.Fields()) > 0 }

// applies reports whether a bulk action can change a selection: whether one of its certificates has
// one of the statuses. It also returns true for a selection that is too large to check, and for a
// selection with an unknown certificate, which the task reports.
func (p *Panel) applies(r *http.Request, v *Visit, c task.Selection, statuses ...cert.Status) (bool, error) {
	if len(c.Selected) == 0 {
		counts, exact, err := p.Search.CountByStatus(r.Context(), v.Institution().ID, c.Filter)
		return !exact || slices.ContainsFunc(statuses, func(s cert.Status) bool {
			return counts[s] > 0 && (len(c.Filter.Statuses) == 0 || slices.Contains(c.Filter.Statuses, s))
		}), err
	}
	if len(c.Selected) > rowChoices[len(rowChoices)-1] {
		return true, nil
	}
	for _, id := range c.Selected {
		found, err := p.selected(r, v, id)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		if err != nil || slices.Contains(statuses, found.Status) {
			return true, err
		}
	}
	return false, nil
}

// selected returns the certificate with an id of a form, or a fault of kind NotFound.
func (p *Panel) selected(r *http.Request, v *Visit, id string) (*cert.Certificate, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return nil, errNoSuch
	}
	return p.Certs.ByUUID(r.Context(), v.Institution().ID, parsed.String())
}
