package panel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

const (
	entriesPerPage = 50
	// exportTime is the time limit for sending an export, which is generated while it is sent.
	exportTime = 10 * time.Minute
)

// auditForm contains the filters of the log as text, from the query string or the form.
type auditForm struct {
	Actor, Action, Subject, From, To string
}

func auditFormOf(v url.Values) auditForm {
	return auditForm{v.Get("actor"), v.Get("action"), v.Get("subject"), v.Get("from"), v.Get("to")}
}

// filter parses the filters. From and To are whole days in UTC, and both days are included. If From or
// To is neither empty nor a valid day, the error is fault.Invalid.
func (f auditForm) filter() (audit.Filter, error) {
	filter := audit.Filter{Actor: f.Actor, Action: f.Action, Subject: f.Subject}
	var bad fault.Fields
	day := func(name, text string, plus int) time.Time {
		if text == "" {
			return time.Time{}
		}
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			bad.Add(name, "audit.bad_day")
			return time.Time{}
		}
		return t.AddDate(0, 0, plus)
	}
	filter.From, filter.To = day("from", f.From, 0), day("to", f.To, 1)
	return filter, bad.Err()
}

// query returns a query string with the filters that are set and the parameters in more. more contains
// names of parameters, each followed by its value. If there are no filters and no parameters, query
// returns "".
func (f auditForm) query(more ...string) string {
	q := url.Values{}
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "subject": f.Subject, "from": f.From, "to": f.To} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// auditRow is an entry as the page shows it.
type auditRow struct {
	audit.Entry

	// Key is the key of the action's phrase, which the page shows after the actor's name. It is empty
	// for an action that this version does not know.
	Key string
	// Details are the details of the entry, formatted as lines of text.
	Details []string
	// ByActor and BySubject are links to all entries with the same actor or the same subject.
	// ByActor is empty if the actor has no id. BySubject is empty if the subject has no id or is
	// the actor.
	ByActor, BySubject string
}

type auditList struct {
	Form auditForm
	// Path is the path of the page. Institution is the name of the institution, or "" for the log of the
	// installation.
	Path, Institution string
	// Partial is the number of the newest entries in which a part of a name is searched.
	Partial int
	Rows    []auditRow
	Groups  []actionGroup
	// Newest, Newer and Older are links to the first, the previous and the next page. Newer is
	// empty on the first page, and Older is empty on the last page.
	Newest, Newer, Older string
	Filtered             bool
}

// actionGroup is a group of actions. Key is the key of its label.
type actionGroup struct {
	Name, Key string
	Actions   []actionChoice
}

// actionChoice is an action. Key is the key of its phrase.
type actionChoice struct{ Action, Key string }

