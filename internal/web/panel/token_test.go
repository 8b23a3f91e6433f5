package panel

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
)

var secretRule = regexp.MustCompile(`cvt_[0-9A-Za-z]{36}`)

func TestTokenIsShownOnce(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	checkPage(t, "an empty list", o.get("developer", "/panel/nwu/tokens"), http.StatusOK, "No tokens yet", "Create token")
	w := o.post("developer", "/panel/nwu/tokens", url.Values{
		"name": {"Student <system>"}, "permissions": {string(token.VaultList), string(token.VaultCreate)}, "end": {"30"},
	})
	checkPage(t, "a new token", w, http.StatusOK, "Student <system>", "not shown again", "curl \"https://vault.example/business/certificate-vault?per_page=5\"")
	secret := secretRule.FindString(w.Body.String())
	created, inst, err := o.panel.Tokens.Authenticate(t.Context(), secret)
	if err != nil || inst.ID != o.inst.ID || !created.Has(token.VaultCreate) || created.Has(token.VaultRevoke) || !created.ExpiresAt.Equal(o.Now().AddDate(0, 0, 30)) {
		t.Fatalf("new token = %+v, error %v, want a token of the institution with VaultCreate, without VaultRevoke, that expires in 30 days", created, err)
	}
	if strings.Contains(w.Body.String(), "<system>") {
		t.Error("the page contains the unescaped name")
	}
	w = o.get("developer", "/panel/nwu/tokens")
	checkPage(t, "the list of tokens", w, http.StatusOK, "Student <system>", created.Hint, "2 permissions", "never", "in 30 days", "Active")
	if strings.Contains(w.Body.String(), secret) || strings.Contains(o.log.String(), secret) {
		t.Error("the list or the log contains the secret")
	}
}

func TestProblemsInATokenForm(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	w := o.post("owner", "/panel/nwu/tokens", url.Values{"name": {" "}, "permissions": {"batch:list", "no:such"}, "end": {"date"}, "date": {"2020-01-01"}})
	checkPage(t, "an invalid form", w, http.StatusUnprocessableEntity, "Please correct the following", "The name must have", "There is no permission", "The expiry must be in the future")
	body := w.Body.String()
	for _, want := range []string{
		`<a href="#name">`, `<a href="#permissions">`, `<a href="#date">`, `id="date-problem"`, `aria-invalid="true" aria-describedby="date-problem date-hint"`,
		`value="2020-01-01"`, `id="may-batch:list" name="permissions" value="batch:list" checked`, `value="date" checked`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the form lacks %s: %s", want, body)
		}
	}
	for name, form := range map[string]url.Values{
		"no end": {"name": {"x"}, "permissions": {"batch:list"}}, "no date": {"name": {"x"}, "permissions": {"batch:list"}, "end": {"date"}, "date": {"soon"}},
		"nothing": {},
	} {
		if w := o.post("owner", "/panel/nwu/tokens", form); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("form with %s: status = %d, want 422", name, w.Code)
		}
	}
	if list, err := o.panel.Tokens.List(t.Context(), o.inst.ID); err != nil || len(list) > 0 {
		t.Errorf("tokens = %v, error %v, want none", list, err)
	}
}

func TestPresetsSelectPermissions(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, preset := range token.Presets {
		body := o.get("owner", "/panel/nwu/tokens/new?preset="+preset.Name).Body.String()
		if n := strings.Count(body, `name="permissions"`); n != len(token.All) {
			t.Errorf("the form has %d checkboxes for permissions, want %d", n, len(token.All))
		}
		for _, p := range token.All {
			if has := (&token.Token{Permissions: preset.Permissions}).Has(p); strings.Contains(body, `value="`+string(p)+`" checked`) != has {
				t.Errorf("preset %s: the checkbox of %s is checked: %t, want %t", preset.Name, p, !has, has)
			}
		}
	}
}

