package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
)

// waitingRoutes returns the routes for mail that waits for a chosen time.
func (p *Panel) waitingRoutes() []route {
	const one = "/panel/{institution}/mail/{plan}"
	return []route{
		{pattern: "GET /panel/{institution}/mail", may: account.MayView, handler: p.waitingMail},
		{pattern: "GET " + one, may: account.MayUpload, handler: p.planForm},
		{pattern: "POST " + one, may: account.MayUpload, handler: p.changePlan},
	}
}

// inputTime is the format of a control for a date and a time.
const inputTime = "2006-01-02T15:04"

// notifyOf returns when recipients are notified, from the values of a form. A script converts the local
// time in the control notify_at to UTC and sets notify_utc. Without a script, people enter UTC in
// notify_at.
func notifyOf(form url.Values) cert.Notify {
	if form.Get("notify") != "at" {
		return cert.ReadNotify(form.Get("notify"))
	}
	if text := form.Get("notify_utc"); text != "" {
		return cert.ReadNotify(text)
	}
	at, err := time.Parse(inputTime, form.Get("notify_at"))
	if err != nil {
		return cert.ReadNotify("at") // not a time, so Notify.Check returns a problem
	}
	return cert.Notify{At: at}
}

// setNotify sets the values of a form from which notifyOf returns n.
func setNotify(form url.Values, n cert.Notify) {
	if n.At.IsZero() {
		form.Set("notify", n.String())
		return
	}
	form.Set("notify", "at")
	form.Set("notify_at", n.At.UTC().Format(inputTime))
}

// notifyChoice is the data of the controls for the time of mail.
type notifyChoice struct {
	// Choice is "now", "at" or "never". Time is the time in UTC in the format inputTime, or "".
	Choice, Time string
	// Legend is the key of the legend, and Now is the key of the label for the choice "now".
	Legend, Now string
}

// notifyChoiceOf returns the controls with the values of a form.
func notifyChoiceOf(form url.Values, legend, now string) *notifyChoice {
	n := &notifyChoice{Choice: form.Get("notify"), Time: form.Get("notify_at"), Legend: legend, Now: now}
	if n.Choice != "at" && n.Choice != "never" {
		n.Choice = "now"
	}
	if at, err := time.Parse(time.RFC3339, form.Get("notify_utc")); err == nil {
		n.Time = at.UTC().Format(inputTime)
	}
	return n
}

// Notify returns the controls for the time of the mail.
func (u *uploadPage) Notify() *notifyChoice {
	return notifyChoiceOf(u.Fields, "notices.legend", "notices.now")
}

// Notify returns the controls for the time of the mail.
func (d *issuePage) Notify() *notifyChoice {
	return notifyChoiceOf(d.Fields, "notices.legend", "notices.now")
}

// Notify returns the controls for the time of the mail.
func (d *dryRunView) Notify() *notifyChoice {
	return notifyChoiceOf(d.form, "notices.legend_many", "notices.now_many")
}

// planNote is the data of the line about waiting mail on a page. Plan may be nil.
type planNote struct {
	Visit *Visit
	*recipient.Plan
	// OfBatch reports whether the line is on the page of one certificate that belongs to a batch.
	OfBatch bool
}

// waitingPage is the data of the page that lists the waiting mail of an institution. More reports whether
// there are further plans, which the page does not list.
type waitingPage struct {
	Visit *Visit
	Plans []*recipient.Plan
	More  bool
}

// Path returns the address of the certificate or the batch of a plan.
func (w *waitingPage) Path(p *recipient.Plan) string { return planPath(w.Visit, p) }

func planPath(v *Visit, p *recipient.Plan) string {
	if p.Batch != "" {
		return v.Path("certificates") + "?batch=" + url.QueryEscape(p.Batch)
	}
	return v.Path("certificates/" + p.Certificate)
}

// waitingMail lists the mail of an institution that waits for a chosen time.
func (p *Panel) waitingMail(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page := &waitingPage{Visit: v}
	var err error
	if page.Plans, page.More, err = p.Mail.Plans(r.Context(), v.Institution().ID); err != nil {
		return err
	}
	return p.draw(w, r, "mail.html", page)
}

// planPage is the data of the form for the time at which mail is sent.
type planPage struct {
	Visit  *Visit
	Plan   *recipient.Plan
	Notify *notifyChoice
}

// Path returns the address of the certificate or the batch.
func (d *planPage) Path() string { return planPath(d.Visit, d.Plan) }

func (p *Panel) planPage(r *http.Request, v *Visit, form url.Values) (*planPage, error) {
	plan, err := p.Mail.Plan(r.Context(), v.Institution().ID, strings.ToLower(r.PathValue("plan")))
	if err != nil {
		return nil, err
	}
	if form == nil {
		form = url.Values{}
		setNotify(form, plan.Notify())
	}
	return &planPage{v, plan, notifyChoiceOf(form, "notices.change_of", "notices.send_now")}, nil
}

// planForm shows the form for the time at which mail is sent.
func (p *Panel) planForm(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.planPage(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "mail_change.html", d)
}

// changePlan changes the time at which mail is sent, or stops the mail.
func (p *Panel) changePlan(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.planPage(r, v, r.PostForm)
	if err != nil {
		return err
	}
	n := notifyOf(r.PostForm)
	if err := p.Mail.ChangePlan(r.Context(), v.Institution().ID, d.Plan.UUID, n); err != nil {
		if fault.Is(err, fault.BadRequest) {
			err = fault.New(fault.BadRequest, "notices.left")
		}
		return p.showAgain(w, r, "mail_change.html", d, err)
	}
	notice := "mail_moved"
	switch {
	case n.Now():
		notice = "mail_leaves"
	case n.Never:
		notice = "mail_stopped"
	}
	return p.redirect(w, r, v, "mail", notice)
}

// planKey returns the key of the text that says when the mail about a new certificate is sent.
func planKey(p *recipient.Plan) string {
	if p.At == nil {
		return "notices.done_never"
	}
	return "notices.done_at"
}

// PlanNote returns the line about the waiting mail of a batch.
func (l *progressView) PlanNote(batchID string) planNote {
	return planNote{Visit: l.Visit, Plan: l.Plans[batchID]}
}

// PlanNote returns the line about the waiting mail of the batch if the list shows only one batch.
func (l *certificateList) PlanNote() planNote { return planNote{Visit: l.Visit, Plan: l.Plan} }

// PlanNote returns the line about the waiting mail of the certificate.
func (c *certificatePage) PlanNote() planNote {
	return planNote{Visit: c.Visit, Plan: c.Plan, OfBatch: c.C.BatchID != ""}
}

// ToldRevoked reports whether there is mail about the revocation that was neither dropped nor omitted
// because of an unsubscribed address.
func (c *certificatePage) ToldRevoked() bool {
	return slices.ContainsFunc(c.Mails, func(m *recipient.Notice) bool {
		return m.Reason == recipient.Revocation && m.Status != recipient.Unsubscribed && m.Status != recipient.Dropped
	})
}
