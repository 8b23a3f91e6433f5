package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// applicationRoutes returns the routes of offers and applications.
func (p *Panel) applicationRoutes() []route {
	const (
		offer = "/panel/{institution}/offers/{offer}"
		one   = "/panel/{institution}/applications/{application}"
	)
	manage, review := account.MayManageOffers, account.MayReview
	return []route{
		{pattern: "GET /panel/{institution}/offers", may: manage, handler: p.offers},
		{pattern: "POST /panel/{institution}/offers", may: manage, handler: p.createOffer},
		{pattern: "GET /panel/{institution}/offers/new", may: manage, handler: p.newOffer},
		{pattern: "GET " + offer, may: manage, handler: p.offer},
		{pattern: "POST " + offer, may: manage, handler: p.changeOffer},
		{pattern: "GET " + offer + "/delete", may: manage, handler: p.askDeleteOffer},
		{pattern: "POST " + offer + "/delete", may: manage, handler: p.deleteOffer},
		{pattern: "POST " + offer + "/status", may: manage, handler: p.setOfferStatus},
		{pattern: "POST " + offer + "/register", may: manage, handler: p.uploadRegister, limits: registerLimits},
		{pattern: "POST " + offer + "/register/delete", may: manage, handler: p.deleteRegister},

		{pattern: "GET /panel/{institution}/applications", may: review, handler: p.applications},
		{pattern: "POST /panel/{institution}/applications/decide", may: review, handler: p.decideMany, form: decideForm},
		{pattern: "GET " + one, may: review, handler: p.application},
		{pattern: "GET " + one + "/files/{attachment}", may: review, handler: p.attachment},
		{pattern: "GET " + one + "/files/{attachment}/page.png", may: review, handler: p.attachmentPicture},
		{pattern: "GET " + one + "/picture.png", may: review, handler: p.applicationPicture},
		{pattern: "POST " + one + "/draw.png", may: review, handler: p.drawApplication},
		{pattern: "POST " + one + "/claim", may: review, handler: p.claimApplication},
		{pattern: "POST " + one + "/approve", may: review, handler: p.approveApplication, limits: uploadLimits},
		{pattern: "POST " + one + "/hold", may: review, handler: p.holdApplication},
		{pattern: "POST " + one + "/release", may: review, handler: p.releaseApplication},
		{pattern: "POST " + one + "/reject", may: review, handler: p.rejectApplication},
		{pattern: "POST " + one + "/withdraw", may: review, handler: p.withdrawApplication},
		{pattern: "POST " + one + "/note", may: review, handler: p.noteApplication},
	}
}

// openStatuses are the statuses of applications that wait for a decision, or for signatories after an
// approval.
var openStatuses = []application.Status{cert.Pending, cert.InReview}

// applicationsPerPage is the maximum number of applications on a page of the queue.
const applicationsPerPage = 50

// queueView is a view of the queue: a tab, an offer, a search and an order. The addresses of applications
// contain the view, so that the next application is from the same view.
type queueView struct{ Tab, Offer, Search, Sort string }

// queueTabs are the tabs of the queue. The tab "" contains all open applications.
var queueTabs = []string{"mine", "new", "review", "hold", "answered", "", "ended"}

// viewOf returns the view in a query or a form. An unknown tab selects all open applications.
func viewOf(q url.Values) queueView {
	view := queueView{Tab: q.Get("tab"), Offer: q.Get("offer"), Search: strings.TrimSpace(q.Get("q")), Sort: q.Get("sort")}
	if !slices.Contains(queueTabs, view.Tab) {
		view.Tab = ""
	}
	if view.Sort != view.reverse() {
		view.Sort = ""
	}
	return view
}

// defaultOldest reports whether the oldest application is first by default. The tab of ended applications
// begins with the newest.
func (q queueView) defaultOldest() bool { return q.Tab != "ended" }

// reverse returns the order that is not the default of the tab.
func (q queueView) reverse() string {
	if q.defaultOldest() {
		return "newest"
	}
	return "oldest"
}

