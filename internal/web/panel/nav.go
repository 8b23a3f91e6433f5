package panel

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
)

// entry is a line of the navigation.
type entry struct {
	// path is relative to the institution's path, and empty for the institution's first page. In
	// operatorEntries, path is absolute.
	path string
	// label is the key of the entry's text.
	label, icon string
	may         account.Permission
}

// entries are the lines of an institution's navigation, in groups.
var entries = [][]entry{
	{
		{"", "nav.dashboard", "dashboard", account.MayView},
		{"certificates", "nav.certificates", "certificates", account.MayView},
		{"upload", "nav.upload", "upload", account.MayUpload},
		{"bulk", "nav.bulk", "bulk", account.MayUpload},
		{"batches", "nav.batches", "batches", account.MayView},
		{"templates", "nav.templates", "templates", account.MayView},
		{"achievements", "nav.achievements", "achievements", account.MayManageTemplates},
		{"applications", "nav.applications", "applications", account.MayReview},
		{"offers", "nav.offers", "offers", account.MayManageOffers},
		{"approvals", "nav.approvals", "approvals", account.MaySign},
		{"verifications", "nav.verifications", "verifications", account.MayView},
	},
	{
		{"members", "nav.members", "members", account.MaySeeMembers},
		{"tokens", "nav.tokens", "tokens", account.MayManageTokens},
		{"webhooks", "nav.webhooks", "webhooks", account.MayManageWebhooks},
		{"audit", "nav.audit", "audit", account.MayReadAudit},
		{"settings", "nav.settings", "settings", account.MayManageSettings},
	},
}

// elsewhere maps the path of an entry to the path of pages that belong to the entry but are not
// below the entry's path.
var elsewhere = map[string]string{"webhooks": "deliveries", "certificates": "tasks", "members": "invitations", "templates": "fonts", "approvals": "signature", "batches": "mail"}

// operatorEntries are the lines of the installation's navigation.
var operatorEntries = [][]entry{{
	{"/operator", "nav.installation", "dashboard", ""},
	{"/operator/institutions", "nav.institutions", "members", ""},
	{"/operator/servers", "nav.servers", "batches", ""},
	{"/operator/audit", "nav.audit", "audit", ""},
}}

// item is the data of an entry in the layout.
type item struct {
	Path, Label, Icon string
	Current           bool
	// Count is the number of records that wait for the person, or 0.
	Count int
	// also is another path whose pages belong to the entry, or empty.
	also string
}

// matches returns the length of the entry's path if the page belongs to the entry, or 0.
func (i *item) matches(path string) int {
	for _, below := range []string{i.Path, i.also} {
		if below != "" && (path == below || strings.HasPrefix(path, below+"/")) {
			return len(i.Path)
		}
	}
	return 0
}

// frame is the data of the layout.
type frame struct {
	Visit  *Visit
	Groups [][]item
	// NoMail reports whether the page shows that the vault has no mail server. NoticeWarns reports
	// whether the notice on the page is a warning.
	NoMail, NoticeWarns bool
	// Find is the path of the search field in the header, or "" if the person may not see certificates.
	Find string
}

// frame returns the data of the layout, or a nil *frame if no person is signed in.
func (p *Panel) frame(r *http.Request) any {
	v := visitOf(r)
	if v == nil || v.Person.ID == 0 {
		return (*frame)(nil)
	}
	f := &frame{Visit: v, NoMail: p.noMail(v), NoticeWarns: noticeWarns(r)}
	switch {
	case v.Member != nil:
		if v.Can(account.MayView) {
			f.Find = v.Path("certificates/find")
		}
		waiting, signs := 0, false
		if v.Can(account.MaySign) {
			waiting, signs = p.waitingFor(r, v)
		}
		f.Groups = p.groups(r, entries, func(e entry) (string, string, bool) {
			pattern := "GET /panel/{institution}"
			if e.path != "" {
				pattern += "/" + e.path
			}
			return v.Path(e.path), pattern, v.Can(e.may) && (e.may != account.MaySign || signs || waiting > 0)
		})
		if v.Can(account.MayReview) {
			f.count(v.Path("applications"), p.waitingApplications(r, v))
		}
		f.count(v.Path("approvals"), waiting)
	case strings.HasPrefix(r.URL.Path, "/operator") && v.Person.Operator:
		f.Groups = p.groups(r, operatorEntries, func(e entry) (string, string, bool) { return e.path, "GET " + e.path, true })
	}
	return f
}

// count sets the number of an entry.
func (f *frame) count(path string, n int) {
	for _, group := range f.Groups {
		for i := range group {
			if group[i].Path == path {
				group[i].Count = n
			}
		}
	}
}

// groups returns the entries that the visitor may use and whose routes exist and are not hidden. It
// marks the entry of the requested page.
func (p *Panel) groups(r *http.Request, all [][]entry, resolve func(entry) (path, pattern string, may bool)) [][]item {
	var groups [][]item
	for _, group := range all {
		var items []item
		for _, e := range group {
			path, pattern, may := resolve(e)
			exists := slices.ContainsFunc(p.table, func(rt route) bool { return rt.pattern == pattern && !rt.hidden })
			if may && exists {
				line := item{Path: path, Label: e.label, Icon: e.icon}
				if also := elsewhere[e.path]; also != "" {
					line.also = strings.TrimSuffix(path, e.path) + also
				}
				items = append(items, line)
			}
		}
		if len(items) > 0 {
			groups = append(groups, items)
		}
	}
	mark(groups, r.URL.Path)
	return groups
}

// mark marks the entry to which a page belongs: the entry with the longest matching path.
func mark(groups [][]item, path string) {
	var best *item
	for _, group := range groups {
		for i := range group {
			line := &group[i]
			if length := line.matches(path); length > 0 && (best == nil || length > best.matches(path)) {
				best = line
			}
		}
	}
	if best != nil {
		best.Current = true
	}
}

// start lists a person's institutions. If a person has only one institution, start redirects to that
// institution. It redirects an operator without an institution to the pages for operators.
func (p *Panel) start(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if len(v.All) == 1 {
		v.Member = &v.All[0]
		return p.redirect(w, r, v, "", "")
	}
	if len(v.All) == 0 && v.Person.Operator {
		return p.view.Redirect(w, r, "/operator", "")
	}
	return p.draw(w, r, "start.html", v)
}

// redirectToFirst redirects to the first page in the member's navigation, or shows a page that says
// that the role has no pages.
func (p *Panel) redirectToFirst(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, ok := p.frame(r).(*frame)
	if ok && f != nil && len(f.Groups) > 0 {
		http.Redirect(w, r, f.Groups[0][0].Path, http.StatusSeeOther)
		return nil
	}
	return p.draw(w, r, "nothing.html", v)
}

// waitingApplications returns the number of applications that wait for a reviewer and that the visitor may
// review. An error is only logged, because the navigation works without the number.
func (p *Panel) waitingApplications(r *http.Request, v *Visit) int {
	n, err := p.Applications.Waiting(r.Context(), v.Institution().ID, v.Person.ID)
	if err != nil {
		p.Log.WarnContext(r.Context(), "the waiting applications could not be counted", slog.Any("error", err))
	}
	return n
}
