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

// asked submits a correction request for a certificate and returns it.
func (o *panelTest) asked(c *cert.Certificate, text string) string {
	o.tb.Helper()
	o.guests++
	p := o.person(fmt.Sprintf("holder%d", o.guests))
	if err := o.panel.Mail.RequestCorrection(o.tb.Context(), recipient.Person(p.ID, p.Name, p.Email), c, text); err != nil {
		o.tb.Fatal(err)
	}
	list, err := o.panel.Mail.CorrectionsOf(o.tb.Context(), c)
	if err != nil {
		o.tb.Fatal(err)
	}
	return list[0].UUID
}

// A correction request is shown to members until one of them closes it.
func TestCorrectionRequests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		c := o.approved(o.mine)
		theirs := o.approved(o.other)
		foreign := o.asked(theirs, "A stranger's wish.")
		says(t, "none", o.get("issuer", "/panel/nwu"), http.StatusOK, "Nothing needs you")
		id := o.asked(c, "It is Zoë, <b>not</b> Zoe.")
		for i := range shownCorrections + 1 {
			o.asked(c, fmt.Sprintf("Wish %d.", i))
		}
		w := o.get("auditor", "/panel/nwu")
		says(t, "dashboard", w, http.StatusOK, "Correction requests", c.FullName+" , "+c.Title, "It is Zoë, <b>not</b> Zoe.", "2 more requests wait.")
		if text := words(t, w); strings.Contains(text, "Nothing needs you") || strings.Contains(text, "stranger") {
			t.Errorf("the dashboard says %s", text)
		}
		at := o.pathOf("certificates/" + c.UUID)
		if o.follow(w, "<bdi>"+c.FullName+"</bdi>, <bdi>"+c.Title+"</bdi>") != at+"#corrections" {
			t.Error("the dashboard does not lead to the request")
		}
		w = o.get("issuer", at)
		says(t, "certificate", w, http.StatusOK, "It is Zoë, <b>not</b> Zoe.", "Mark as done")
		if !strings.Contains(w.Body.String(), `id="corrections"`) {
			t.Error("the link of the mail leads to no part of the page")
		}
		if strings.Contains(words(t, o.get("auditor", at)), "Mark as done") {
			t.Error("an auditor can close requests")
		}

		done := func(id string) string { return at + "/corrections/" + id + "/done" }
		for _, none := range []string{foreign, "no-request"} {
			if w := o.post("issuer", done(none), nil); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", none, w.Code)
			}
		}
		w = o.redirects(t, "issuer", o.post("issuer", done(id), nil), at)
		says(t, "done", w, http.StatusOK, "The request is marked as done.", "done just now", "A correction request was marked as done", "By Issuer Person")
		says(t, "once more", o.redirects(t, "issuer", o.post("issuer", done(id), nil), at), http.StatusOK, "The request is marked as done.")
		if !o.recorded(audit.CertificateMended) {
			t.Error("the deed is not recorded")
		}
		if text := words(t, o.get("auditor", "/panel/nwu")); strings.Contains(text, "Zoë") || !strings.Contains(text, "Wish 0.") {
			t.Errorf("the dashboard says %s", text)
		}
	})
}

// The vault sends no mail about a revocation, and the pages that revoke say so.
func TestRevocationSendsNoMail(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.approved(o.mine)
	at := o.pathOf("certificates/" + c.UUID)
	says(t, "asked", o.get("issuer", at+"/revoke"), http.StatusOK, "No mail is sent.", "The vault does not tell "+c.FullName+" : write to "+c.Email+" yourself", "Refresh the preview")
	says(t, "asked of many", o.post("issuer", o.pathOf("certificates/revoke"), url.Values{"selected": {c.UUID}}), http.StatusOK, "No mail is sent.", "write to them yourself")
	w := o.redirects(t, "issuer", o.post("issuer", at+"/revoke", url.Values{"reason": {"Issued in error."}}), at)
	says(t, "revoked", w, http.StatusOK, "No mail was sent: tell its person yourself.", "No mail was sent about the revocation", "Write to "+c.Email+" yourself")
	var mails int
	if err := o.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM mails`).Scan(&mails); err != nil || mails != 0 {
		t.Errorf("%d mails were written, %v", mails, err)
	}
}
