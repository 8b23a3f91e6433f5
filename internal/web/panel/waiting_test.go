package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/vaulttest"
)

// plannedMail creates a certificate whose mail waits for a time in a week, and returns the plan of the mail.
func (o *panelTest) plannedMail(t *testing.T, inst account.Institution) *recipient.Plan {
	t.Helper()
	at := o.Now().UTC().AddDate(0, 0, 7).Truncate(time.Minute)
	c := o.Upload(&inst, "Ada Planned", uuid.NewString()+".pdf", func(u *cert.Upload) { u.Title, u.Notify = uuid.NewString(), cert.Notify{At: at} })
	plan, err := o.Recipients.PlanOf(t.Context(), c)
	if err != nil || plan == nil || plan.At == nil || !plan.At.Equal(at) {
		t.Fatalf("the certificate has the plan %+v, error %v; want the time %s", plan, err, at)
	}
	return plan
}

// A member sees the waiting mail, changes its time, and stops it.
func TestWaitingMail(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	plan := o.plannedMail(t, o.inst)
	at, english := *plan.At, o.Languages.FirstOf("en")
	for _, path := range []string{"mail", "certificates/" + plan.Certificate} {
		checkPage(t, path, o.get("auditor", o.pathOf(path)), http.StatusOK, english.Time(at), "in your time zone")
	}
	form := o.pathOf("mail/" + plan.UUID)
	checkPage(t, "the form", o.get("issuer", form), http.StatusOK, "When is the mail sent?", "Send mail now")
	for name, bad := range map[string]url.Values{
		"Choose when the mail is sent":  {"notify": {"at"}},
		"This time has passed":          {"notify": {"at"}, "notify_at": {"2020-01-01T09:00"}},
		"This time is more than a year": {"notify": {"at"}, "notify_utc": {at.AddDate(2, 0, 0).Format(time.RFC3339)}},
	} {
		checkPage(t, name, o.post("issuer", form, bad), http.StatusUnprocessableEntity, name)
	}
	replace := o.get("issuer", o.pathOf("certificates/"+plan.Certificate+"/replace")).Header().Get("Location")
	replace = o.sendFiles(replace, "file", formFile{"b.pdf", slices.Concat(vaulttest.PDF, []byte("% b"))}).Header().Get("Location")
	if !strings.Contains(o.get("issuer", replace).Body.String(), `value="`+at.Format(inputTime)+`"`) {
		t.Error("the form for a replacement does not have the time of the waiting mail")
	}
	later := at.Add(time.Hour)
	w := o.post("issuer", form, url.Values{"notify": {"at"}, "notify_at": {"2020-01-01T09:00"}, "notify_utc": {later.Format(time.RFC3339)}})
	if w.Code != http.StatusSeeOther {
		t.Fatalf("the change of the time: status = %d, want 303", w.Code)
	}
	checkPage(t, "after the change", o.get("owner", o.pathOf("mail")), http.StatusOK, english.Time(later))
	if w := o.post("issuer", form, url.Values{"notify": {"never"}}); w.Code != http.StatusSeeOther {
		t.Fatalf("stopping the mail: status = %d, want 303", w.Code)
	}
	checkPage(t, "after the end", o.get("owner", o.pathOf("mail")), http.StatusOK, "No mail is waiting")
	checkPage(t, "the certificate", o.get("owner", o.pathOf("certificates/"+plan.Certificate)), http.StatusOK, "No mail is sent.")
	checkPage(t, "the audit log", o.get("owner", o.pathOf("audit")), http.StatusOK, "changed the time of the mail about a certificate")
	o.panel.Outbox = "/var/lib/certvault/outbox"
	w = o.followRedirect(t, "issuer", o.post("issuer", form, url.Values{"notify": {"now"}}), o.pathOf("mail"))
	checkPage(t, "mail that is sent now, without a mail server", w, http.StatusOK, "The mail was not sent: no mail server is configured.")
}

// recordMail stores mail about the approval of a certificate with the status "sent".
func (o *panelTest) recordMail(c *cert.Certificate) {
	o.tb.Helper()
	o.Exec(`INSERT INTO notices (certificate_id, occasion, institution_id, reason, email, email_folded, status, created_at, updated_at)
		VALUES ($1, 1, $2, 'approval', $3, $3, 'sent', 0, 0)`, c.ID, c.InstitutionID, c.Email)
}

// The form for a revocation notifies the recipient by default.
func TestRevocationsNotify(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.approvedCertificate(o.inst)
	mails := func() (n int) {
		if err := o.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM notices WHERE reason = 'revocation'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	revoke := o.pathOf("certificates/" + c.UUID + "/revoke")
	if body := o.get("owner", revoke).Body.String(); !strings.Contains(body, `name="notify" value="1" aria-describedby="notify-hint" checked`) {
		t.Error("the form for a revocation does not notify the recipient by default")
	}
	o.recordMail(c)
	if w := o.post("owner", revoke, url.Values{"reason": {"x"}, "notify": {"1"}}); w.Code != http.StatusSeeOther || mails() != 1 {
		t.Errorf("a revocation with a notice: status = %d with %d mails, want 303 with 1", w.Code, mails())
	}
	checkPage(t, "the revoked certificate", o.get("owner", o.pathOf("certificates/"+c.UUID)), http.StatusOK, "About the revocation")
	second := o.approvedCertificate(o.inst)
	o.recordMail(second)
	if w := o.post("owner", o.pathOf("certificates/"+second.UUID+"/revoke"), url.Values{"reason": {"x"}}); w.Code != http.StatusSeeOther || mails() != 1 {
		t.Errorf("a revocation without a notice: status = %d with %d mails, want 303 with 1", w.Code, mails())
	}
}

// If the chosen time has passed, the form for one certificate keeps the input and shows a problem. A
// future time is stored.
func TestIssueWithATime(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	path := o.pathOf("templates/" + o.Template(&o.inst, "Diploma", "guild").UUID + "/issue")
	at := o.Now().UTC().AddDate(0, 1, 0).Truncate(time.Minute)
	form := url.Values{
		"full_name": {"Ada Obi"}, "applicant_email": {"ada@example.org"}, "certificate_title": {"BSc"}, "notify": {"at"}, "notify_at": {"2020-01-01T09:00"},
	}
	w := o.post("issuer", path, form)
	checkPage(t, "a time that has passed", w, http.StatusUnprocessableEntity, "This time has passed")
	if body := w.Body.String(); !strings.Contains(body, `value="at" checked`) || !strings.Contains(body, `value="2020-01-01T09:00"`) {
		t.Error("the form does not keep the chosen time")
	}
	form.Set("notify_at", at.Format(inputTime))
	if w := o.post("issuer", path, form); w.Code != http.StatusSeeOther {
		t.Fatalf("a time in the future: status = %d, want 303; page %s", w.Code, visibleText(t, w))
	}
	checkPage(t, "the waiting mail", o.get("issuer", o.pathOf("mail")), http.StatusOK, o.Languages.FirstOf("en").Time(at))
}
