package panel

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// sendLocally sends a request from the loopback address.
func (o *panelTest) sendLocally(method, target string, form url.Values) *httptest.ResponseRecorder {
	r := o.request("", method, target, form)
	r.RemoteAddr = "127.0.0.1:4711"
	return o.send(r)
}

func TestSetup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		secret, err := o.panel.Accounts.NewSetupLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := "/setup?token=" + secret
		checkPage(t, "the set-up page", o.sendLocally(http.MethodGet, at, nil), http.StatusOK, "Set up your vault", "https://vault.example", "cannot be changed later", "Mail is sent through the mail server")
		for name, w := range map[string]*httptest.ResponseRecorder{
			"another machine": o.get("", at), "no token": o.sendLocally(http.MethodGet, "/setup", nil), "a wrong token": o.sendLocally(http.MethodGet, "/setup?token=guess", nil),
			"a form without a token": o.sendLocally(http.MethodPost, at, url.Values{"name": {"X"}}), "a test message without a token": o.sendLocally(http.MethodPost, "/setup/mail", url.Values{"owner_email": {"a@b.example"}}),
			"a form from another machine": o.post("", "/setup", url.Values{"token": {secret}}),
		} {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: status = %d, want 404", name, w.Code)
			}
		}
		form := url.Values{"token": {secret}, "owner_name": {"First Owner"}, "owner_email": {"refuse@example.org"}, "name": {"First University"}, "prefix": {"FST"}}
		w := o.sendLocally(http.MethodPost, "/setup/mail", form)
		checkPage(t, "a rejected test message", w, http.StatusOK, "could not be sent", "550 no such mailbox here")
		form.Set("owner_email", "first@example.org")
		w = o.sendLocally(http.MethodPost, "/setup/mail", form)
		checkPage(t, "a sent test message", w, http.StatusOK, "The mail server accepted the test mail to first@example.org.", "Close this tab")
		if len(o.sent) != 1 || o.sent[0].To.Email != "first@example.org" {
			t.Errorf("the sent messages are %+v, want one to first@example.org", o.sent)
		}
		checkPage(t, "a test message without an address", o.sendLocally(http.MethodPost, "/setup/mail", url.Values{"token": {secret}}), http.StatusUnprocessableEntity, "must look like")
		form.Set("prefix", "NWU")
		form.Set("owner_password", "short")
		short := o.sendLocally(http.MethodPost, "/setup", form)
		checkPage(t, "a short password", short, http.StatusUnprocessableEntity, "8 to 1000 characters")
		form.Set("owner_password", "correct horse")
		used := o.sendLocally(http.MethodPost, "/setup", form)
		checkPage(t, "a used prefix", used, http.StatusUnprocessableEntity, "belongs to another institution")
		if strings.Contains(short.Body.String(), `value="short"`) || strings.Contains(used.Body.String(), "correct horse") {
			t.Error("a page contains the password")
		}
		form.Set("prefix", "FST")
		if w := o.sendLocally(http.MethodPost, "/setup", form); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel/first-university" {
			t.Fatalf("the set-up: status = %d, want a redirect (303) to /panel/first-university; page %s", w.Code, visibleText(t, w))
		}
		if len(o.signIns.entries) != 1 || o.signIns.entries[0].Session.Person.Email != "first@example.org" || o.signIns.entries[0].Session.Person.Verified {
			t.Fatalf("signed-in people = %+v, want only the owner with an unverified address", o.signIns.entries)
		}
		if operators, err := o.panel.Accounts.Operators(t.Context()); err != nil || len(operators) != 1 || operators[0].Email != "first@example.org" {
			t.Errorf("operators = %v, error %v, want only the owner", operators, err)
		}
		if w := o.sendLocally(http.MethodGet, at, nil); w.Code != http.StatusNotFound {
			t.Errorf("the link after the set-up: status = %d, want 404", w.Code)
		}
		list, _, err := o.panel.Audit.List(t.Context(), 0, audit.Filter{}, "", 5)
		if err != nil || len(list) != 2 || list[0].Actor.Name != "First Owner" || !list[0].Actor.Address.IsLoopback() {
			t.Errorf("entries in the audit log = %+v, error %v, want two, the newest by First Owner at the loopback address", list, err)
		}
		inst, err := o.panel.Accounts.InstitutionBySlug(t.Context(), "first-university")
		if err != nil {
			t.Fatal(err)
		}
		if list, _, err = o.panel.Audit.List(t.Context(), inst.ID, audit.Filter{Action: string(audit.SignedIn)}, "", 5); err != nil || len(list) != 1 || list[0].Detail["by"] != "set-up link" {
			t.Errorf("sign-ins in the audit log = %+v, error %v, want one by the set-up link", list, err)
		}
	})
}

