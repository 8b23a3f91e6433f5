package panel

import (
	"bytes"
	"image"
	"image/png"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/vaulttest"
)

func TestDashboard(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "a new institution", o.get("owner", "/panel/nwu"), http.StatusOK, "Get started", "Upload the first certificate", "Upload many certificates", "Create an API token", "Add a webhook", "No certificates were created in the last 30 days")
		// The page shows a step only to members who may do it.
		if text := visibleText(t, o.get("issuer", "/panel/nwu")); strings.Contains(text, "Create an API token") || !strings.Contains(text, "Upload the first certificate") {
			t.Errorf("dashboard of an issuer = %s, want the step to upload and no step to create an API token", text)
		}
		ada := o.upload(o.inst, "Ada Obi", "a.pdf")
		o.upload(o.inst, "Ben Two", "refuse.pdf")
		o.upload(o.other, "A Foreign Student", "refuse.pdf")
		o.processAll()
		if _, _, err := o.panel.Hooks.Create(t.Context(), o.inst.ID, "https://hooks.example/private?key=secret", nil); err != nil {
			t.Fatal(err)
		}
		w := o.get("owner", "/panel/nwu")
		checkPage(t, "an institution with certificates", w, http.StatusOK, "1 Approved", "1 Failed", "Last 30 days: 1 approved, 1 failed.", "1 certificate no_room There is no room for the stamp.",
			"hooks.example Active", "All 30 days 2 1 1 0", "Upload the first certificate Done")
		body := w.Body.String()
		for _, want := range []string{`href="/panel/nwu/certificates?failure=no_room&amp;status=failed"`, `role="img"`, `aria-labelledby="chart-says"`, `<title>`} {
			if !strings.Contains(body, want) {
				t.Errorf("the dashboard lacks %s", want)
			}
		}
		if strings.Contains(body, "secret") || strings.Contains(body, "style=") || strings.Contains(body, "Foreign") {
			t.Error("the dashboard contains a secret, an inline style or data of another institution")
		}
		checkPage(t, "the certificates of a failure", o.get("owner", "/panel/nwu/certificates?failure=no_room&status=failed"), http.StatusOK, "Cause of failure: no_room", "Ben Two", "All 1")
		checkPage(t, "a period of a year", o.get("auditor", "/panel/nwu?days=365"), http.StatusOK, "Certificates per week", "Last 365 days: 1 approved", "All 365 days 2 1 1 0")
		checkPage(t, "an unknown period", o.get("auditor", "/panel/nwu?days=7"), http.StatusOK, "Last 30 days:")

		// The dashboard links undelivered mail to the page of the certificate.
		if w := o.post("issuer", "/panel/nwu/certificates/"+ada.UUID+"/resend", nil); w.Code != http.StatusSeeOther {
			t.Fatalf("sending the mail again: status = %d, want 303; page %s", w.Code, visibleText(t, w))
		}
		o.Exec(`UPDATE notices SET status = 'failed', error = 'The mailbox is full.'`)
		w = o.get("auditor", "/panel/nwu")
		checkPage(t, "undelivered mail", w, http.StatusOK, "Undelivered mail", "Ada Obi", "The mailbox is full.")
		if !strings.Contains(w.Body.String(), "/panel/nwu/certificates/"+ada.UUID+"#mail") {
			t.Error("the undelivered mail has no link to its certificate")
		}
		checkPage(t, "the dashboard of another institution", o.get("outsider", "/panel/sec"), http.StatusOK, "1 Failed")
		if text := visibleText(t, o.get("outsider", "/panel/sec")); strings.Contains(text, "Ada") || strings.Contains(text, "hooks.example") {
			t.Errorf("the dashboard of another institution contains data of the test's institution: %s", text)
		}
	})
}

// hasAuditEntry reports whether the audit log of the test's institution has an entry with the action, and
// the actor of the newest such entry is a user.
func (o *panelTest) hasAuditEntry(action audit.Action) bool {
	o.tb.Helper()
	list, _, err := o.panel.Audit.List(o.tb.Context(), o.inst.ID, audit.Filter{Action: string(action)}, "", 10)
	if err != nil {
		o.tb.Fatal(err)
	}
	return len(list) > 0 && list[0].Actor.Type == audit.User
}

func TestMailOfACertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	o.processAll()
	// Simulate a certificate that an earlier release of Certvault approved without sending mail.
	o.Exec(`DELETE FROM notices`)
	at := "certificates/" + c.UUID
	checkPage(t, "a certificate without mail", o.get("issuer", o.pathOf(at)), http.StatusOK, "The recipient was not notified.", "Send mail again", "Correct the address")
	if text := visibleText(t, o.get("auditor", o.pathOf(at))); strings.Contains(text, "Send mail again") {
		t.Error("the page for an auditor has the button to send mail")
	}
	w := o.followRedirect(t, "issuer", o.post("issuer", o.pathOf(at)+"/resend", nil), o.pathOf(at))
	checkPage(t, "after sending the mail again", w, http.StatusOK, "The mail will be sent again.", "Requested again: ada.obi@example.org", "Mail requested again")
	checkPage(t, "an invalid address", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"not an address"}}), http.StatusUnprocessableEntity, "This e-mail address has no @.")
	checkPage(t, "an unchanged address", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"ada.obi@example.org"}}), http.StatusUnprocessableEntity, "The certificate already has this address.")
	w = o.followRedirect(t, "issuer", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"ada@example.net"}}), o.pathOf(at))
	checkPage(t, "after correcting the address", w, http.StatusOK, "The address was corrected.", "To the corrected address: ada@example.net", "E-mail address corrected", "Issuer Person")
	if !o.hasAuditEntry(audit.CertificateMailed) || !o.hasAuditEntry(audit.CertificateAddress) {
		t.Error("the audit log lacks the mail or the correction of the address")
	}
}

// The page of a certificate contains a preview of the public page.
func TestPreviewOfThePublicPage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	good, bad := o.upload(o.inst, "Ada Obi", "a.pdf"), o.upload(o.inst, "Ben Two", "refuse.pdf")
	o.processAll()
	at := o.pathOf("certificates/" + good.UUID)
	checkPage(t, "a valid certificate", o.get("auditor", at), http.StatusOK, "This certificate is valid", "Issued by Northern & Western University (NWU) . It has not been revoked.")
	checkPage(t, "a failed certificate", o.get("auditor", o.pathOf("certificates/"+bad.UUID)), http.StatusOK, "Certificate not found")
	checkPage(t, "the signature of the file", o.get("auditor", at+"?signature=1"), http.StatusOK, "Valid", "Checked just now.")
	w := o.post("signatory", at+"/revoke", url.Values{"reason": {"Issued to <b>the wrong</b> person."}, "look": {"1"}})
	checkPage(t, "the preview of the revocation", w, http.StatusOK, "Revoked on "+o.Now().Format("2 January 2006"), "Northern & Western University (NWU) has revoked this certificate. It is no longer valid.",
		"Reason stated by the institution Issued to <b>the wrong</b> person.")
	o.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
	checkPage(t, "a failed check", o.get("auditor", at), http.StatusOK, "A check failed")
	o.Exec(`DELETE FROM certificate_checks`)
	checkPage(t, "a check that did not run", o.get("auditor", at), http.StatusOK, "The file and its signature could not be checked at the moment")
	if w := o.post("signatory", at+"/revoke", url.Values{"reason": {"Issued in error."}}); w.Code != http.StatusSeeOther {
		t.Fatalf("the revocation: status = %d, want 303; page %s", w.Code, visibleText(t, w))
	}
	checkPage(t, "a revoked certificate", o.get("auditor", at), http.StatusOK, "Revoked on ", "Reason stated by the institution Issued in error.", "By Signatory Person")
}

