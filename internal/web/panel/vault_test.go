package panel

import (
	"bytes"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

func TestDashboard(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		says(t, "new", o.get("owner", "/panel/nwu"), http.StatusOK, "This is how to begin", "Upload the first certificate", "Upload many at once", "Make an API token", "Add a webhook", "Nothing was uploaded in the last 30 days")
		// The page shows a step only to members who have permission for it.
		if text := words(t, o.get("issuer", "/panel/nwu")); strings.Contains(text, "Make an API token") || !strings.Contains(text, "Upload the first certificate") {
			t.Errorf("an issuer reads %s", text)
		}
		ada := o.upload(o.mine, "Ada Obi", "a.pdf")
		o.upload(o.mine, "Ben Two", "refuse.pdf")
		o.upload(o.other, "A Stranger", "refuse.pdf")
		o.settle()
		if _, _, err := o.panel.Hooks.Create(t.Context(), o.mine.ID, "https://hooks.example/private?key=secret", nil); err != nil {
			t.Fatal(err)
		}
		w := o.get("owner", "/panel/nwu")
		says(t, "at work", w, http.StatusOK, "1 Approved", "1 Failed", "In the last 30 days 1 approved and 1 failed", "1 certificate no_room There is no room for the stamp.",
			"hooks.example Working", "All 30 days 2 1 1 0", "Upload the first certificate Done")
		body := w.Body.String()
		for _, want := range []string{`href="/panel/nwu/certificates?failure=no_room&amp;status=failed"`, `role="img"`, `aria-labelledby="chart-says"`, `<title>`} {
			if !strings.Contains(body, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
		if strings.Contains(body, "secret") || strings.Contains(body, "style=") || strings.Contains(body, "Stranger") {
			t.Error("the page shows what it must not")
		}
		says(t, "the failed", o.get("owner", "/panel/nwu/certificates?failure=no_room&status=failed"), http.StatusOK, "Failed because of no_room", "Ben Two", "All 1")
		says(t, "a year", o.get("auditor", "/panel/nwu?days=365"), http.StatusOK, "Certificates per week", "In the last 365 days 1 approved")
		says(t, "no such period", o.get("auditor", "/panel/nwu?days=7"), http.StatusOK, "In the last 30 days")

		// Undelivered mail links to its certificate.
		if w := o.post("issuer", "/panel/nwu/certificates/"+ada.UUID+"/resend", nil); w.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", w.Code, words(t, w))
		}
		o.Exec(`UPDATE notices SET status = 'failed', error = 'The mailbox is full.'`)
		w = o.get("auditor", "/panel/nwu")
		says(t, "a bounce", w, http.StatusOK, "Mail that did not arrive", "Ada Obi", "The mailbox is full.")
		if !strings.Contains(w.Body.String(), "/panel/nwu/certificates/"+ada.UUID+"#mail") {
			t.Error("the bounce leads nowhere")
		}
		says(t, "another institution", o.get("stranger", "/panel/sec"), http.StatusOK, "1 Failed")
		if text := words(t, o.get("stranger", "/panel/sec")); strings.Contains(text, "Ada") || strings.Contains(text, "hooks.example") {
			t.Errorf("another institution reads %s", text)
		}
	})
}

// recorded reports whether the audit log of the test's institution contains an action.
func (o *panelTest) recorded(action audit.Action) bool {
	o.tb.Helper()
	list, _, err := o.panel.Audit.List(o.tb.Context(), o.mine.ID, audit.Filter{Action: string(action)}, "", 10)
	if err != nil {
		o.tb.Fatal(err)
	}
	return len(list) > 0 && list[0].Actor.Type == audit.User
}

func TestMailOfACertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.mine, "Ada Obi", "a.pdf")
	o.settle()
	// Simulate a certificate that a version without mail approved.
	o.Exec(`DELETE FROM notices`)
	at := "certificates/" + c.UUID
	says(t, "none", o.get("issuer", o.pathOf(at)), http.StatusOK, "No mail was written about it.", "Send it again", "Correct the address")
	if text := words(t, o.get("auditor", o.pathOf(at))); strings.Contains(text, "Send it again") {
		t.Error("an auditor can send mail")
	}
	w := o.redirects(t, "issuer", o.post("issuer", o.pathOf(at)+"/resend", nil), o.pathOf(at))
	says(t, "sent again", w, http.StatusOK, "The mail is on its way again.", "On its way Sent again, ada.obi@example.org", "Mailed again")
	says(t, "no address", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"nobody"}}), http.StatusUnprocessableEntity, "This e-mail address has no @.")
	says(t, "the same", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"ada.obi@example.org"}}), http.StatusUnprocessableEntity, "This is the address that the certificate has.")
	w = o.redirects(t, "issuer", o.post("issuer", o.pathOf(at)+"/email", url.Values{"applicant_email": {"ada@example.net"}}), o.pathOf(at))
	says(t, "corrected", w, http.StatusOK, "The address was corrected.", "Sent to the corrected address, ada@example.net", "The e-mail address was corrected", "Issuer Person")
	if !o.recorded(audit.CertificateMailed) || !o.recorded(audit.CertificateAddress) {
		t.Error("the deeds are not recorded")
	}
}

