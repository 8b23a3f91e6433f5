//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/certvault/certvault/test/vault"
)

// signInOwner opens a new tab and signs in as the owner of the fixture's institution.
func (f *fixture) signInOwner(t *testing.T) *tab {
	t.Helper()
	b := browse(t, f.Vault)
	signIn(b, "owner@nwu.example", "correct horse battery staple")
	b.see("API tokens")
	return b
}

// scriptless disables scripts in the tab.
func (b *tab) scriptless() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

var shownToken = regexp.MustCompile(`cvt_[0-9A-Za-z]{36}`)

// tokenWorks reports whether a token can list certificates.
func (f *fixture) tokenWorks(t *testing.T, token string) bool {
	t.Helper()
	a, err := f.as(t, token).Get(t.Context(), vault.CertificatesPath)
	if err != nil || a.Status != http.StatusOK && a.Status != http.StatusUnauthorized {
		t.Fatalf("listing certificates with a token: %+v, %v; want status 200 or 401", a, err)
	}
	return a.Status == http.StatusOK
}

// TestTokensInBrowser creates a token in a browser without scripts, and runs the command that the page
// shows. Then it rotates the token, and revokes the new token.
func TestTokensInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		b := f.signInOwner(t)
		b.scriptless()
		b.open("/panel/" + f.institution.Slug + "/tokens")
		b.press("Create token")
		b.see("Permissions")
		b.press("Create token")
		b.until("the browser accepts a form without a name", `document.querySelector("#name").matches(":invalid")`)
		b.press("Issuing")
		b.until("the preset selects fewer than four permissions", `document.querySelectorAll("[name=permissions]:checked").length > 3`)
		b.fill("name", "Student system")
		b.press("Create token")
		b.see("Your new token", "It is not shown again", "Student system")
		if evaluate[bool](b, `[...document.querySelectorAll("[data-copy]")].some((e) => e.checkVisibility())`) {
			t.Error("the page shows a button that does nothing without a script")
		}
		token := shownToken.FindString(b.text())
		line := evaluate[string](b, `document.querySelector("pre code").textContent`)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line+" -ksS").Output()
		var response struct {
			Data []json.RawMessage `json:"data"`
		}
		if err != nil || json.Unmarshal(out, &response) != nil || response.Data == nil {
			t.Errorf("running %s: output %s, error %v; want a list in JSON", line, out, err)
		}
		b.press("Done")
		b.see("Active", "Student system", "by Owner")
		if strings.Contains(b.text(), token) || strings.Contains(f.Log(), token) {
			t.Error("the token is shown again or is in the log, want neither")
		}
		b.press("Rotate")
		b.see("Rotate “Student system”", "1 week")
		b.press("Create new token")
		b.see("Your new token", "is still valid. It expires in 24 hours")
		second := shownToken.FindString(b.text())
		if token == second || !f.tokenWorks(t, token) || !f.tokenWorks(t, second) {
			t.Error("after the rotation, a token does not work, or both tokens are equal")
		}
		b.press("Done")
		b.see("Expires soon")
		b.press("Revoke")
		b.see("Revoke “Student system”?", "cannot be undone")
		b.press("Revoke token")
		b.see("The token was revoked.")
		if !f.tokenWorks(t, token) || f.tokenWorks(t, second) {
			t.Error("the revoked token still works, or the old token does not work")
		}
		b.press("Expired and revoked")
		b.see("Revoked", "Student system")
	})
}

// secret returns the signing secret that the page shows.
func (f *fixture) secret(t *testing.T, b *tab) string {
	t.Helper()
	b.see("It is not shown again")
	return regexp.MustCompile(`whsec_[A-Za-z0-9+/]{43}=`).FindString(b.text())
}

// TestWebhooksInBrowser creates, changes and deletes an endpoint in a browser. It checks the pages of
// successful and failed deliveries.
func TestWebhooksInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1", "--webhook-retry", "100ms")
		r := receive(t, nil)
		b := f.signInOwner(t)
		b.open("/panel/" + f.institution.Slug + "/webhooks")
		b.press("Add endpoint")
		b.press("Example")
		b.see(`"certificate_title": "Example certificate"`)
		b.fill("url", "https://127.0.0.1:1/not-yet")
		b.press("Add endpoint")
		f.secret(t, b)
		b.press("Done")
		b.press("Change")
		b.fill("url", r.URL)
		b.press("Save changes")
		b.see("The endpoint was changed.", r.URL, "All events")

		b.press("Rotate secret")
		b.see("signed with both secrets")
		b.press("Create new secret")
		secret := f.secret(t, b)
		b.press("Done")
		b.press("Promote new secret")
		b.see("X-Webhook-Signature now uses only the new secret")

		b.press("Send test")
		b.see("Delivered: 204 No Content")
		got := r.Got()
		if len(got) != 1 || got[0].Signed(secret) != nil {
			t.Fatalf("got %d deliveries, want 1 with a valid signature", len(got))
		}
		b.press("Request and response")
		b.see("X-Webhook-Signature", got[0].Header.Get("X-Webhook-Signature"))

		// The receiver responds with 500, and later with 204.
		r.Answer(func(w http.ResponseWriter, _ *vault.Delivered) {
			http.Error(w, "<b>no</b>", http.StatusInternalServerError)
		})
		made := f.upload(t, form("Ada Obi"))
		f.await(t, made.UUID, "approved")
		b.open("/panel/" + f.institution.Slug + "/deliveries")
		b.untilReloaded("the page does not show two failed deliveries", `document.querySelectorAll("tbody .badge.bad").length == 2`)
		b.press("Failed")
		b.fill("q", made.ReferenceID)
		b.press("Search")
		b.see("created", "approved", "Clear")
		b.press("approved")
		b.see("Rejected: 500 Internal Server Error", "Attempt 2", "Attempt 1")
		b.press("Request and response")
		b.see("<b>no</b>")
		r.Answer(nil)
		b.press("Send again")
		b.see("The delivery is being sent again.")
		b.untilReloaded("the page does not show the delivery", `document.body.innerText.includes("Delivered: 204")`)

		b.open("/panel/" + f.institution.Slug + "/webhooks")
		b.press("127.0.0.1")
		b.press("Resend failed deliveries")
		b.see("Failed deliveries are being sent again")
		b.untilReloaded("the page does not show three successful deliveries", `document.querySelectorAll("tbody .badge.good").length == 3`)
		b.screenshot("endpoint")
		b.press("Pause")
		b.see("The endpoint is paused.")
		b.press("Resume")
		b.see("The endpoint is active.")
		b.press("Delete endpoint")
		b.see("cannot be undone")
		b.press("Delete endpoint")
		b.see("The endpoint was deleted.", "No endpoints yet")
		b.press("Verify signatures")
		b.press("PHP")
		b.see("function verify_standard")
		if n := evaluate[int](b, `performance.getEntriesByType("resource").filter((r) => !r.name.startsWith(location.origin)).length`); n != 0 {
			t.Errorf("the page sent %d requests to other hosts, want 0", n)
		}
	})
}
