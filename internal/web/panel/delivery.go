package panel

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/webhook"
)

var errNoDelivery = fault.New(fault.NotFound, "There is no such delivery.")

// deliveryRow is a delivery as pages show it.
type deliveryRow struct{ *webhook.Delivery }

// ShortEvent returns the name of the event without the prefix that all names of events share.
func (d deliveryRow) ShortEvent() string { return shortEvent(d.Event) }

func shortEvent(name webhook.Name) string {
	_, after, found := strings.Cut(string(name), ".")
	if !found {
		return string(name)
	}
	return after
}

// Pending reports whether another attempt of the delivery will follow.
func (d deliveryRow) Pending() bool { return d.Status == webhook.DeliveryPending }

func deliveryRows(list []webhook.Delivery) []deliveryRow {
	rows := make([]deliveryRow, len(list))
	for i := range list {
		rows[i] = deliveryRow{&list[i]}
	}
	return rows
}

// deliveriesPage is the delivery log of the institution or of one endpoint.
type deliveriesPage struct {
	Visit *Visit
	// Endpoint, Status and Event are the filters of the log: the UUID of an endpoint, a status and the
	// name of an event. An empty filter has no effect.
	Endpoint, Status, Event string
	// Search is the search text.
	Search    string
	Endpoints []webhookRow
	Tabs      []tab
	Rows      []deliveryRow

	Newest, Newer, Older string
}

// tab is a link that filters a list by a status or an outcome.
type tab struct {
	Label, Path, Count string
	Current            bool
}

// Events returns the name of each event with its short name.
func (*deliveriesPage) Events() [][2]string {
	list := make([][2]string, len(webhook.Names))
	for i, name := range webhook.Names {
		list[i] = [2]string{string(name), shortEvent(name)}
	}
	return list
}

// deliveriesPerPage is the number of deliveries per page.
const deliveriesPerPage = 25

// deliveryTabs are the filters by status, with the keys of their labels.
var deliveryTabs = []struct{ status, label string }{
	{"", "deliveries.tab_all"}, {"pending", "deliveries.tab_pending"}, {"delivered", "deliveries.tab_delivered"}, {"exhausted", "deliveries.tab_exhausted"},
}