// If only the vault's own machine or network can open its address, the set-up requires the confirmation that
// this is a test vault.
func TestSetupOfATestVault(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	const banner = "Test vault. The address https://localhost:8443 works only on this machine"
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := "/setup?token=" + secret
	if text := visibleText(t, o.sendLocally(http.MethodGet, at, nil)); strings.Contains(text, "This is a test vault") {
		t.Errorf("the page asks whether this is a test vault although the address is public: %s", text)
	}
	o.panel.BaseURL = "https://localhost:8443"
	checkPage(t, "the set-up page", o.sendLocally(http.MethodGet, at, nil), http.StatusOK, "Only this machine or your own network can open this address.", "This is a test vault")
	form := url.Values{
		"token": {secret}, "owner_name": {"First Owner"}, "owner_email": {"first@example.org"}, "owner_password": {"correct horse"}, "name": {"First"}, "prefix": {"FST"},
	}
	w := o.sendLocally(http.MethodPost, "/setup", form)
	checkPage(t, "without the confirmation", w, http.StatusUnprocessableEntity, "Select “This is a test vault”")
	if !strings.Contains(w.Body.String(), `<a href="#test_vault">`) || len(o.signIns.entries) != 0 {
		t.Error("the problem has no link to the checkbox, or the owner was signed in")
	}
	form.Set("test_vault", "1")
	if w := o.sendLocally(http.MethodPost, "/setup", form); w.Header().Get("Location") != "/panel/first" {
		t.Fatalf("the set-up: status = %d, want a redirect to /panel/first; page %s", w.Code, visibleText(t, w))
	}
	checkPage(t, "the settings", o.get("admin", "/panel/nwu/settings"), http.StatusOK, banner)
	o.panel.BaseURL = "https://vault.example"
	if text := visibleText(t, o.get("admin", "/panel/nwu/settings")); strings.Contains(text, banner) {
		t.Errorf("the page has the banner of a test vault although the address is public: %s", text)
	}
}

// Enter submits the form of the set-up and does not send the test mail, because browsers use the first
// submit button of a form. The script of the page gets the result of the test mail as JSON.
func TestEnterInTheSetup(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, form, _ := strings.Cut(o.sendLocally(http.MethodGet, "/setup?token="+secret, nil).Body.String(), `action="/setup"`)
	_, form, _ = strings.Cut(form, "<button")
	if first, _, _ := strings.Cut(form, ">"); !strings.Contains(first, `type="submit"`) || strings.Contains(first, "formaction") {
		t.Errorf("the first button of the form is <button%s>, want a button that submits the form", first)
	}
	for email, want := range map[string]string{
		"first@example.org": `"tone":"good"`, "refuse@example.org": `"text":"550 no such mailbox here"`, "none": "must look like",
	} {
		r := o.request("", http.MethodPost, "/setup/mail", url.Values{"token": {secret}, "owner_email": {email}})
		r.RemoteAddr = "127.0.0.1:4711"
		r.Header.Set("Accept", "application/json")
		if w := o.send(r); !strings.Contains(w.Body.String(), want) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: Content-Type = %q, body = %s, want JSON with %s", email, w.Header().Get("Content-Type"), w.Body, want)
		}
	}
}

