package panel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	// recentBatches is the maximum number of newest batches that the dashboard checks for progress,
	// and that the filter of the list of certificates offers.
	recentBatches = 20
	// shownBatches is the maximum number of batches on the dashboard.
	shownBatches = 5
	// bounceTime is the period before the current time in which the dashboard counts undelivered
	// mails. shownBounces is the maximum number of undelivered mails that it shows.
	bounceTime   = 30 * 24 * time.Hour
	shownBounces = 5
	// shownCorrections is the maximum number of correction requests on the dashboard.
	shownCorrections = 5
)

// periods are the time ranges that the dashboard offers, in days.
var periods = []int{30, 90, 365}

// dashboard is the data of the first page of an institution: the numbers of certificates, the
// batches in progress, everything that needs attention, and suggested next steps.
type dashboard struct {
	Visit  *Visit
	Counts map[cert.Status]int
	All    int
	Chart  *chart
	// Failures are the reasons of failed certificates with their numbers, the most frequent reason
	// first. MoreFailures reports whether there are more failed certificates than were counted.
	Failures     []search.FailureCount
	MoreFailures bool
	Batches      []*batch.Batch
	// Many reports whether the institution has a batch.
	Many      bool
	Endpoints []webhook.Endpoint
	// Undelivered are the latest undelivered mails in the period bounceTime. Bounces is the number of
	// all undelivered mails in this period, counted up to 1,000.
	Undelivered []recipient.Undelivered
	Bounces     int
	// Corrections are the oldest open correction requests. OpenCorrections is the number of all
	// open correction requests.
	Corrections     []*recipient.Correction
	OpenCorrections int
	// Applications are the numbers of applications that the member may review. It is nil if the member must
	// not review applications.
	Applications *application.Counts
	// Key is the signing key if its certificate expires soon or has expired, or nil.
	Key   *keyRow
	Steps []step
	// MissingSignatories are the signatories for whom an owner must name a replacement. The list is
	// empty if the member is not an owner.
	MissingSignatories []template.Missing
	// Expiring contains the number of certificates that expire soon. It is nil if there are none.
	Expiring *expirySoon
}

// step is a suggested next step for a new institution. Text and Description are keys of messages.
type step struct {
	Path, Text, Description string
	Done                    bool
}

// Periods returns the time ranges that can be chosen.
func (*dashboard) Periods() []int { return periods }

// Of returns the number of certificates in a status.
func (d *dashboard) Of(status string) int { return d.Counts[cert.Status(status)] }

// Failed returns the address of the list of certificates that failed for a reason.
func (d *dashboard) Failed(code string) string {
	return d.Visit.Path("certificates") + "?" + url.Values{"status": {"failed"}, "failure": {code}}.Encode()
}

// Endpoint returns a webhook endpoint with its state.
func (*dashboard) Endpoint(e webhook.Endpoint) webhookRow { return webhookRow{Endpoint: &e} }

// NeedsAttention reports whether an endpoint was switched off, or is active and failing.
func (*dashboard) NeedsAttention(e *webhook.Endpoint) bool {
	return e.Status == webhook.SwitchedOff || e.FailingSince != nil && e.Status == webhook.Active
}

// AllClear reports whether nothing needs attention and no batch is in progress.
func (d *dashboard) AllClear() bool {
	return d.Key == nil && d.Expiring == nil && (d.Applications == nil || d.Applications.Open() == 0) && d.OpenCorrections == 0 &&
		len(d.MissingSignatories) == 0 && len(d.Failures) == 0 && d.Bounces == 0 && len(d.Batches) == 0 &&
		!slices.ContainsFunc(d.Endpoints, func(e webhook.Endpoint) bool { return d.NeedsAttention(&e) })
}

// WaitingApplications returns the number of open applications, plus the number of applications that were
// decided, were withdrawn or expired in the last 7 days. If the sum is 0, the dashboard has no section about
// applications.
func (d *dashboard) WaitingApplications() int {
	if c := d.Applications; c != nil {
		return c.Open() + c.DecidedThisWeek
	}
	return 0
}

// MoreCorrections returns the number of open correction requests that the dashboard does not show.
func (d *dashboard) MoreCorrections() int { return d.OpenCorrections - len(d.Corrections) }

// OpenSteps returns the number of steps that are not done.
func (d *dashboard) OpenSteps() (n int) {
	for _, s := range d.Steps {
		if !s.Done {
			n++
		}
	}
	return n
}

