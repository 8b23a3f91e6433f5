package panel

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// The page after an upload shows the state of the certificate. If the vault has no mail server, the page
// says that the recipient is not notified. The event stream ends with the final state.
func TestPageAfterUpload(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	waiting := o.pathOf("certificates/" + o.upload(o.inst, "Ada Obi", "a.pdf").UUID)
	checkPage(t, "processing", o.get("issuer", waiting+"/uploaded"), http.StatusOK, "Issuing the certificate of Ada Obi", "is notified", "Upload another")
	if body := o.get("issuer", waiting+"/uploaded").Body.String(); !strings.Contains(body, `data-live="`+waiting+`/events"`) || !strings.Contains(body, "<noscript><meta http-equiv") {
		t.Error("the page of a certificate in processing has no event stream, or does not refresh without a script")
	}
	o.panel.Outbox = "/var/lib/certvault/outbox"
	checkPage(t, "processing without mail", o.get("issuer", waiting+"/uploaded"), http.StatusOK, "the recipient is not notified")
	approved := o.pathOf("certificates/" + o.approvedCertificate(o.inst).UUID)
	w := o.get("issuer", approved+"/uploaded")
	checkPage(t, "approved without mail", w, http.StatusOK, "was issued", "the recipient was not notified")
	if !strings.Contains(w.Body.String(), `<p class="note wait" role="status">No mail server`) {
		t.Error("the note that the recipient was not notified is not a warning")
	}
	w = o.get("issuer", approved+"/events")
	var state uploadState
	text, _ := strings.CutPrefix(strings.TrimSpace(w.Body.String()), "data: ")
	if err := json.Unmarshal([]byte(text), &state); err != nil || w.Header().Get("Content-Type") != "text/event-stream" || !state.Finished || state.Status != "approved" || state.Tone != "wait" {
		t.Errorf("the event stream = %q, error %v; want one event of an approved certificate with the tone wait", w.Body, err)
	}
	o.panel.Outbox = ""
	checkPage(t, "approved", o.get("issuer", approved+"/uploaded"), http.StatusOK, "was issued", "is notified by e-mail")
	o.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = 1, revocation_reason = 'x' WHERE status = 'approved'`)
	checkPage(t, "revoked", o.get("issuer", approved+"/uploaded"), http.StatusOK, "was revoked")
	body := o.get("issuer", approved).Body.String()
	if !strings.Contains(body, `<a class="button quiet" href="`+approved+`/verified.pdf"`) {
		t.Error("the page of a revoked certificate has no secondary button for the download")
	}
	if !strings.Contains(body, "person.<wbr>1@<wbr>example.<wbr>org</bdi></dd>") {
		t.Error("the address has no positions for line breaks after @ and dots")
	}
	if strings.Contains(body, "/events") {
		t.Error("the page of a processed certificate has an event stream")
	}
	w = o.get("issuer", waiting)
	if body := w.Body.String(); w.Header().Get("Refresh") != "" || !strings.Contains(body, `data-progress="`+waiting+`/events"`) {
		t.Error("the page of a certificate in processing reloads, or has no event stream")
	}
}

// The query parameter like copies the title and the issue date of a certificate to the form, in both
// steps of the upload without a script. A certificate of another institution fills no field.
func TestUploadAnother(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c, foreign := o.approvedCertificate(o.inst), o.approvedCertificate(o.other)
	want := []string{`name="certificate_title" type="text" value="` + c.Title + `"`, `name="issue_date" type="date" value="` + c.IssueDate + `"`, `name="full_name" type="text" value=""`}
	check := func(what, at string) {
		t.Helper()
		body := o.get("issuer", at).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: the page lacks %s", what, text)
			}
		}
	}
	first := o.pathOf("upload") + "?like=" + c.UUID
	check("the first step", first)
	second := o.sendFiles(first, "file", formFile{"b.pdf", slices.Concat(vaulttest.PDF, []byte("% b"))}).Header().Get("Location")
	check("the second step", second)
	for _, query := range []string{foreign.UUID, "x", "00000000-0000-4000-8000-000000000000"} {
		w := o.get("issuer", o.pathOf("upload")+"?"+url.Values{"like": {query}}.Encode())
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `name="certificate_title" type="text" value=""`) {
			t.Errorf("like=%s: status = %d, want 200 and an empty field for the title", query, w.Code)
		}
	}
}

// The button that issues the certificate names the e-mail address only if the vault has a mail server.
func TestIssueButton(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.stageFile(o.inst))
	if body := o.get("issuer", at).Body.String(); !strings.Contains(body, `data-send="Issue and send to {email}"`) {
		t.Error("the button lacks the text with the address")
	}
	o.panel.Outbox = "/var/lib/certvault/outbox"
	if body := o.get("issuer", at).Body.String(); strings.Contains(body, "Issue and send") {
		t.Error("the button says that mail is sent, but there is no mail server")
	}
}

// The fields are filled from the text of the file. If the file does not contain the name, the page shows
// a warning, but the certificate can be issued.
func TestTextOfUploadedFile(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	file := slices.Concat(vaulttest.PDF, []byte("\n(This certifies that) Tj\n(Grace Hopper) Tj\n(21 November 2026) Tj\n"))
	at := o.sendFiles(o.pathOf("upload"), "file", formFile{"grace.pdf", file}).Header().Get("Location")
	w := o.get("issuer", at)
	checkPage(t, "the filled fields", w, http.StatusOK, "Some fields were filled in from the text of the file")
	for _, want := range []string{`name="full_name" type="text" value="Grace Hopper"`, `name="issue_date" type="date" value="2026-11-21"`, `<option value="Grace Hopper">`} {
		if body := w.Body.String(); !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	const warning = "Ada Obi does not appear in this file"
	for name, want := range map[string]string{"Ada Obi": warning + ". Please check the name and the file.", "hopper GRACE": "", " ": ""} {
		w := o.post("issuer", at+"/name", url.Values{"full_name": {name}})
		if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("the warning about %q: status = %d, text %q, want 200 and %q", name, w.Code, w.Body, want)
		}
	}
	form := url.Values{"certificate_title": {"BSc"}, "full_name": {"Ada Obi"}, "applicant_email": {"ada"}}
	checkPage(t, "an invalid form", o.post("issuer", at, form), http.StatusUnprocessableEntity, warning)
	form.Set("applicant_email", "ada@example.org")
	w = o.post("issuer", at, form)
	checkPage(t, "the page after the upload", o.get("issuer", w.Header().Get("Location")), http.StatusOK, warning, "Issuing the certificate")
	if w := o.post("outsider", strings.Replace(at, o.inst.Slug, o.other.Slug, 1)+"/name", form); w.Code != http.StatusNotFound {
		t.Errorf("the warning for another institution: status = %d, want 404", w.Code)
	}
}