// The panel does not send a damaged file. After the file is restored, the panel sends it, and a member can
// check it again.
func TestDamagedFileInThePanel(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	o.processAll()
	at := o.pathOf("certificates/" + c.UUID)
	if w := o.get("auditor", at+"/verified.pdf"); w.Code != http.StatusOK {
		t.Fatalf("the intact file: status = %d, want 200", w.Code)
	}
	const note = "A stored file is damaged or missing, so it cannot be downloaded."
	if text := visibleText(t, o.get("auditor", at)); strings.Contains(text, note) {
		t.Errorf("the page of an intact file reports damage: %s", text)
	}
	blobtest.Replace(t, o.Blobs, c.File.Key, "another file")
	w := o.followRedirect(t, "auditor", o.post("auditor", at+"/check", nil), at)
	checkPage(t, "the check of a damaged file", w, http.StatusOK, "The stored files were checked.", note, "Stored file is unchanged No", "By Auditor Person")
	for _, file := range []string{"verified.pdf", "original", "page.png"} {
		checkPage(t, file, o.get("auditor", at+"/"+file), http.StatusInternalServerError, "The stored file is damaged or missing, so it cannot be shown.")
	}
	checkPage(t, "the signature of a damaged file", o.get("auditor", at+"?signature=1"), http.StatusOK, "The file could not be read at the moment.", note)
	blobtest.Replace(t, o.Blobs, c.File.Key, string(vaulttest.PDF))
	if w := o.get("auditor", at+"/verified.pdf"); w.Code != http.StatusOK {
		t.Errorf("the restored file: status = %d, want 200", w.Code)
	}
	w = o.followRedirect(t, "auditor", o.post("auditor", at+"/check", nil), at)
	checkPage(t, "the check of the restored file", w, http.StatusOK, "Stored file is unchanged Yes")
	if text := visibleText(t, w); strings.Contains(text, note) {
		t.Errorf("the page of the restored file reports damage: %s", text)
	}
	if !o.hasAuditEntry(audit.CertificateChecked) {
		t.Error("the audit log lacks the checks of the member")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings")
		checkPage(t, "the initial settings", o.get("admin", page), http.StatusOK, "NWU", "Preview of the public page", "English", "https://vault.example Printed on every certificate.")
		w := o.followRedirect(t, "admin", o.send(o.settingsForm(url.Values{"name": {" Northern University "}, "mail_language": {"de"}}, nil)), page)
		checkPage(t, "after changing the name", w, http.StatusOK, "The settings were saved.")
		profile, err := o.panel.Accounts.PublicProfile(t.Context(), o.inst.ID)
		if err != nil || profile.Name != "Northern University" {
			t.Errorf("public profile = %+v, error %v, want the name Northern University", profile, err)
		}
		if tag, err := o.panel.Accounts.MailLanguage(t.Context(), o.inst.ID); err != nil || tag != "de" {
			t.Errorf("language of mail = %q, error %v, want de", tag, err)
		}
		for name, form := range map[string]url.Values{
			"The name must have 1 to 255 characters.": {"name": {" "}, "mail_language": {"de"}},
			"The language must be one":                {"name": {"Northern University"}, "mail_language": {"xx"}},
			"looks the same as the name of another institution of this vault, with the prefix SEC": {"name": {"S\u03bfuth East College"}, "mail_language": {"de"}, "allow_same_name": {"1"}},
			"The name has an invisible character":                                                  {"name": {"Northern\u200bUniversity"}, "mail_language": {"de"}},
		} {
			checkPage(t, name, o.send(o.settingsForm(form, nil)), http.StatusUnprocessableEntity, name)
		}
		// If one value of a form is invalid, no value of the form is saved.
		for _, form := range []url.Values{
			{"name": {"Another"}, "mail_language": {"xx"}}, {"name": {" "}, "mail_language": {"fr"}}, {"name": {"Another"}, "mail_language": {"fr"}, "colour": {"#ffcc00"}},
		} {
			if w := o.send(o.settingsForm(form, nil)); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%v: status = %d, want 422", form, w.Code)
			}
			now, err := account.ReadSettings(t.Context(), d, o.inst.ID)
			if err != nil || now.Name != "Northern University" || now.MailLanguage != "de" {
				t.Errorf("after the form %v: settings = %+v, error %v, want the unchanged name and language", form, now, err)
			}
		}

		form := url.Values{"name": {"Northern University"}, "mail_language": {"de"}, "colour": {"#ffcc00"}}
		if !strings.Contains(o.get("admin", page).Body.String(), `<input type="color" value="#0b5d4b"`) {
			t.Error("the initial value of the colour picker is not the default colour #0b5d4b")
		}
		checkPage(t, "a light colour", o.send(o.settingsForm(form, nil)), http.StatusUnprocessableEntity, "is too light", "The nearest shade that is dark enough is #")
		form.Set("colour", "#1a237e")
		form.Set("name", "Southern University")
		form.Set("look", "1")
		w = o.send(o.settingsForm(form, nil))
		checkPage(t, "a preview of a colour", w, http.StatusOK, "changes that are not saved yet", "a lighter shade is used", "Southern University This certificate is valid")
		if n := strings.Count(w.Body.String(), `fill="#1a237e"`); n != 2 {
			t.Errorf("the preview contains the colour %d times, want 2: the band and the button on the light page", n)
		}
		if profile, err = o.panel.Accounts.PublicProfile(t.Context(), o.inst.ID); err != nil || profile.Colour != "" || profile.Name != "Northern University" {
			t.Errorf("after the preview: public profile = %+v, error %v, want no colour and the old name", profile, err)
		}
		form.Del("look")
		form.Set("colour", "#1A237E")
		checkPage(t, "a saved colour", o.followRedirect(t, "admin", o.send(o.settingsForm(form, nil)), page), http.StatusOK, "The settings were saved.", "a lighter shade is used")
		if !strings.Contains(o.get("admin", page).Body.String(), `<input type="color" value="#1a237e"`) {
			t.Error("the initial value of the colour picker is not the saved colour")
		}
		if profile, err = o.panel.Accounts.PublicProfile(t.Context(), o.inst.ID); err != nil || profile.Colour != "#1a237e" || profile.Name != "Southern University" {
			t.Errorf("public profile = %+v, error %v, want the submitted colour and name", profile, err)
		}

		checkPage(t, "the public profile", o.get("admin", page+"/public"), http.StatusOK, "Hide the recipient's name")
		checkPage(t, "settings that exclude each other", o.post("admin", page+"/public", url.Values{"hide_name": {"1"}, "image": {"1"}}), http.StatusUnprocessableEntity, "not both")
		o.followRedirect(t, "admin", o.post("admin", page+"/public", url.Values{"image": {"1"}, "contact": {"registry@example.org"}, "linkedin": {"linkedin.com/company/1234567/admin"}}), page+"/public")
		if profile, err = o.panel.Accounts.PublicProfile(t.Context(), o.inst.ID); err != nil || !profile.AllowImage || profile.AllowDownload || profile.Contact != "registry@example.org" || profile.LinkedIn != "1234567" {
			t.Errorf("public profile = %+v, error %v, want the image, no download, the contact registry@example.org and the LinkedIn page 1234567", profile, err)
		}

		stamps := page + "/stamps"
		for problem, form := range map[string]url.Values{
			"The placement must be one of":     {"placement": {"middle"}, "placement_page": {"1"}},
			"Enter a page number of 1 or more": {"placement": {"auto"}, "placement_page": {"x"}},
			"four numbers from 0 to 100":       {"placement": {"exact"}, "placement_page": {"1"}, "x": {"x"}, "y": {"1"}, "width": {"2"}, "height": {"3"}},
			"must be greater than 0":           {"placement": {"exact"}, "placement_page": {"1"}, "x": {"80"}, "y": {"80"}, "width": {"0"}, "height": {"10"}},
		} {
			checkPage(t, problem, o.post("admin", stamps, form), http.StatusUnprocessableEntity, problem)
		}
		o.followRedirect(t, "admin", o.post("admin", stamps, url.Values{
			"placement": {"exact"}, "placement_page": {"2"}, "x": {"70"}, "y": {"80,5 %"}, "width": {"20"}, "height": {"14.5"}, "refuse_active": {"1"},
		}), stamps)
		policy, err := o.panel.Certs.Policy(t.Context(), o.inst.ID)
		if err != nil || policy.Placement != seal.Exact || policy.Page != 2 || *policy.Box != (seal.Box{0.7, 0.805, 0.9, 0.95}) || !policy.RefuseActive {
			t.Errorf("saved policy = %+v, error %v, want the submitted box on page 2, and no files with active content", policy, err)
		}
		if body := o.get("admin", stamps).Body.String(); !strings.Contains(body, `value="80.5"`) {
			t.Error("the form does not show the saved value 80.5")
		}
		if other, err := o.panel.Certs.Policy(t.Context(), o.other.ID); err != nil || *other != (cert.Policy{Placement: seal.Auto, Page: 1}) {
			t.Errorf("policy of another institution = %+v, error %v, want the initial policy", other, err)
		}
		if !o.hasAuditEntry(audit.InstitutionChanged) {
			t.Error("the audit log lacks the changes of the settings")
		}
	})
}