// Selecting a preset keeps the entered name and expiry. Enter creates the token, because the first submit
// button of the form is not a preset.
func TestPresetsKeepTheInput(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	body := o.get("owner", "/panel/nwu/tokens/new?preset=issuing&name=Student+%22system%22&end=date&date=2031-01-02&permissions=certificate-vault:revoke").Body.String()
	for _, want := range []string{`value="Student &#34;system&#34;"`, `value="date" checked`, `value="2031-01-02"`, `value="certificate-vault:create" checked`, `value="issuing" aria-current="true"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the form lacks %s", want)
		}
	}
	if strings.Contains(body, `value="certificate-vault:revoke" checked`) {
		t.Error("the form selects a permission that the preset lacks")
	}
	_, form, _ := strings.Cut(body, `action="/panel/nwu/tokens"`)
	_, form, _ = strings.Cut(form, "<button")
	if first, _, _ := strings.Cut(form, ">"); !strings.Contains(first, `type="submit"`) || strings.Contains(first, "formaction") {
		t.Errorf("the first button of the form is <button%s>, want a button that creates the token", first)
	}
}

// The example command trusts the vault's own TLS certificate.
func TestCommandWithOwnCertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	form := url.Values{"name": {"CI"}, "end": {"never"}, "permissions": {string(token.VaultList)}}
	if text := visibleText(t, o.post("owner", "/panel/nwu/tokens", form)); strings.Contains(text, "--cacert") {
		t.Errorf("the command has --cacert although the certificate is trusted: %s", text)
	}
	o.panel.OwnCertificate = "/srv/it's/cert.pem"
	checkPage(t, "with the vault's own certificate", o.post("owner", "/panel/nwu/tokens", form), http.StatusOK, `--cacert '/srv/it'\''s/cert.pem' \`, "copy the file there")
}

func TestRevokeTokenAsksForConfirmation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	_, secret, err := o.panel.Tokens.Create(t.Context(), o.inst.ID, "Old system", token.All, nil)
	if err != nil {
		t.Fatal(err)
	}
	target := "/panel/nwu/tokens/1/revoke"
	checkPage(t, "the page that asks for confirmation", o.get("owner", target), http.StatusOK, "Revoke “ Old system ”?", "cannot be undone", "Last used never")
	if _, _, err := o.panel.Tokens.Authenticate(t.Context(), secret); err != nil {
		t.Fatalf("the page that asks for confirmation revoked the token: %v", err)
	}
	checkPage(t, "after the revocation", o.followRedirect(t, "owner", o.post("owner", target, nil), "/panel/nwu/tokens"), http.StatusOK, "The token was revoked", "No active tokens")
	if _, _, err := o.panel.Tokens.Authenticate(t.Context(), secret); err == nil {
		t.Error("the token is still valid after the revocation")
	}
	checkPage(t, "the list of ended tokens", o.get("owner", "/panel/nwu/tokens?show=ended"), http.StatusOK, "Old system", "Revoked")
}

// Routes whose field recent is true require a recent sign-in, for example the pages that create a secret.
func TestRecentRoutesRequireRecentSignIn(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.people.stale[o.people.persons["owner"].ID] = true
	o.makeOperator("owner")
	for _, rt := range o.panel.table {
		if !rt.recent {
			continue
		}
		method, target := path(t, rt.pattern, o.samples(t, o.inst))
		if w := o.do("owner", method, target, nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/account/confirm") {
			t.Errorf("%s: status = %d, want a redirect to the confirmation", rt.pattern, w.Code)
		}
	}
}

