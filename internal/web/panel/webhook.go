package panel

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/webhook"
)

// webhookRow is the data of an endpoint on a page.
type webhookRow struct {
	*webhook.Endpoint

	now time.Time
}

// Label returns the name of the endpoint, or its address if it has no name.
func (e webhookRow) Label() string { return cmp.Or(e.Name, e.Address()) }

// maxEnd is the maximum number of characters of the last part of a path that Address shows completely.
const maxEnd = 12

// Address returns the host of the endpoint's URL and the end of its path, so that two endpoints with the
// same host can be distinguished. It omits the query and the beginning of a long path, because both may
// contain a key.
func (e webhookRow) Address() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return e.URL
	}
	parts := strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' })
	if len(parts) == 0 {
		return u.Host
	}
	end := []rune(parts[len(parts)-1])
	prefix := "/"
	if len(parts) > 1 {
		prefix = "/…/"
	}
	if len(end) > maxEnd {
		end, prefix = end[len(end)-maxEnd/2:], "/…"
	}
	return u.Host + prefix + string(end)
}

// State returns "active", "failing", "held" (the circuit breaker is open), "paused" or "off"
// (switched off).
func (e webhookRow) State() string {
	switch {
	case e.Status == webhook.Paused:
		return "paused"
	case e.Status == webhook.SwitchedOff:
		return "off"
	case e.BreakerOpen:
		return "held"
	case e.FailingSince != nil:
		return "failing"
	}
	return "active"
}

// Stopped reports whether the endpoint is paused or switched off.
func (e webhookRow) Stopped() bool { return e.Status != webhook.Active }

// Rotating reports whether deliveries are signed with two secrets.
func (e webhookRow) Rotating() bool { return e.OverlapUntil != nil && e.now.Before(*e.OverlapUntil) }

// Gone reports whether the endpoint was switched off because its server responded with 410 Gone.
func (e webhookRow) Gone() bool { return e.StopReason == webhook.ReasonGone }

// maxCounted is the largest number of deliveries that is counted.
const maxCounted = 10_000

type webhookList struct {
	Visit *Visit
	Rows  []webhookRow
}

// webhooks lists the endpoints of the institution and their state.
func (p *Panel) webhooks(w http.ResponseWriter, r *http.Request, v *Visit) error {
	list, err := p.Hooks.List(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	page := webhookList{Visit: v}
	for i := range list {
		page.Rows = append(page.Rows, webhookRow{&list[i], p.Now()})
	}
	return p.draw(w, r, "webhooks.html", page)
}

// webhookOf returns the endpoint in the path. The endpoint must belong to the institution of the visit.
func (p *Panel) webhookOf(r *http.Request, v *Visit) (webhookRow, error) {
	e, err := p.Hooks.Endpoint(r.Context(), v.Institution().ID, r.PathValue("webhook"))
	return webhookRow{e, p.Now()}, err
}

// webhookPage is the data of the page of one endpoint.
type webhookPage struct {
	Visit    *Visit
	Endpoint webhookRow
	Counts   map[webhook.DeliveryStatus]int
	// Replayable is the number of failed deliveries that are not tests, up to maxCounted.
	Replayable int
	Recent     []deliveryRow
	Names      []webhook.Name
	// Since is the submitted or suggested first day of a replay. Today is the last possible day.
	Since, Today string
}

// Count returns the number of deliveries in a status, up to maxCounted.
func (g webhookPage) Count(status string) int { return g.Counts[webhook.DeliveryStatus(status)] }

// recentDeliveries is the maximum number of deliveries on the page of an endpoint.
const recentDeliveries = 10

// webhook shows the page of one endpoint.
func (p *Panel) webhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.webhookPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "webhook.html", page)
}

func (p *Panel) webhookPage(r *http.Request, v *Visit) (*webhookPage, error) {
	e, err := p.webhookOf(r, v)
	if err != nil {
		return nil, err
	}
	page := &webhookPage{Visit: v, Endpoint: e, Names: webhook.Names, Since: p.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), Today: p.Now().UTC().Format(time.DateOnly)}
	if page.Counts, err = p.Hooks.Counts(r.Context(), v.Institution().ID, e.UUID); err != nil {
		return nil, err
	}
	if page.Replayable, err = p.Hooks.Replayable(r.Context(), v.Institution().ID, e.UUID); err != nil {
		return nil, err
	}
	log, err := p.Hooks.Log(r.Context(), v.Institution().ID, e.UUID, webhook.LogQuery{Limit: recentDeliveries})
	if err != nil {
		return nil, err
	}
	page.Recent = deliveryRows(log)
	return page, nil
}