// actionGroups returns the actions that can be chosen as a filter, in groups.
func actionGroups() []actionGroup {
	var groups []actionGroup
	for _, name := range audit.Groups() {
		g := actionGroup{Name: name, Key: "audit_groups." + name}
		for _, a := range audit.Actions {
			if strings.HasPrefix(string(a.Action), name+".") {
				g.Actions = append(g.Actions, actionChoice{string(a.Action), "audit_actions." + keyName(a.Action)})
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// auditLog returns the id of the institution whose log a visit shows, the path of the page, and the name
// of the institution. If the visit has no institution, it shows the log of the installation, and
// institutionID is 0.
func (v *Visit) auditLog() (institutionID int64, path, name string) {
	if v.Member == nil {
		return 0, "/operator/audit", ""
	}
	return v.Institution().ID, v.Path("audit"), v.Institution().Name
}

// audit shows one page of the log, the newest entry first.
func (p *Panel) audit(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	institution, path, name := v.auditLog()
	list := auditList{Form: auditFormOf(q), Path: path, Institution: name, Groups: actionGroups(), Partial: audit.PartialEntries}
	list.Filtered = list.Form != auditForm{}
	filter, err := list.Form.filter()
	if err != nil {
		return p.showAgain(w, r, "audit.html", list, err)
	}
	list.Newest = path + list.Form.query()
	if err := p.fillAudit(r, &list, institution, filter); err != nil {
		return p.showAgain(w, r, "audit.html", list, err)
	}
	return p.draw(w, r, "audit.html", list)
}

// fillAudit reads the page before or after the entry that the query refers to, or the first page if the
// query refers to no entry. It also sets the links to other pages.
func (p *Panel) fillAudit(r *http.Request, list *auditList, institution int64, filter audit.Filter) error {
	q := r.URL.Query()
	after, before := q.Get("after"), q.Get("before")
	var entries []audit.Entry
	var more bool
	var err error
	if before != "" {
		if entries, more, err = p.Audit.Before(r.Context(), institution, filter, before, entriesPerPage); err != nil {
			return err
		}
		if more {
			list.Older = list.Path + list.Form.query("after", entries[len(entries)-1].Mark())
		}
	}
	if !more {
		// If before is set, all newer entries fit on one page, which is the first page.
		if before != "" {
			after = ""
		}
		var next string
		if entries, next, err = p.Audit.List(r.Context(), institution, filter, after, entriesPerPage); err != nil {
			return err
		}
		if next != "" {
			list.Older = list.Path + list.Form.query("after", next)
		}
	}
	if (more || after != "") && len(entries) > 0 {
		list.Newer = list.Path + list.Form.query("before", entries[0].Mark())
	}
	for i := range entries {
		list.Rows = append(list.Rows, p.texts(r).auditRow(&entries[i], list.Path))
	}
	return nil
}

func (t texts) auditRow(e *audit.Entry, path string) auditRow {
	row := auditRow{Entry: *e}
	if e.Action.Known() {
		row.Key = "audit_actions." + keyName(e.Action)
	}
	if e.Actor.ID != "" {
		row.ByActor = path + auditForm{Actor: e.Actor.ID}.query()
	}
	if e.Subject.ID != "" && e.Subject.ID != e.Actor.ID {
		row.BySubject = path + auditForm{Subject: e.Subject.ID}.query()
	}
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		label, err := t.language.Text("audit_detail." + keyName(name))
		if err != nil {
			label = strings.ReplaceAll(name, "_", " ")
		}
		row.Details = append(row.Details, t.of("audit_detail.pair", "name", label, "value", t.formatDetail(name, e.Detail[name])))
	}
	return row
}

// detailSections maps the name of a detail to the section of the catalog with the texts of its values.
// The texts of other details are names, addresses and codes, which are the same in every language.
var detailSections = map[string]string{"role": "roles.", "by": "audit_by.", "placement": "placement_mode."}

// formatDetail formats the value of a detail. It formats a change as the old value, an arrow and the new
// value, and an empty value as "none".
func (t texts) formatDetail(name string, value any) string {
	switch v := value.(type) {
	case nil:
		return t.of("audit_detail.none")
	case string:
		if section := detailSections[name]; section != "" {
			if text, err := t.language.Text(section + keyName(strings.ReplaceAll(v, " ", "_"))); err == nil {
				return text
			}
		}
		return cmp.Or(v, t.of("audit_detail.none"))
	case bool:
		return t.of(map[bool]string{true: "audit_detail.yes", false: "audit_detail.no"}[v])
	case []any:
		if len(v) == 0 {
			// An endpoint without a list of events receives all events.
			return t.of(map[bool]string{true: "webhooks.all_events", false: "audit_detail.none"}[name == "events"])
		}
		list := make([]string, len(v))
		for i, item := range v {
			list[i] = t.formatDetail(name, item)
		}
		return strings.Join(list, ", ")
	case map[string]any:
		if from, ok := v["from"]; ok && len(v) == 2 {
			return t.formatDetail(name, from) + " → " + t.formatDetail(name, v["to"])
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// confirmExportAudit exports the log if the person has signed in or confirmed the sign-in recently,
// and otherwise redirects to the confirmation.
func (p *Panel) confirmExportAudit(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.afterRecentSignIn(w, r, func() error { return p.exportAudit(w, r, v) })
}

// exportAudit sends the entries that match the filters as a CSV or JSON Lines file. The method is not
// GET, because the export adds an entry to the log.
func (p *Panel) exportAudit(w http.ResponseWriter, r *http.Request, v *Visit) error {
	institution, path, name := v.auditLog()
	form := auditFormOf(r.PostForm)
	format := audit.Format(r.PostFormValue("format"))
	filter, err := form.filter()
	if err == nil && format != audit.CSV && format != audit.JSONL {
		err = fault.OfField("format", "audit.bad_format")
	}
	if err != nil {
		return p.showAgain(w, r, "audit.html", auditList{Form: form, Path: path, Institution: name, Groups: actionGroups(), Partial: audit.PartialEntries}, err)
	}
	file := "installation"
	if v.Member != nil {
		file = v.Institution().Slug
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting the export's deadline: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", map[audit.Format]string{audit.CSV: "text/csv; charset=utf-8; header=present", audit.JSONL: "application/jsonl; charset=utf-8"}[format])
	h.Set("Content-Disposition", `attachment; filename="audit-`+file+"-"+p.Now().UTC().Format("20060102")+"."+string(format)+`"`)
	h.Set("Cache-Control", "no-store")
	out := &sentWriter{ResponseWriter: w}
	if err := p.Audit.Export(r.Context(), out, institution, filter, format); err != nil {
		if out.sent {
			// Close the connection, because a partial log must not look complete.
			web.Record(r, err)
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http then closes the connection
		}
		h.Del("Content-Disposition")
		return err
	}
	return nil
}

// sentWriter records whether a part of the body was written.
type sentWriter struct {
	http.ResponseWriter

	sent bool
}

func (w *sentWriter) Write(text []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(text)
}