// deliveries shows one page of the log of deliveries. If the search text is the id of a delivery,
// deliveries redirects to the page of that delivery.
func (p *Panel) deliveries(w http.ResponseWriter, r *http.Request, v *Visit) error {
	query := r.URL.Query()
	page := &deliveriesPage{
		Visit: v, Endpoint: query.Get("endpoint"), Status: query.Get("status"), Event: query.Get("event"),
		Search: strings.TrimSpace(query.Get("q")),
	}
	list, err := p.Hooks.List(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	for i := range list {
		page.Endpoints = append(page.Endpoints, webhookRow{&list[i], p.Now()})
	}
	if page.Status != "" && !slices.Contains(webhook.DeliveryStatuses, webhook.DeliveryStatus(page.Status)) {
		page.Status = ""
	}
	if page.Event != "" && !slices.Contains(webhook.Names, webhook.Name(page.Event)) {
		page.Event = ""
	}
	if id, err := strconv.ParseInt(page.Search, 10, 64); err == nil {
		if _, err := p.Hooks.Delivery(r.Context(), v.Institution().ID, id); err == nil {
			return p.redirect(w, r, v, "deliveries/"+strconv.FormatInt(id, 10), "")
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	q := webhook.LogQuery{Limit: deliveriesPerPage + 1}
	for name, id := range map[string]*int64{"before": &q.Before, "after": &q.After} {
		if n, err := strconv.ParseInt(query.Get(name), 10, 64); err == nil && n > 0 {
			*id = n // an invalid number is ignored
		}
	}
	if err := p.fillDeliveries(r, v, page, q); err != nil {
		return err
	}
	return p.draw(w, r, "deliveries.html", page)
}

// fillDeliveries sets the tabs and the rows of the page. The error is fault.NotFound for an unknown
// endpoint.
func (p *Panel) fillDeliveries(r *http.Request, v *Visit, page *deliveriesPage, q webhook.LogQuery) error {
	q.Status, q.Event = webhook.DeliveryStatus(page.Status), webhook.Name(page.Event)
	counts, err := p.Hooks.Counts(r.Context(), v.Institution().ID, page.Endpoint)
	if err != nil {
		return err
	}
	for _, dt := range deliveryTabs {
		t := tab{Label: dt.label, Path: page.at(dt.status, "", 0), Current: dt.status == page.Status}
		if dt.status != "" && page.Search == "" && page.Event == "" {
			t.Count = p.texts(r).upTo(counts[webhook.DeliveryStatus(dt.status)])
		}
		page.Tabs = append(page.Tabs, t)
	}
	if page.Search != "" {
		if found, err := p.resolveSearch(r, v, page.Search, &q); err != nil || !found {
			return err
		}
	}
	log, err := p.Hooks.Log(r.Context(), v.Institution().ID, page.Endpoint, q)
	if err != nil {
		return err
	}
	if q.After != 0 && len(log) <= deliveriesPerPage {
		// At most one page of deliveries is newer than the delivery q.After, so show the first
		// page.
		q.After = 0
		if log, err = p.Hooks.Log(r.Context(), v.Institution().ID, page.Endpoint, q); err != nil {
			return err
		}
	}
	page.turn(log, q)
	return nil
}

// turn sets the rows of the page from log, and the links to other pages. log contains one more
// delivery than a page if there is another page in the direction of q.
func (g *deliveriesPage) turn(log []webhook.Delivery, q webhook.LogQuery) {
	more := len(log) > deliveriesPerPage
	switch {
	case more && q.After != 0:
		log = log[1:]
	case more:
		log = log[:deliveriesPerPage]
	}
	g.Newest = g.at(g.Status, "", 0)
	if len(log) > 0 && (more || q.After != 0) {
		g.Older = g.at(g.Status, "before", log[len(log)-1].ID)
	}
	if len(log) > 0 && (q.Before != 0 || q.After != 0) {
		g.Newer = g.at(g.Status, "after", log[0].ID)
	}
	g.Rows = deliveryRows(log)
}

// resolveSearch adds the condition of the search text to q. A UUID selects the certificate with the UUID,
// or the event with the UUID if there is no such certificate. Any other text is a reference id. found is
// false if the institution has no certificate with the reference id.
func (p *Panel) resolveSearch(r *http.Request, v *Visit, text string, q *webhook.LogQuery) (found bool, err error) {
	id, parseErr := uuid.Parse(text)
	if parseErr != nil {
		c, err := p.Find.ByReference(r.Context(), text)
		if fault.Is(err, fault.NotFound) || err == nil && c.InstitutionID != v.Institution().ID {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		q.CertificateID = c.ID
		return true, nil
	}
	c, err := p.Find.ByUUID(r.Context(), v.Institution().ID, id.String())
	switch {
	case err == nil:
		q.CertificateID = c.ID
	case fault.Is(err, fault.NotFound):
		q.EventID = id.String()
	default:
		return false, err
	}
	return true, nil
}

// at returns the address of a page of the log for a status. If side is "before" or "after", the page shows
// deliveries that are older or newer than the delivery with the id. If side is "", it is the first page.
func (g *deliveriesPage) at(status, side string, id int64) string {
	q := url.Values{}
	for name, value := range map[string]string{"endpoint": g.Endpoint, "status": status, "event": g.Event, "q": g.Search} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if side != "" {
		q.Set(side, strconv.FormatInt(id, 10))
	}
	if len(q) == 0 {
		return g.Visit.Path("deliveries")
	}
	return g.Visit.Path("deliveries") + "?" + q.Encode()
}

// deliveryPage is one delivery with its attempts.
type deliveryPage struct {
	Visit    *Visit
	Delivery deliveryRow
	Endpoint webhookRow
	Body     string
	Attempts []attemptView
}

// attemptView is an attempt as pages show it.
type attemptView struct {
	webhook.Attempt

	Sent, Received []headerLine
}

type headerLine struct{ Name, Value string }

// Good reports whether the attempt succeeded.
func (a attemptView) Good() bool { return a.Outcome == webhook.Delivered }

// Took returns the duration of the attempt in milliseconds.
func (a attemptView) Took() string { return strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms" }

// Reason returns the reason phrase of the status code, or "" if there is no status code or it is unknown.
func (a attemptView) Reason() string { return http.StatusText(a.StatusCode) }

// Key returns the key of the label of the attempt's outcome.
func (a attemptView) Key() string {
	if !slices.Contains(webhook.Outcomes, a.Outcome) {
		return "deliveries.failed"
	}
	return "deliveries.outcome_" + keyName(a.Outcome)
}

// refreshEvery is the time in seconds after which the browser reloads the page of a delivery that
// is due.
const refreshEvery = "3"

// delivery shows one delivery with its attempts, the latest attempt first.
func (p *Panel) delivery(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id, err := strconv.ParseInt(r.PathValue("delivery"), 10, 64)
	if err != nil {
		return errNoDelivery
	}
	d, err := p.Hooks.Delivery(r.Context(), v.Institution().ID, id)
	if err != nil {
		return err
	}
	e, err := p.Hooks.Endpoint(r.Context(), v.Institution().ID, d.Endpoint)
	if err != nil {
		return err
	}
	page := deliveryPage{Visit: v, Delivery: deliveryRow{&d.Delivery}, Endpoint: webhookRow{e, p.Now()}, Body: indented(d.Body)}
	for _, a := range slices.Backward(d.Log) {
		page.Attempts = append(page.Attempts, attemptView{a, headerLines(a.RequestHeaders), headerLines(a.ResponseHeaders)})
	}
	if d.DueAt != nil && !d.DueAt.After(p.Now()) && !page.Endpoint.Stopped() {
		w.Header().Set("Refresh", refreshEvery)
	}
	return p.draw(w, r, "delivery.html", page)
}

func headerLines(h http.Header) []headerLine {
	var list []headerLine
	for name, values := range h {
		list = append(list, headerLine{name, strings.Join(values, ", ")})
	}
	slices.SortFunc(list, func(a, b headerLine) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list
}

// indented formats JSON for people. Other text is returned unchanged.
func indented(body string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(body), "", "  "); err != nil {
		return body
	}
	return b.String()
}

// redeliver queues a delivery again.
func (p *Panel) redeliver(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id, err := strconv.ParseInt(r.PathValue("delivery"), 10, 64)
	if err != nil {
		return errNoDelivery
	}
	if err := p.Hooks.Redeliver(r.Context(), v.Institution().ID, id); err != nil {
		return err
	}
	return p.redirect(w, r, v, "deliveries/"+strconv.FormatInt(id, 10), "delivery_again")
}
