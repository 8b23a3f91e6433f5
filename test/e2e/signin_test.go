//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/certvault/certvault/test/vault"
)

const newPassword = "correct horse battery"

// signUp creates an account in the browser. The account has no password if password is empty.
func signUp(t *testing.T, b *tab, v *vault.Vault, email, name, password string) {
	t.Helper()
	b.open("/sign-up")
	b.fill("email", email)
	b.press("Send link")
	b.at("/sign-up/sent")
	b.open(awaitLink(t, v, email, "/sign-up/"))
	b.see("Complete your account", email)
	b.fill("name", name)
	if password != "" {
		b.fill("password", password)
	}
	b.press("Create account")
	b.at("/account")
}

func signIn(b *tab, email, password string) {
	b.t.Helper()
	b.open("/sign-in")
	b.fill("email", email)
	b.fill("password", password)
	b.press("Sign in")
}

// TestSignUpInBrowser creates an account, and signs in by password and by link.
func TestSignUpInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		b := browse(t, f.Vault)
		email := "ada@example.org"
		signUp(t, b, f.Vault, email, "Ada <b>Obi</b>", newPassword)
		b.open("/account/security")
		b.see("Sign-in and security", "Ada <b>Obi</b>", email, "this session")
		b.screenshot("security")

		l := awaitLetter(t, f.Vault, email, "Confirm your e-mail address")
		if l.Header.Get("Auto-Submitted") != "auto-generated" || l.Size > 30<<10 || strings.Contains(l.HTML, `src="http`) || !strings.Contains(l.HTML, f.URL+"/sign-up/") {
			t.Errorf("the mail = %+v, want Auto-Submitted, at most 30 KiB, no remote picture, and a link to /sign-up/", l)
		}

		// The person signs out, signs in by password, and in another browser by link. A mail scanner
		// requests the link before the person opens it.
		b.press("Ada")
		b.press("Sign out")
		b.see("You are signed out.")
		signIn(b, email, "wrong horse battery")
		b.see("Please correct the following", "The address or the password is incorrect.")
		b.fill("password", newPassword)
		b.press("Sign in")
		b.at("/account")
		other := browse(t, f.Vault)
		other.open("/sign-in?next=/account/security")
		other.fill("email", email)
		other.press("Send me a sign-in link")
		other.at("/sign-in/sent")
		link := awaitLink(t, f.Vault, email, "/sign-in/link/")
		scanner := f.as(t, "")
		for range 3 {
			a, err := scanner.Get(t.Context(), strings.TrimPrefix(link, f.URL))
			if err != nil || a.Status != http.StatusOK || a.Header.Get("Set-Cookie") != "" {
				t.Fatalf("request of a mail scanner: status %d, headers %v, %v; want 200 and no cookie", a.Status, a.Header, err)
			}
		}
		other.open(link)
		other.press("Sign in")
		other.at("/account/security")
		awaitLetter(t, f.Vault, email, "New sign-in to your account")

		// The second browser ends the session of the first.
		other.press("Sign out all other sessions")
		other.see("All other sessions were signed out.")
		b.open("/account/security")
		b.at("/sign-in")
		if log := f.Log(); strings.Contains(log, link[len(link)-40:]) || strings.Contains(log, email) {
			t.Error("the log contains the sign-in link or the address")
		}
	})
}

// TestPasskeyInBrowser adds a passkey, signs in with the passkey, and removes the passkey.
func TestPasskeyInBrowser(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := browse(t, f.Vault)
	b.authenticator()
	signUp(t, b, f.Vault, "ada@example.org", "Ada", "")
	b.open("/account/security")
	b.fill("passkey_name", "Telephone")
	b.press("Add passkey")
	b.see("The passkey was added.", "Telephone")
	b.press("Ada")
	b.press("Sign out")
	b.see("You are signed out.")
	b.open("/sign-in?next=/account/security")
	b.press("Sign in with a passkey")
	b.at("/account/security")
	b.see("last used")
	awaitLetter(t, f.Vault, "ada@example.org", "A passkey was added")
	if n := evaluate[int](b, `performance.getEntriesByType("resource").filter((r) => !r.name.startsWith(location.origin)).length`); n != 0 {
		t.Errorf("the page sent %d requests to other hosts, want 0", n)
	}
	b.press("Remove")
	b.see("The passkey was removed.")
	b.press("Ada")
	b.press("Sign out")
	b.see("You are signed out.")
	b.open("/sign-in")
	b.press("Sign in with a passkey")
	b.see("The passkey could not be used.")
}