// applyToWebhook applies an operation to the endpoint in the path, and redirects to the endpoint's
// page with a notice.
func (p *Panel) applyToWebhook(w http.ResponseWriter, r *http.Request, v *Visit, notice string, operation func(id string) error) error {
	id := r.PathValue("webhook")
	if err := operation(id); err != nil {
		return err
	}
	return p.redirect(w, r, v, "webhooks/"+id, notice)
}

func (p *Panel) pauseWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.applyToWebhook(w, r, v, "webhook_paused", func(id string) error { return p.Hooks.Pause(r.Context(), v.Institution().ID, id) })
}

// resumeWebhook resumes a paused or switched-off endpoint.
func (p *Panel) resumeWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.applyToWebhook(w, r, v, "webhook_resumed", func(id string) error { return p.Hooks.Resume(r.Context(), v.Institution().ID, id) })
}

// promoteWebhook makes the new secret of a rotation the key of X-Webhook-Signature.
func (p *Panel) promoteWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.applyToWebhook(w, r, v, "webhook_promoted", func(id string) error { return p.Hooks.Promote(r.Context(), v.Institution().ID, id) })
}

// testWebhook queues a delivery of an example event, and redirects to the page of the delivery.
func (p *Panel) testWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id, err := p.Hooks.Test(r.Context(), v.Institution().ID, r.PathValue("webhook"), webhook.Name(r.PostForm.Get("event")))
	if err != nil {
		return p.webhookAgain(w, r, v, err)
	}
	return p.redirect(w, r, v, "deliveries/"+strconv.FormatInt(id, 10), "webhook_tested")
}

// replayWebhook queues the failed deliveries of an endpoint that were created since the beginning of the
// submitted day in UTC, except tests.
func (p *Panel) replayWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	since, err := time.Parse(time.DateOnly, strings.TrimSpace(r.PostForm.Get("since")))
	if err != nil {
		return p.webhookAgain(w, r, v, fault.OfField("since", "webhooks.since_date"))
	}
	if since.After(p.Now()) {
		return p.webhookAgain(w, r, v, fault.OfField("since", "webhooks.since_future"))
	}
	n, err := p.Hooks.Replay(r.Context(), v.Institution().ID, r.PathValue("webhook"), since)
	if err != nil {
		return p.webhookAgain(w, r, v, err)
	}
	notice := "webhook_replayed"
	if n == 0 {
		notice = "webhook_nothing"
	}
	return p.redirect(w, r, v, "webhooks/"+r.PathValue("webhook"), notice)
}

// webhookAgain shows the page of an endpoint again, with the problems of one of its forms.
func (p *Panel) webhookAgain(w http.ResponseWriter, r *http.Request, v *Visit, err error) error {
	page, pageErr := p.webhookPage(r, v)
	if pageErr != nil {
		return pageErr
	}
	if since := r.PostForm.Get("since"); since != "" {
		page.Since = since
	}
	return p.showAgain(w, r, "webhook.html", page, err)
}

// askDeleteWebhook asks for confirmation before an endpoint is deleted.
func (p *Panel) askDeleteWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.webhookPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "webhook_delete.html", page)
}

func (p *Panel) deleteWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Hooks.Delete(r.Context(), v.Institution().ID, r.PathValue("webhook")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "webhooks", "webhook_deleted")
}

type signaturesPage struct {
	Visit   *Visit
	Samples []webhook.Sample
	Shown   webhook.Sample
}

// signatures shows sample code that verifies signatures, in the selected programming language.
func (p *Panel) signatures(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page := signaturesPage{Visit: v, Samples: webhook.Samples, Shown: webhook.Samples[0]}
	i := slices.IndexFunc(webhook.Samples, func(s webhook.Sample) bool { return s.Name == r.URL.Query().Get("language") })
	if i >= 0 {
		page.Shown = webhook.Samples[i]
	}
	return p.draw(w, r, "webhook_signatures.html", page)
}