func (p *Panel) dashboard(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if !v.Can(account.MayView) {
		return p.redirectToFirst(w, r, v)
	}
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || !slices.Contains(periods, days) {
		days = periods[0]
	}
	d := &dashboard{Visit: v}
	if err := p.load(r, v, d, days); err != nil {
		return err
	}
	return p.draw(w, r, "dashboard.html", d)
}

// load reads the data of the dashboard. Each query uses an index or totals that the database
// maintains, so that the dashboard is fast for an institution of any size.
func (p *Panel) load(r *http.Request, v *Visit, d *dashboard, days int) error {
	ctx, id := r.Context(), v.Institution().ID
	var err error
	if d.Counts, _, err = p.Search.CountByStatus(p.Replica.Allow(ctx), id, search.Filter{}); err != nil {
		return err
	}
	for _, n := range d.Counts {
		d.All += n
	}
	perDay, err := p.Search.Days(ctx, id, days)
	if err != nil {
		return err
	}
	d.Chart = newChart(perDay)
	if d.Counts[cert.Failed] > 0 {
		if d.Failures, d.MoreFailures, err = p.Search.Failures(ctx, id); err != nil {
			return err
		}
	}
	list, err := p.Batches.List(ctx, id, batch.Filter{Range: listing.Range{Page: 1, PerPage: recentBatches}})
	if err != nil {
		return err
	}
	d.Many = len(list.Items) > 0
	for _, b := range list.Items {
		if b.Status() == batch.Processing && len(d.Batches) < shownBatches {
			d.Batches = append(d.Batches, b)
		}
	}
	if d.Endpoints, err = p.Hooks.List(ctx, id); err != nil {
		return err
	}
	if d.Undelivered, d.Bounces, err = p.Mail.Undelivered(ctx, id, p.Now().Add(-bounceTime), shownBounces); err != nil {
		return err
	}
	if d.Corrections, d.OpenCorrections, err = p.Mail.OpenCorrections(ctx, id, shownCorrections); err != nil {
		return err
	}
	if v.Can(account.MayReview) {
		if d.Applications, err = p.Applications.Counts(ctx, id, v.Person.ID); err != nil {
			return err
		}
	}
	d.Key = p.expiringKey(ctx, v)
	if d.Expiring, err = p.expiringSoon(ctx, v); err != nil {
		return err
	}
	if v.Can(account.MayManageOwners) {
		if d.MissingSignatories, err = p.Templates.MissingSignatories(ctx, id); err != nil {
			return err
		}
	}
	return p.steps(r, v, d)
}

// expiringKey returns the signing key of the institution if the key's certificate expires soon or
// has expired, or nil. It also returns nil if the key cannot be read, because another page reports this
// error.
func (p *Panel) expiringKey(ctx context.Context, v *Visit) *keyRow {
	list, err := p.Keys.Certificates(ctx, v.Institution().UUID)
	if err != nil {
		return nil
	}
	if row := p.keyRow(keyKinds[list[0].Kind], list[0].Chain); row.Soon {
		return &row
	}
	return nil
}

// steps adds the suggested next steps that the member may take.
func (p *Panel) steps(r *http.Request, v *Visit, d *dashboard) error {
	add := func(may account.Permission, path, text, description string, done bool) {
		if v.Can(may) {
			d.Steps = append(d.Steps, step{v.Path(path), text, description, done})
		}
	}
	add(account.MayUpload, "upload", "dashboard.step_upload", "dashboard.step_upload_text", d.All > 0)
	add(account.MayUpload, "bulk", "dashboard.step_bulk", "dashboard.step_bulk_text", d.Many)
	if v.Can(account.MayManageTemplates) {
		templates, err := p.Templates.List(r.Context(), v.Institution().ID, template.Filter{})
		if err != nil {
			return err
		}
		add(account.MayManageTemplates, "templates/new", "dashboard.step_template", "dashboard.step_template_text", len(templates) > 0)
	}
	if v.Can(account.MayManageSettings) {
		profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
		if err != nil {
			return err
		}
		add(account.MayManageSettings, "settings", "dashboard.step_logo", "dashboard.step_logo_text", profile.Logo != "")
	}
	if v.Can(account.MayManageTokens) {
		tokens, err := p.Tokens.List(r.Context(), v.Institution().ID)
		if err != nil {
			return err
		}
		add(account.MayManageTokens, "tokens/new", "dashboard.step_token", "dashboard.step_token_text", len(tokens) > 0)
	}
	add(account.MayManageWebhooks, "webhooks", "dashboard.step_webhook", "dashboard.step_webhook_text", len(d.Endpoints) > 0)
	return nil
}

// host returns the host of an endpoint's URL. If the URL cannot be parsed, host returns the whole
// URL.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}