// The panel's preview of the public page has the text of the public page.
func TestPublicSettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	good, bad := o.upload(o.mine, "Ada Obi", "a.pdf"), o.upload(o.mine, "Ben Two", "refuse.pdf")
	o.settle()
	at := o.pathOf("certificates/" + good.UUID)
	says(t, "valid", o.get("auditor", at), http.StatusOK, "This certificate is valid", "Northern & Western University issued it, and its record stands.")
	says(t, "failed", o.get("auditor", o.pathOf("certificates/"+bad.UUID)), http.StatusOK, "No such certificate here")
	says(t, "signature", o.get("auditor", at+"?signature=1"), http.StatusOK, "Valid", "Checked just now.")
	w := o.post("signatory", at+"/revoke", url.Values{"reason": {"Issued to <b>the wrong</b> person."}, "look": {"1"}})
	says(t, "before", w, http.StatusOK, "Revoked on "+o.Now().Format("2 January 2006"), "Northern & Western University has taken this certificate back. It is no longer valid.",
		"Reason given by the institution Issued to <b>the wrong</b> person.")
	o.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
	says(t, "damaged", o.get("auditor", at), http.StatusOK, "A check did not pass")
	o.Exec(`DELETE FROM certificate_checks`)
	says(t, "unchecked", o.get("auditor", at), http.StatusOK, "Could not check the file and its signature now")
	if w := o.post("signatory", at+"/revoke", url.Values{"reason": {"Issued in error."}}); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, words(t, w))
	}
	says(t, "revoked", o.get("auditor", at), http.StatusOK, "Revoked on ", "Reason given by the institution Issued in error.", "By Signatory Person")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings")
		says(t, "first", o.get("admin", page), http.StatusOK, "NWU", "There is none yet", "English")
		w := o.redirects(t, "admin", o.post("admin", page, url.Values{"name": {" Northern University "}, "mail_language": {"de"}}), page)
		says(t, "renamed", w, http.StatusOK, "The settings were kept.")
		face, err := o.panel.Accounts.PublicProfile(t.Context(), o.mine.ID)
		if err != nil || face.Name != "Northern University" {
			t.Errorf("%+v, %v", face, err)
		}
		if tag, err := o.panel.Accounts.MailLanguage(t.Context(), o.mine.ID); err != nil || tag != "de" {
			t.Errorf("%s, %v", tag, err)
		}
		for name, form := range map[string]url.Values{
			"The name must have 1 to 255 characters.": {"name": {" "}, "mail_language": {"de"}},
			"The language must be one":                {"name": {"Northern University"}, "mail_language": {"xx"}},
		} {
			says(t, name, o.post("admin", page, form), http.StatusUnprocessableEntity, name)
		}
		// If one value of a form is refused, none of its values is saved.
		for _, form := range []url.Values{{"name": {"Another"}, "mail_language": {"xx"}}, {"name": {" "}, "mail_language": {"fr"}}} {
			if w := o.post("admin", page, form); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%v: %d", form, w.Code)
			}
			now, err := account.ReadSettings(t.Context(), d, o.mine.ID)
			if err != nil || now.Name != "Northern University" || now.MailLanguage != "de" {
				t.Errorf("%v left %+v, %v", form, now, err)
			}
		}

		at := page + "/colour"
		if !strings.Contains(o.get("admin", page).Body.String(), `<input type="color" value="#0b5d4b"`) {
			t.Error("the picker does not begin at the vault's own colour")
		}
		says(t, "too light", o.post("admin", at, url.Values{"colour": {"#ffcc00"}}), http.StatusUnprocessableEntity, "is too light", "The nearest shade that is dark enough is #")
		w = o.post("admin", at, url.Values{"colour": {"#1a237e"}, "look": {"1"}})
		says(t, "look", w, http.StatusOK, "It is not kept yet.", "a lighter shade is drawn there")
		if n := strings.Count(w.Body.String(), `fill="#1a237e"`); n != 2 {
			t.Errorf("the colour is drawn %d times", n)
		}
		if face, err = o.panel.Accounts.PublicProfile(t.Context(), o.mine.ID); err != nil || face.Colour != "" {
			t.Errorf("a look keeps a colour: %+v, %v", face, err)
		}
		says(t, "kept", o.redirects(t, "admin", o.post("admin", at, url.Values{"colour": {"#1A237E"}}), page), http.StatusOK, "The colour was changed.", "a lighter shade is drawn there")
		if !strings.Contains(o.get("admin", page).Body.String(), `<input type="color" value="#1a237e"`) {
			t.Error("the picker does not begin at the colour that is kept")
		}
		if face, err = o.panel.Accounts.PublicProfile(t.Context(), o.mine.ID); err != nil || face.Colour != "#1a237e" {
			t.Errorf("%+v, %v", face, err)
		}

		says(t, "public", o.get("admin", page+"/public"), http.StatusOK, "Hide the person's name")
		says(t, "both", o.post("admin", page+"/public", url.Values{"hide_name": {"1"}, "image": {"1"}}), http.StatusUnprocessableEntity, "not both")
		o.redirects(t, "admin", o.post("admin", page+"/public", url.Values{"image": {"1"}, "contact": {"registry@example.org"}}), page+"/public")
		if face, err = o.panel.Accounts.PublicProfile(t.Context(), o.mine.ID); err != nil || !face.AllowImage || face.AllowDownload || face.Contact != "registry@example.org" {
			t.Errorf("%+v, %v", face, err)
		}

		stamps := page + "/stamps"
		for problem, form := range map[string]url.Values{
			"The placement must be one of":   {"placement": {"middle"}, "placement_page": {"1"}},
			"The page must be a number":      {"placement": {"auto"}, "placement_page": {"x"}},
			"The left edge must be a number": {"placement": {"exact"}, "placement_page": {"1"}, "left": {"x"}, "top": {"1"}, "right": {"2"}, "bottom": {"3"}},
			"the bottom below the top":       {"placement": {"exact"}, "placement_page": {"1"}, "left": {"80"}, "top": {"80"}, "right": {"70"}, "bottom": {"90"}},
		} {
			says(t, problem, o.post("admin", stamps, form), http.StatusUnprocessableEntity, problem)
		}
		o.redirects(t, "admin", o.post("admin", stamps, url.Values{
			"placement": {"exact"}, "placement_page": {"2"}, "left": {"70"}, "top": {"80,5 %"}, "right": {"90"}, "bottom": {"95"}, "refuse_active": {"1"},
		}), stamps)
		policy, err := o.panel.Certs.Policy(t.Context(), o.mine.ID)
		if err != nil || policy.Placement != seal.Exact || policy.Page != 2 || *policy.Box != (seal.Box{0.7, 0.805, 0.9, 0.95}) || !policy.RefuseActive {
			t.Errorf("%+v, %v", policy, err)
		}
		if body := o.get("admin", stamps).Body.String(); !strings.Contains(body, `value="80.5"`) {
			t.Error("the edges are not shown again")
		}
		if other, err := o.panel.Certs.Policy(t.Context(), o.other.ID); err != nil || *other != (cert.Policy{Placement: seal.Auto, Page: 1}) {
			t.Errorf("another institution's: %+v, %v", other, err)
		}
		if !o.recorded(audit.InstitutionChanged) {
			t.Error("the changes are not recorded")
		}
	})
}