// settingsForm returns a request that submits the settings form as an admin. The form shows the saved settings,
// unless values has others. file is the content of the field logo, which is empty if file is nil.
func (o *panelTest) settingsForm(values url.Values, file []byte) *http.Request {
	o.tb.Helper()
	saved, err := account.ReadSettings(o.tb.Context(), o.DB, o.inst.ID)
	if err != nil {
		o.tb.Fatal(err)
	}
	values = maps.Clone(values)
	for name, value := range map[string]string{"shown_name": saved.Name, "shown_mail_language": saved.MailLanguage, "shown_colour": saved.Colour} {
		if !values.Has(name) {
			values.Set(name, value)
		}
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for name := range values {
		if err := form.WriteField(name, values.Get(name)); err != nil {
			o.tb.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("logo", "logo.png")
	if err != nil {
		o.tb.Fatal(err)
	}
	if _, err := part.Write(file); err != nil {
		o.tb.Fatal(err)
	}
	if err := form.Close(); err != nil {
		o.tb.Fatal(err)
	}
	r := o.request("admin", http.MethodPost, o.pathOf("settings"), nil)
	upload, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://vault.example"+o.pathOf("settings"), &b)
	if err != nil {
		o.tb.Fatal(err)
	}
	upload.TLS, upload.RemoteAddr, upload.Header = r.TLS, r.RemoteAddr, r.Header
	upload.Header.Set("Content-Type", form.FormDataContentType())
	return upload
}

func TestLogoInSettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 60, 20))); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"name": {"Third University"}, "mail_language": {"fr"}}
	checkPage(t, "a file that is no picture", o.send(o.settingsForm(form, []byte("<svg onload=alert(1)>"))), http.StatusUnprocessableEntity, "must be a PNG or JPEG file", "Third University")
	checkPage(t, "a large logo", o.send(o.settingsForm(form, make([]byte, maxLogoForm))), http.StatusUnprocessableEntity, "at most 1 MB")
	if profile, err := o.panel.Accounts.PublicProfile(t.Context(), o.inst.ID); err != nil || profile.Name == "Third University" {
		t.Errorf("public profile = %+v, error %v, want the old name after a rejected logo", profile, err)
	}
	w := o.followRedirect(t, "admin", o.send(o.settingsForm(form, logo.Bytes())), o.pathOf("settings"))
	checkPage(t, "a saved logo", w, http.StatusOK, "The settings were saved.", "Remove logo")
	if !strings.Contains(w.Body.String(), `src="/logos/nwu/`) {
		t.Error("the preview does not contain the logo")
	}
	w = o.followRedirect(t, "admin", o.send(o.settingsForm(form, nil)), o.pathOf("settings"))
	if !strings.Contains(w.Body.String(), `src="/logos/nwu/`) {
		t.Error("a form without a file removed the logo")
	}
	form.Set("remove_logo", "1")
	w = o.followRedirect(t, "admin", o.send(o.settingsForm(form, nil)), o.pathOf("settings"))
	if strings.Contains(w.Body.String(), `src="/logos/nwu/`) || strings.Contains(visibleText(t, w), "Remove logo") {
		t.Error("the logo was not removed")
	}
}