// Without a script, a new tab shows the result of the test mail, so that the form keeps the input. The
// page in the new tab does not contain the submitted password.
func TestMailOfSetupKeepsTheForm(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, button, _ := strings.Cut(o.sendLocally(http.MethodGet, "/setup?token="+secret, nil).Body.String(), `formaction="/setup/mail"`)
	if button, _, _ = strings.Cut(button, ">"); !strings.Contains(button, `formtarget="_blank"`) || !strings.Contains(button, "formnovalidate") {
		t.Errorf("the attributes of the button are %q, want a new tab and no validation", button)
	}
	for email, status := range map[string]int{"first@example.org": http.StatusOK, "none": http.StatusUnprocessableEntity} {
		w := o.sendLocally(http.MethodPost, "/setup/mail", url.Values{"token": {secret}, "owner_email": {email}, "owner_password": {"correct horse"}})
		if body := w.Body.String(); w.Code != status || strings.Contains(body, "<form") || strings.Contains(body, "correct horse") {
			t.Errorf("%s: status = %d, want %d and a page without a form and without the password: %s", email, w.Code, status, body)
		}
	}
}

// The set-up link does not sign in the owner of an existing account.
func TestSetupWithExistingAccount(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.panel.SetupRemote = true
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := o.request("", http.MethodGet, "/setup?token="+secret, nil)
	r.Host = "elsewhere.example"
	checkPage(t, "the page at another address", o.send(r), http.StatusOK, "You opened this page at https://elsewhere.example", "--base-url https://elsewhere.example")
	w := o.post("", "/setup", url.Values{
		"token": {secret}, "owner_name": {"X"}, "owner_email": {"guest@example.org"}, "owner_password": {"correct horse"}, "name": {"Other"}, "prefix": {"OTH"},
	})
	if w.Header().Get("Location") != "/sign-in" || len(o.signIns.entries) != 0 {
		t.Errorf("the set-up: status = %d, Location = %q, want a redirect to the sign-in and no sign-in; signed-in people %v", w.Code, w.Header().Get("Location"), o.signIns.entries)
	}
	if notice := w.Header().Get("Set-Cookie"); !strings.Contains(notice, "owner_known") {
		t.Errorf("the cookie %q does not have the notice about the account", notice)
	}
	m, err := o.panel.Accounts.Membership(t.Context(), o.people.persons["guest"].ID, "other")
	if err != nil || m.Role != account.Owner {
		t.Errorf("membership = %+v, error %v, want the role of owner", m, err)
	}
}

// The set-up link expires after an hour, and the log does not contain the secret of the link.
func TestSetupLinkExpires(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Advance(time.Hour - time.Second)
	w := o.sendLocally(http.MethodGet, "/setup?token="+secret, nil)
	if w.Code != http.StatusOK || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("before an hour has passed: status = %d, want 200 and the Referrer-Policy no-referrer; header %v", w.Code, w.Header())
	}
	o.Advance(time.Second)
	if w := o.sendLocally(http.MethodGet, "/setup?token="+secret, nil); w.Code != http.StatusNotFound {
		t.Errorf("after an hour: status = %d, want 404", w.Code)
	}
	if strings.Contains(o.log.String(), secret) {
		t.Error("the log contains the secret of the link")
	}
}

// If no mail server is configured, the page does not say that a message was sent.
func TestSetupWithoutMailServer(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.panel.Outbox = "/var/lib/certvault/outbox"
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, "the set-up page", o.sendLocally(http.MethodGet, "/setup?token="+secret, nil), http.StatusOK, "No mail server is configured, so no mail is sent. Mail is written to the folder /var/lib/certvault/outbox", "Write test mail")
	w := o.sendLocally(http.MethodPost, "/setup/mail", url.Values{"token": {secret}, "owner_email": {"first@example.org"}})
	checkPage(t, "a test message without a mail server", w, http.StatusOK, "The test mail to first@example.org was written to the outbox folder. It was not sent.")
	if text := visibleText(t, w); strings.Contains(text, "mail server accepted") || strings.Contains(text, "Check that it arrives") {
		t.Errorf("the page says that a mail server accepted the message: %s", text)
	}
}