// TestSecondFactorInBrowser turns on two-step sign-in, and signs in with a code and with a recovery code.
func TestSecondFactorInBrowser(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := browse(t, f.Vault)
	email := "ada@example.org"
	signUp(t, b, f.Vault, email, "Ada", newPassword)
	b.open("/account/security")
	b.press("Set up two-step sign-in")
	b.see("Scan this code with your authenticator app.")
	b.screenshot("codes")
	secret := evaluate[string](b, `document.querySelector("main details code").textContent`)
	code := func(at time.Time) string {
		t.Helper()
		code, err := totp.GenerateCode(secret, at)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	b.fill("code", code(time.Now()))
	b.press("Turn on")
	b.see("Your recovery codes")
	b.screenshot("recovery")
	recovery := evaluate[[]string](b, `[...document.querySelectorAll(".recovery code")].map((c) => c.textContent)`)
	b.press("Done")
	b.see("Unused recovery codes: 10.")

	other := browse(t, f.Vault)
	signIn(other, email, newPassword)
	other.at("/sign-in/code")
	other.screenshot("code")
	other.fill("code", "000000")
	other.press("Sign in")
	other.see("The code is incorrect")
	// The current code is already used. The vault also accepts the code of the next time step, because the
	// clock of the authenticator app may be fast.
	used := code(time.Now().Add(30 * time.Second))
	other.fill("code", used)
	other.press("Sign in")
	other.at("/account")
	again := browse(t, f.Vault)
	signIn(again, email, newPassword)
	again.fill("code", used)
	again.press("Sign in")
	again.see("The code is incorrect")
	again.fill("code", recovery[0])
	again.press("Sign in")
	again.at("/account")
	again.open("/account/security")
	again.see("Unused recovery codes: 9.")
}

// TestResetInBrowser sets a new password with a mailed link. The new password ends the other sessions.
func TestResetInBrowser(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := browse(t, f.Vault)
	email := "ada@example.org"
	signUp(t, b, f.Vault, email, "Ada", newPassword)
	other := browse(t, f.Vault)
	other.open("/reset")
	other.fill("email", email)
	other.press("Send link")
	other.at("/reset/sent")
	link := awaitLink(t, f.Vault, email, "/reset/")
	other.open(link)
	other.see("Choose a new password")
	other.fill("password", "another horse battery")
	other.press("Set password")
	other.see("The password was set.")
	other.fill("password", "another horse battery")
	other.press("Sign in")
	other.at("/account")
	b.open("/account/security")
	b.at("/sign-in")
	other.open(link)
	other.see("This link no longer works")
}

// TestUserCommands sets the password of a person and ends sessions from the command line. Both
// commands sign the person out.
func TestUserCommands(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := browse(t, f.Vault)
	signUp(t, b, f.Vault, "ada@example.org", "Ada", newPassword)
	run := func(code int, stdin string, args ...string) {
		t.Helper()
		res, err := vault.Run(t.Context(), f.Options, stdin, append([]string{"user"}, args...)...)
		if err != nil || res.Code != code {
			t.Fatalf("user %s: exit code = %d, want %d: %s %s, %v", args[0], res.Code, code, res.Stdout, res.Stderr, err)
		}
	}
	run(0, "another horse battery\n", "reset-password", "--email", "ADA@example.org", "--password-stdin")
	b.open("/account/security")
	b.at("/sign-in")
	signIn(b, "ada@example.org", "another horse battery")
	b.at("/account")
	run(0, "", "revoke-sessions", "--email", "ada@example.org")
	b.open("/account/security")
	b.at("/sign-in")
	run(1, "another horse battery\n", "reset-password", "--email", "nobody@example.org", "--password-stdin")
	run(1, "short\n", "reset-password", "--email", "ada@example.org", "--password-stdin")
}

// TestWrongPasswords checks that the vault delays repeated wrong passwords in the same way for
// addresses with and without an account, and that the delay does not apply to a browser that the
// person used before.
func TestWrongPasswords(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := browse(t, f.Vault)
	signUp(t, b, f.Vault, "known@example.org", "Ada", newPassword)
	public := f.as(t, "")
	type response struct {
		status  int
		body    string
		headers string
	}
	guess := func(email string) response {
		t.Helper()
		a, err := public.PostForm(t.Context(), "/sign-in", url.Values{"email": {email}, "password": {"wrong horse"}})
		if err != nil {
			t.Fatal(err)
		}
		a.Header.Del("X-Request-Id")
		a.Header.Del("Date")
		a.Header.Del("Retry-After") // the wait in seconds depends on the time
		var headers strings.Builder
		if err := a.Header.Write(&headers); err != nil {
			t.Fatal(err)
		}
		return response{a.Status, strings.ReplaceAll(string(a.Body), email, "ADDRESS"), headers.String()}
	}
	same := func(what string, known, unknown response, status int) {
		t.Helper()
		if known != unknown || known.status != status {
			t.Errorf("%s: the response with an account is %+v, without an account %+v; want the same with the status %d", what, known, unknown, status)
		}
	}
	for i := range 5 {
		same(fmt.Sprintf("guess %d", i+1), guess("known@example.org"), guess("other@example.org"), http.StatusUnprocessableEntity)
	}
	// The wait becomes longer with each guess, so even a slow machine sends one of 20 guesses during a wait.
	refused := func(email string) (a response) {
		t.Helper()
		for range 20 {
			if a = guess(email); a.status == http.StatusTooManyRequests {
				break
			}
		}
		return a
	}
	same("guess during a wait", refused("known@example.org"), refused("other@example.org"), http.StatusTooManyRequests)
	b.open("/account/security")
	b.press("Ada")
	b.press("Sign out")
	b.see("You are signed out.")
	signIn(b, "known@example.org", newPassword)
	b.at("/account")
}