// The script of the settings requests the colours of the preview as JSON.
func TestColoursOfThePreview(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, test := range []struct{ colour, want string }{
		{"#1A237E", `"problem":"","branded":true,"lightened":true,"day":"#1a237e"`}, {"", `"problem":"","branded":false,"lightened":false,"day":"#0b5d4b"`}, {"#ffcc00", "is too light"}, {"<b>", "must be a #"},
	} {
		r := o.request("admin", http.MethodGet, o.pathOf("settings/colour")+"?colour="+url.QueryEscape(test.colour), nil)
		r.Header.Set("Accept", "application/json")
		w := o.send(r)
		if !strings.Contains(w.Body.String(), test.want) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q: Content-Type = %q, body = %s, want JSON with %s", test.colour, w.Header().Get("Content-Type"), w.Body, test.want)
		}
	}
}

func TestSigningKeyInSettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	page := o.pathOf("settings/keys")
	checkPage(t, "no signing key", o.get("admin", page), http.StatusOK, "Certificates cannot be signed at the moment.", "Root certificate", "root.pem")
	if err := o.Keys.Create(t.Context(), o.inst.UUID, o.inst.Name, nil); err != nil {
		t.Fatal(err)
	}
	checkPage(t, "one signing key", o.get("admin", page), http.StatusOK, "Current signing key", "Created by this vault", "Only owners can create a new signing key.")
	// A key rotation requires a recent sign-in.
	o.people.stale[o.people.persons["owner"].ID] = true
	if w := o.post("owner", page+"/rotate", nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/account/confirm") {
		t.Errorf("a rotation without a recent sign-in: status = %d, Location = %q, want a redirect to the confirmation", w.Code, w.Header().Get("Location"))
	}
	if list, err := o.Keys.Certificates(t.Context(), o.inst.UUID); err != nil || len(list) != 1 {
		t.Fatalf("keys = %d, want 1; error %v", len(list), err)
	}
	delete(o.people.stale, o.people.persons["owner"].ID)
	checkPage(t, "the page that asks for confirmation", o.get("owner", page+"/rotate"), http.StatusOK, "Create a new signing key for “ Northern & Western University ”?", "This cannot be undone")
	w := o.followRedirect(t, "owner", o.post("owner", page+"/rotate", nil), page)
	checkPage(t, "after the rotation", w, http.StatusOK, "The new signing key is in use.", "Earlier keys")
	if list, err := o.Keys.Certificates(t.Context(), o.inst.UUID); err != nil || len(list) != 2 {
		t.Errorf("keys = %d, want 2; error %v", len(list), err)
	}
}

