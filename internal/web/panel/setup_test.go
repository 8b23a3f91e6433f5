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

// local sends a request from the loopback address.
func (o *panelTest) local(method, target string, form url.Values) *httptest.ResponseRecorder {
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
		says(t, "page", o.local(http.MethodGet, at, nil), http.StatusOK, "Set up your vault", "https://vault.example", "the address at which you opened", "Mail leaves by the mail server")
		for name, w := range map[string]*httptest.ResponseRecorder{
			"another machine": o.get("", at), "no token": o.local(http.MethodGet, "/setup", nil), "a guess": o.local(http.MethodGet, "/setup?token=guess", nil),
			"a form without it": o.local(http.MethodPost, at, url.Values{"name": {"X"}}), "a mail without it": o.local(http.MethodPost, "/setup/mail", url.Values{"owner_email": {"a@b.example"}}),
			"a form from another machine": o.post("", "/setup", url.Values{"token": {secret}}),
		} {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", name, w.Code)
			}
		}
		form := url.Values{"token": {secret}, "owner_name": {"First Owner"}, "owner_email": {"refuse@example.org"}, "name": {"First University"}, "prefix": {"FST"}}
		w := o.local(http.MethodPost, "/setup/mail", form)
		says(t, "mail refused", w, http.StatusOK, "could not be sent", "550 no such mailbox here")
		form.Set("owner_email", "first@example.org")
		w = o.local(http.MethodPost, "/setup/mail", form)
		says(t, "mail", w, http.StatusOK, "The mail server took a test message to first@example.org .")
		if !strings.Contains(w.Body.String(), `value="First University"`) || !strings.Contains(w.Body.String(), `value="FST"`) || len(o.sent) != 1 || o.sent[0].To.Email != "first@example.org" {
			t.Errorf("what was typed is lost, or nothing was sent: %+v", o.sent)
		}
		says(t, "no address", o.local(http.MethodPost, "/setup/mail", url.Values{"token": {secret}}), http.StatusUnprocessableEntity, "must look like")
		form.Set("prefix", "NWU")
		form.Set("owner_password", "short")
		w = o.local(http.MethodPost, "/setup", form)
		says(t, "refused", w, http.StatusUnprocessableEntity, "8 to 1000 characters")
		form.Set("owner_password", "correct horse")
		says(t, "taken", o.local(http.MethodPost, "/setup", form), http.StatusUnprocessableEntity, "belongs to another institution")
		if strings.Contains(w.Body.String(), "short") && strings.Contains(w.Body.String(), `value="short"`) {
			t.Error("a password is shown again")
		}
		form.Set("prefix", "FST")
		if w := o.local(http.MethodPost, "/setup", form); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel/first-university" {
			t.Fatalf("%d %s", w.Code, words(t, w))
		}
		if len(o.door.entered) != 1 || o.door.entered[0].Session.Person.Email != "first@example.org" || o.door.entered[0].Session.Person.Verified {
			t.Fatalf("let in: %+v", o.door.entered)
		}
		if operators, err := o.panel.Accounts.Operators(t.Context()); err != nil || len(operators) != 1 || operators[0].Email != "first@example.org" {
			t.Errorf("the first owner runs the installation: %v, %v", operators, err)
		}
		if w := o.local(http.MethodGet, at, nil); w.Code != http.StatusNotFound {
			t.Errorf("the link works on: %d", w.Code)
		}
		list, _, err := o.panel.Audit.List(t.Context(), 0, audit.Filter{}, "", 5)
		if err != nil || len(list) != 2 || list[0].Actor.Name != "First Owner" || !list[0].Actor.Address.IsLoopback() {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// The link is for the person who sets up the vault. It does not give access to an existing account.
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
	says(t, "elsewhere", o.send(r), http.StatusOK, "You opened this page at https://elsewhere.example", "--base-url https://elsewhere.example")
	w := o.post("", "/setup", url.Values{
		"token": {secret}, "owner_name": {"X"}, "owner_email": {"nobody@example.org"}, "owner_password": {"correct horse"}, "name": {"Other"}, "prefix": {"OTH"},
	})
	if w.Header().Get("Location") != "/sign-in" || len(o.door.entered) != 0 {
		t.Errorf("%d %s, %v", w.Code, w.Header().Get("Location"), o.door.entered)
	}
	m, err := o.panel.Accounts.Membership(t.Context(), o.people.persons["nobody"].ID, "other")
	if err != nil || m.Role != account.Owner {
		t.Errorf("%+v, %v", m, err)
	}
}

// The link expires after an hour and is in no log.
func TestSetupLinkExpires(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Advance(time.Hour - time.Second)
	w := o.local(http.MethodGet, "/setup?token="+secret, nil)
	if w.Code != http.StatusOK || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	o.Advance(time.Second)
	if w := o.local(http.MethodGet, "/setup?token="+secret, nil); w.Code != http.StatusNotFound {
		t.Errorf("after an hour: %d", w.Code)
	}
	if strings.Contains(o.log.String(), secret) {
		t.Error("the log has the link")
	}
}

// If no mail server is set, the page does not claim that a message was sent.
func TestSetupWithoutMailServer(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.panel.Outbox = "/var/lib/certvault/outbox"
	secret, err := o.panel.Accounts.NewSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	says(t, "page", o.local(http.MethodGet, "/setup?token="+secret, nil), http.StatusOK, "reaches nobody yet: it is written to the folder /var/lib/certvault/outbox", "Write a test message")
	w := o.local(http.MethodPost, "/setup/mail", url.Values{"token": {secret}, "owner_email": {"first@example.org"}})
	says(t, "a test", w, http.StatusOK, "A test message to first@example.org was written to the folder, and sent to nobody.")
	if text := words(t, w); strings.Contains(text, "mail server took") || strings.Contains(text, "whether it arrives") {
		t.Errorf("the page has it both ways: %s", text)
	}
}