// Without a recent sign-in, a session cannot change where data is sent, or download all certificates or the
// audit log.
func TestMovingDataRequiresRecentSignIn(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	hook, _, err := o.Hooks.Create(t.Context(), o.inst.ID, "https://hooks.example.org/", nil)
	if err != nil {
		t.Fatal(err)
	}
	// The sign-in of the owner is too old for RequireRecent and RequireRecentForSubmit. The sign-in of the
	// admin is too old only for RequireRecent.
	o.people.stale[o.people.persons["owner"].ID], o.people.slow[o.people.persons["admin"].ID] = true, true
	for _, tc := range []struct {
		person, method, page string
		form                 url.Values
		confirm              bool
	}{
		{"owner", http.MethodGet, "webhooks/" + hook.UUID + "/edit", nil, true},
		{"owner", http.MethodPost, "webhooks/" + hook.UUID + "/edit", url.Values{"url": {"https://evil.example/"}}, true},
		{"admin", http.MethodPost, "settings/mail", url.Values{"mail_sender": {"Registrar"}, "reply_to": {"eve@evil.example"}}, true},
		{"admin", http.MethodPost, "settings/mail", url.Values{"mail_sender": {"Registrar"}}, false},
		{"owner", http.MethodGet, "certificates/" + c.UUID + "/email", nil, true},
		{"owner", http.MethodPost, "certificates/" + c.UUID + "/email", url.Values{"applicant_email": {"eve@evil.example"}}, true},
		{"admin", http.MethodPost, "certificates/csv", url.Values{"which": {"all"}}, true},
		{"admin", http.MethodPost, "certificates/zip", url.Values{"which": {"all"}}, true},
		{"admin", http.MethodPost, "certificates/csv", url.Values{"selected": {c.UUID}}, false},
		{"admin", http.MethodPost, "audit", url.Values{"format": {"csv"}}, true},
	} {
		w := o.do(tc.person, tc.method, o.pathOf(tc.page), tc.form)
		if confirm := strings.HasPrefix(w.Header().Get("Location"), "/account/confirm"); confirm != tc.confirm || w.Code >= http.StatusBadRequest {
			t.Errorf("%s %s %v: status = %d, Location %q, want a redirect to the confirmation: %t", tc.method, tc.page, tc.form, w.Code, w.Header().Get("Location"), tc.confirm)
		}
	}
	if e, err := o.Hooks.Endpoint(t.Context(), o.inst.ID, hook.UUID); err != nil || e.URL != "https://hooks.example.org/" {
		t.Errorf("endpoint = %+v, error %v, want the unchanged URL", e, err)
	}
	if from, err := o.Accounts.MailSender(t.Context(), o.inst.ID); err != nil || from.ReplyTo != "" || from.Sender != "Registrar" {
		t.Errorf("sender of mail = %+v, error %v, want Registrar and no address for replies", from, err)
	}
	if got, err := o.Certs.ByUUID(t.Context(), o.inst.ID, c.UUID); err != nil || got.Email != c.Email {
		t.Errorf("address of the certificate = %s, error %v, want the unchanged address", got.Email, err)
	}
}

// A person can submit a form even if the sign-in has become too old to open the form.
func TestFormsMayBeFilledInSlowly(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.people.slow[o.people.persons["owner"].ID] = true
	if w := o.get("owner", "/panel/nwu/tokens/new"); w.Code != http.StatusSeeOther {
		t.Errorf("opening the form: status = %d, want a redirect to the confirmation", w.Code)
	}
	w := o.post("owner", "/panel/nwu/tokens", url.Values{"name": {"Typed slowly"}, "permissions": {"certificate-vault:list"}, "end": {"30"}})
	checkPage(t, "a form that was filled in slowly", w, http.StatusOK, "Typed slowly", "It is not shown again")
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "just now", 40 * time.Second: "40 seconds ago", time.Minute: "1 minute ago", 90 * time.Minute: "1 hour ago", -3 * 24 * time.Hour: "in 3 days",
		-time.Second: "in less than a minute", -24*time.Hour + time.Second: "in 24 hours", -time.Minute: "in 1 minute", -7*24*time.Hour + 5*time.Hour: "in 7 days", -7*24*time.Hour + 20*time.Hour: "in 6 days", -90*time.Minute - time.Second: "in 2 hours", 47 * time.Hour: "47 hours ago",
	} {
		if got := english(t).span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}