// The dashboard warns members if the certificate of the signing key expires within 90 days. In the last
// 24 hours before the expiry, it says that certificates cannot be signed.
func TestDashboardWarnsOfAnExpiringSigningKey(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	front, page := "/panel/"+o.inst.Slug, o.pathOf("settings/keys")
	const soon, never = "The signing key expires soon.", "Certificates cannot be signed at the moment."
	if err := o.Keys.Create(t.Context(), o.inst.UUID, o.inst.Name, nil); err != nil {
		t.Fatal(err)
	}
	if text := visibleText(t, o.get("issuer", front)); strings.Contains(text, soon) || strings.Contains(text, never) {
		t.Errorf("the dashboard warns although the signing key is new: %s", text)
	}
	until := o.Now().AddDate(0, 0, 89)
	certtest.ExpiringKey(t, o.Keys, o.inst.UUID, o.Now().Add(-time.Hour), until)
	date := until.UTC().Format("2 January 2006")
	checkPage(t, "issuer, soon", o.get("issuer", front), http.StatusOK, soon, date, "Owners can create a new signing key.")
	checkPage(t, "owner, soon", o.get("owner", front), http.StatusOK, soon, date, "Create a new signing key")
	checkPage(t, "settings, soon", o.get("admin", page), http.StatusOK, "The certificate of this key expires on "+date)
	o.Advance(until.Sub(o.Now()) - 23*time.Hour)
	checkPage(t, "issuer, on the last day", o.get("issuer", front), http.StatusOK, never)
	checkPage(t, "settings, on the last day", o.get("admin", page), http.StatusOK, "The certificate of this key has expired or expires within a day")
}