// Fields returns the parameters of the view that are not empty, for hidden fields and addresses.
func (q queueView) Fields() (list [][2]string) {
	for _, f := range [][2]string{{"tab", q.Tab}, {"offer", q.Offer}, {"q", q.Search}, {"sort", q.Sort}} {
		if f[1] != "" {
			list = append(list, f)
		}
	}
	return list
}

// Query returns the view as the query of an address, with the question mark, or "".
func (q queueView) Query() string {
	values := url.Values{}
	for _, f := range q.Fields() {
		values.Set(f[0], f[1])
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// filter returns the filter of a view for a member. It selects only applications that the member may
// review, except in the tab of ended applications.
func (q queueView) filter(member int64) application.Filter {
	yes, no := true, false
	f := application.Filter{OfferUUID: q.Offer, Search: q.Search, Statuses: openStatuses, For: member, Ascending: q.defaultOldest() == (q.Sort == "")}
	switch q.Tab {
	case "mine":
		f.ClaimedBy = member
	case "new":
		f.Statuses, f.OnHold = []application.Status{cert.Pending}, &no
	case "review":
		f.Statuses, f.OnHold = []application.Status{cert.InReview}, &no
	case "hold":
		f.OnHold, f.Answered = &yes, &no
	case "answered":
		f.OnHold, f.Answered = &yes, &yes
	case "ended":
		f.Statuses, f.For, f.Ended = nil, 0, true
	}
	return f
}

// queuePage is one page of the queue.
type queuePage struct {
	queueView

	Visit  *Visit
	List   *application.List
	Counts *application.Counts
	Offers []*application.Offer
	// Same maps the UUIDs of the applications to the numbers of other certificates and applications with the
	// same e-mail address.
	Same map[string]int
}

// queueTab is a tab of the queue. Count is nil if the applications of the tab are not counted.
type queueTab struct {
	Label, Href string
	Count       *int
	Current     bool
}

// Tabs returns the tabs with their counts. The search and the offer of the view do not change the counts.
func (l *queuePage) Tabs() []queueTab {
	all := l.Counts.Open()
	counts := map[string]*int{"mine": &l.Counts.Mine, "new": &l.Counts.Pending, "review": &l.Counts.InReview, "hold": &l.Counts.OnHold, "answered": &l.Counts.Answered, "": &all}
	list := make([]queueTab, len(queueTabs))
	for i, name := range queueTabs {
		list[i] = queueTab{Label: "applications.tab_" + name, Href: l.with(func(q *queueView) { q.Tab, q.Sort = name, "" }), Count: counts[name], Current: name == l.Tab}
		if name == "" {
			list[i].Label = "applications.tab_all"
		}
	}
	return list
}

// with returns the address of the first page of the view after a change.
func (l *queuePage) with(change func(q *queueView)) string {
	q := l.queueView
	change(&q)
	return l.Visit.Path("applications") + q.Query()
}

// Reordered returns the address of the view in the reverse order.
func (l *queuePage) Reordered() string {
	return l.with(func(q *queueView) {
		if q.Sort = ""; l.Sort == "" {
			q.Sort = l.reverse()
		}
	})
}

// Oldest reports whether the oldest application is first.
func (l *queuePage) Oldest() bool { return l.filter(0).Ascending }

// Cleared returns the address of the view without its search and its offer.
func (l *queuePage) Cleared() string {
	return l.with(func(q *queueView) { q.Search, q.Offer = "", "" })
}

// Path returns the address of an application.
func (l *queuePage) Path(a *application.Application) string {
	return l.Visit.Path("applications/"+a.UUID) + l.Query()
}

// Ended reports whether the tab contains only applications that can no longer be decided.
func (l *queuePage) Ended() bool { return l.Tab == "ended" }

// Selected returns the value of the field that selects an application.
func (*queuePage) Selected(a *application.Application) string {
	return selectedValue(a.UUID, a.Revision)
}

// Matching returns the number of applications of the view, or nil if they are not counted.
func (l *queuePage) Matching() *int {
	if l.Search != "" || l.Offer != "" {
		return nil
	}
	for _, t := range l.Tabs() {
		if t.Current {
			return t.Count
		}
	}
	return nil
}

// MaxMany returns the maximum number of applications that one task decides.
func (*queuePage) MaxMany() int { return application.MaxMany }

// SameOf returns the number of other certificates and applications with the same e-mail address.
func (l *queuePage) SameOf(a *application.Application) int { return l.Same[a.UUID] }

// Prev returns the address of the previous page, or "".
func (l *queuePage) Prev() string { return l.position("before", l.List.Prev) }

// Next returns the address of the next page, or "".
func (l *queuePage) Next() string { return l.position("cursor", l.List.Next) }

func (l *queuePage) position(name, cursor string) string {
	if cursor == "" {
		return ""
	}
	values := url.Values{name: {cursor}}
	for _, f := range l.Fields() {
		values.Set(f[0], f[1])
	}
	return l.Visit.Path("applications") + "?" + values.Encode()
}

// queuePage returns the data of a page of the queue. If the filter is invalid, queuePage returns an error of
// the kind fault.Invalid, and data with an empty list.
func (p *Panel) queuePage(r *http.Request, v *Visit, q url.Values) (*queuePage, error) {
	ctx, id := r.Context(), v.Institution().ID
	l := &queuePage{queueView: viewOf(q), Visit: v, List: &application.List{}, Counts: &application.Counts{}}
	var err error
	if l.Offers, err = p.Applications.Offers(ctx, id, ""); err != nil {
		return nil, err
	}
	if l.Counts, err = p.Applications.Counts(ctx, id, v.Person.ID); err != nil {
		return nil, err
	}
	f := l.filter(v.Person.ID)
	f.Range, f.PerPage = rangeOf(q), applicationsPerPage
	list, err := p.Applications.List(ctx, id, f)
	if err != nil {
		return l, renameFields(err, map[string]string{"search": "q"})
	}
	l.List = list
	l.Same, err = p.Applications.Duplicates(ctx, id, list.Items)
	return l, err
}

// applications shows the queue.
func (p *Panel) applications(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	l, err := p.queuePage(r, v, q)
	if fault.Is(err, fault.Invalid) && l != nil {
		return p.showAgain(w, r, "applications.html", l, err)
	}
	if err != nil {
		return err
	}
	if len(l.List.Items) == 0 && rangeOf(q).HasPosition() {
		// The applications of this page were decided, or no longer match the filter.
		return p.redirect(w, r, v, "applications"+l.Query(), "")
	}
	return p.draw(w, r, "applications.html", l)
}

// nextOf returns the UUID of the application after a in a view of the queue. If there is none after a, it
// returns the UUID of the first application of the view, or "" if the view has no other application. In the
// tab of ended applications, it uses the open applications instead.
func (p *Panel) nextOf(r *http.Request, v *Visit, view queueView, a *application.Application) (string, error) {
	if view.Tab == "ended" {
		view.Tab = ""
	}
	return p.Applications.Next(r.Context(), view.filter(v.Person.ID), a)
}

// applicationState returns the label of the state of an application.
func applicationState(a *application.Application) status {
	switch a.Status { //nolint:exhaustive // the other statuses are those of certificates
	case cert.Rejected:
		return status{"applications.state_rejected", "bad"}
	case cert.Withdrawn:
		return status{"applications.state_withdrawn", ""}
	case cert.Lapsed:
		return status{"applications.state_expired", ""}
	case cert.Pending, cert.InReview:
		switch {
		case a.DecidedAt != nil:
			return status{"applications.state_signatures", "wait"}
		case a.Hold != nil && a.Hold.AnsweredAt != nil:
			return status{"applications.state_answered", "wait"}
		case a.Hold != nil:
			return status{"applications.state_hold_" + string(a.Hold.Kind), ""}
		case a.Status == cert.InReview:
			return status{"status.in_review", "wait"}
		}
		return status{"applications.state_new", "wait"}
	}
	return statusOf(a.Status)
}
