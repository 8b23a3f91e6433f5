package panel

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
)

// requestCorrection submits a correction request of a new person for a certificate, and returns the
// UUID of the request.
func (o *panelTest) requestCorrection(c *cert.Certificate, text string) string {
	o.tb.Helper()
	o.peopleCount++
	p := o.person(fmt.Sprintf("holder%d", o.peopleCount))
	if err := o.panel.Mail.RequestCorrection(o.tb.Context(), recipient.Person(p.ID, p.Name, p.Email), c, text); err != nil {
		o.tb.Fatal(err)
	}
	list, err := o.panel.Mail.CorrectionsOf(o.tb.Context(), c)
	if err != nil {
		o.tb.Fatal(err)
	}
	return list[0].UUID
}

// The dashboard and the page of the certificate show a correction request. After a member marks the
// request as done, the dashboard does not show the request any more.
func TestCorrectionRequests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		c := o.approvedCertificate(o.inst)
		other := o.approvedCertificate(o.other)
		foreign := o.requestCorrection(other, "A foreign request.")
		checkPage(t, "a dashboard without requests", o.get("issuer", "/panel/nwu"), http.StatusOK, "Nothing needs your attention")
		id := o.requestCorrection(c, "It is Zoë, <b>not</b> Zoe.")
		for i := range shownCorrections + 1 {
			o.requestCorrection(c, fmt.Sprintf("Request %d.", i))
		}
		w := o.get("auditor", "/panel/nwu")
		checkPage(t, "the dashboard", w, http.StatusOK, "Correction requests", c.FullName+" , "+c.Title, "It is Zoë, <b>not</b> Zoe.", "2 more requests are open.")
		if text := visibleText(t, w); strings.Contains(text, "Nothing needs your attention") || strings.Contains(text, "foreign") {
			t.Errorf("the dashboard shows a request to another institution, or says that nothing needs attention: %s", text)
		}
		at := o.pathOf("certificates/" + c.UUID)
		if o.linkTo(w, "<bdi>"+c.FullName+"</bdi>, <bdi>"+c.Title+"</bdi>") != at+"#corrections" {
			t.Error("the dashboard has no link to the requests on the page of the certificate")
		}
		w = o.get("issuer", at)
		checkPage(t, "the page of the certificate", w, http.StatusOK, "It is Zoë, <b>not</b> Zoe.", "Mark as done")
		if !strings.Contains(w.Body.String(), `id="corrections"`) {
			t.Error("the page has no element with the id corrections")
		}
		if strings.Contains(visibleText(t, o.get("auditor", at)), "Mark as done") {
			t.Error("the page for an auditor has the button to mark requests as done")
		}

		done := func(id string) string { return at + "/corrections/" + id + "/done" }
		for _, unknown := range []string{foreign, "no-request"} {
			if w := o.post("issuer", done(unknown), nil); w.Code != http.StatusNotFound {
				t.Errorf("marking the unknown request %s as done: status = %d, want 404", unknown, w.Code)
			}
		}
		w = o.followRedirect(t, "issuer", o.post("issuer", done(id), nil), at)
		checkPage(t, "after closing the request", w, http.StatusOK, "The request was marked as done.", "done just now", "Correction request marked as done", "By Issuer Person")
		checkPage(t, "closing the request twice", o.followRedirect(t, "issuer", o.post("issuer", done(id), nil), at), http.StatusOK, "The request was marked as done.")
		if !o.hasAuditEntry(audit.CorrectionClosed) {
			t.Error("the audit log has no entry for the request that was marked as done")
		}
		if text := visibleText(t, o.get("auditor", "/panel/nwu")); strings.Contains(text, "Zoë") || !strings.Contains(text, "Request 0.") {
			t.Errorf("the dashboard shows the request that is done, or lacks the oldest open request: %s", text)
		}
	})
}

// A recipient who got no mail about a certificate gets no mail about its revocation. The forms for
// revocations and the page of the revoked certificate show this.
func TestRevocationOfAnUnknownCertificateSendsNoMail(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.approvedCertificate(o.inst)
	at := o.pathOf("certificates/" + c.UUID)
	checkPage(t, "the revocation form", o.get("issuer", at+"/revoke"), http.StatusOK, "It is not sent if the recipient was never notified of the certificate.", "Refresh preview")
	checkPage(t, "the revocation form for many certificates", o.post("issuer", o.pathOf("certificates/revoke"), url.Values{"selected": {c.UUID}}), http.StatusOK,
		"Recipients who were never notified of their certificate get none.")
	w := o.followRedirect(t, "issuer", o.post("issuer", at+"/revoke", url.Values{"reason": {"Issued in error."}}), at)
	checkPage(t, "after the revocation", w, http.StatusOK, "The certificate was revoked, and the public page shows it.", "The recipient was not notified of the revocation. Write to "+c.Email)
	var mails int
	if err := o.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM mails`).Scan(&mails); err != nil || mails != 0 {
		t.Errorf("got %d mails, want 0; error %v", mails, err)
	}
}