// logoForm returns the form with a logo, as a browser sends it.
func (o *panelTest) logoForm(t *testing.T, file []byte, remove bool) (w *http.Request) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("logo", "logo.png")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write(file); err != nil {
		t.Fatal(err)
	}
	if remove {
		if err := form.WriteField("remove", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	r := o.request("admin", http.MethodPost, o.pathOf("settings/logo"), nil)
	r2, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://vault.example"+o.pathOf("settings/logo"), &b)
	if err != nil {
		t.Fatal(err)
	}
	r2.TLS, r2.RemoteAddr, r2.Header = r.TLS, r.RemoteAddr, r.Header
	r2.Header.Set("Content-Type", form.FormDataContentType())
	return r2
}

func TestLogoInSettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 60, 20))); err != nil {
		t.Fatal(err)
	}
	says(t, "none chosen", o.send(o.logoForm(t, nil, false)), http.StatusUnprocessableEntity, "Choose a PNG or JPEG file first.")
	says(t, "no picture", o.send(o.logoForm(t, []byte("<svg onload=alert(1)>"), false)), http.StatusUnprocessableEntity, "must be a PNG or JPEG file")
	says(t, "too large", o.send(o.logoForm(t, make([]byte, maxLogoForm), false)), http.StatusUnprocessableEntity, "at most 1 MB")
	w := o.redirects(t, "admin", o.send(o.logoForm(t, logo.Bytes(), false)), o.pathOf("settings"))
	says(t, "kept", w, http.StatusOK, "The logo was changed.", "Take the logo away")
	if !strings.Contains(w.Body.String(), `src="/logos/nwu/`) {
		t.Error("the logo is not shown")
	}
	w = o.redirects(t, "admin", o.send(o.logoForm(t, nil, true)), o.pathOf("settings"))
	says(t, "gone", w, http.StatusOK, "The logo was taken away.", "There is none yet")
}

func TestSigningKeyInSettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	page := o.pathOf("settings/keys")
	says(t, "none yet", o.get("admin", page), http.StatusOK, "No certificate can be signed now.", "The root that vouches for it", "root.pem")
	if err := o.Keys.Create(o.mine.UUID, o.mine.Name); err != nil {
		t.Fatal(err)
	}
	says(t, "one", o.get("admin", page), http.StatusOK, "The key that signs now", "Made by this vault", "Owners can make a new one.")
	// A key rotation requires a recent sign-in.
	o.people.stale[o.people.persons["owner"].ID] = true
	if w := o.post("owner", page+"/rotate", nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/account/confirm") {
		t.Errorf("long signed in: %d %s", w.Code, w.Header().Get("Location"))
	}
	if list, err := o.Keys.Certificates(o.mine.UUID); err != nil || len(list) != 1 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	delete(o.people.stale, o.people.persons["owner"].ID)
	says(t, "asked", o.get("owner", page+"/rotate"), http.StatusOK, "Make a new signing key for “ Northern & Western University ”?", "This cannot be undone")
	w := o.redirects(t, "owner", o.post("owner", page+"/rotate", nil), page)
	says(t, "rotated", w, http.StatusOK, "The new signing key is in use.", "Keys before")
	if list, err := o.Keys.Certificates(o.mine.UUID); err != nil || len(list) != 2 {
		t.Errorf("%d keys, %v", len(list), err)
	}
}

// Members see on the dashboard, from 90 days before, that the certificate of the signing key
// expires, and then that nothing can be signed.
func TestDashboardWarnsOfAnExpiringSigningKey(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	front, page := "/panel/"+o.mine.Slug, o.pathOf("settings/keys")
	const soon, never = "The signing key needs a new certificate.", "No certificate can be signed now."
	if err := o.Keys.Create(o.mine.UUID, o.mine.Name); err != nil {
		t.Fatal(err)
	}
	if text := words(t, o.get("issuer", front)); strings.Contains(text, soon) || strings.Contains(text, never) {
		t.Errorf("a new key: the page warns: %s", text)
	}
	until := o.Now().AddDate(0, 0, 89)
	certtest.ExpiringKey(t, o.Keys, o.mine.UUID, o.Now().Add(-time.Hour), until)
	date := until.UTC().Format("2 January 2006")
	says(t, "issuer, soon", o.get("issuer", front), http.StatusOK, soon, date, "Owners can make a new signing key.")
	says(t, "owner, soon", o.get("owner", front), http.StatusOK, soon, date, "Make a new signing key")
	says(t, "settings, soon", o.get("admin", page), http.StatusOK, "Its certificate expires on "+date)
	o.Advance(until.Sub(o.Now()) - 23*time.Hour)
	says(t, "issuer, on the last day", o.get("issuer", front), http.StatusOK, never)
	says(t, "settings, on the last day", o.get("admin", page), http.StatusOK, "Its certificate has expired or expires within a day")
}
