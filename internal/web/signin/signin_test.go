package signin

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
)

// TestTemplates checks that all templates of this package can be loaded.
func TestTemplates(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if err := h.pages.Site.Check(); err != nil {
		t.Error(err)
	}
}

func TestSignUpSignOutAndSignIn(t *testing.T) {
	t.Parallel()
	b := newHarness(t).browser()
	b.checkPage("the sign-up page", b.get("/sign-up?email=ada%40example.org&lang=de"), http.StatusOK, "Konto anlegen")
	b.checkPage("an invalid address", b.post("/sign-up", "email", "nobody"), http.StatusUnprocessableEntity, "such as name@example.org")
	b.checkRedirect("requesting a link", b.post("/sign-up?lang=de", "email", address), "/sign-up/sent?lang=de")
	b.checkPage("link requested", b.get("/sign-up/sent"), http.StatusOK, "We have sent you a message with a link")
	link := b.mailedLink()
	// The link stays valid after GET requests, because programs may open it before the person does.
	for range 3 {
		w := b.get(link)
		b.checkPage("the link", w, http.StatusOK, "Complete your account", address)
		if w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the Referer header may contain the link: %v", w.Header())
		}
	}
	b.checkPage("a short password", b.post(link, "name", "Ada <Obi>", "password", "short"), http.StatusUnprocessableEntity, "8 to 1,000 characters")
	b.checkRedirect("signing up", b.post(link, "name", "Ada <Obi>", "password", password), "/account")
	b.checkPage("signed up", b.get("/account/security"), http.StatusOK, "Ada <Obi>", address, "Firefox · Linux", "this session")
	b.checkPage("a used link", b.get(link), http.StatusNotFound, "no longer works")
	b.checkPage("posting a used link", b.post(link, "name", "Eve", "password", password), http.StatusNotFound, "no longer works")
	b.checkRedirect("the sign-in page for a signed-in person", b.get("/sign-in"), "/account")
	b.checkRedirect("signing out", b.post("/sign-out"), "/sign-in")
	b.checkPage("signed out", b.get("/sign-in"), http.StatusOK, "You are signed out.")
	for from, to := range map[string]string{"/sign-in": "/sign-up", "/sign-up": "/sign-in"} {
		if body := b.get(from + "?next=%2Faccount%2Fapply%2Fa%2Fb&lang=de").Body.String(); !strings.Contains(body, `href="`+to+`?next=%2faccount%2fapply%2fa%2fb&amp;lang=de"`) {
			t.Errorf("the link from %s to %s lacks the parameter next", from, to)
		}
	}
	if body := b.get("/sign-up?lang=de").Body.String(); !strings.Contains(body, `<a class="enter" href="/sign-in?lang=de">Anmelden</a>`) {
		t.Error("the sign-up page has no link to the sign-in page")
	}
	for _, path := range []string{"/sign-in", "/sign-in/sent", "/sign-in/link/none"} {
		if strings.Contains(b.get(path).Body.String(), `class="enter"`) {
			t.Errorf("%s contains a link to the sign-in page", path)
		}
	}
	b.checkRedirect("a protected page after signing out", b.get("/account/security?x=1"), "/sign-in?next=%2Faccount%2Fsecurity%3Fx%3D1")
	b.checkRedirect("signing in", b.post("/sign-in", "email", address, "password", password, "next", "/account/security?x=1"), "/account/security?x=1")
	if strings.Contains(b.log.String(), strings.TrimPrefix(link, "/sign-up/")) || strings.Contains(b.log.String(), address) {
		t.Error("the log contains a link or an address")
	}
	if !strings.Contains(b.log.String(), `"route":"POST /sign-up/{token}"`) {
		t.Errorf("the log lacks the route: %s", b.log.String())
	}
}

func TestMailedLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.checkRedirect("requesting a link", b.post("/sign-in/link", "email", address, "next", "/c/abc"), "/sign-in/sent")
	link := b.mailedLink()
	b.checkPage("the link", b.get(link), http.StatusOK, address)
	b.checkPage("the sign-in page before the link is used", b.get("/sign-in"), http.StatusOK)
	// The link works in another browser, without cookies.
	b.checkRedirect("using the link", h.browser().post(link), "/c/abc")
	b.checkPage("using the link again", b.post(link), http.StatusNotFound, "no longer works")
}

func TestResetSetsPasswordAndEndsSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	other := b.clone()
	b.checkRedirect("requesting a reset", b.post("/reset", "email", address), "/reset/sent")
	link := b.mailedLink()
	b.checkPage("the link", b.get(link), http.StatusOK, "Choose a new password", address)
	b.checkPage("a short password", b.post(link, "password", "short"), http.StatusUnprocessableEntity, "8 to 1,000 characters")
	b.checkRedirect("setting a password", b.post(link, "password", "another horse"), "/sign-in?email=ada%40example.org")
	b.checkPage("after setting the password", b.get("/sign-in?email=ada%40example.org"), http.StatusOK, "The password was set.")
	other.checkRedirect("a session from before the reset", other.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	b.checkPage("the old password", b.post("/sign-in", "email", address, "password", password), http.StatusUnprocessableEntity)
	b.checkRedirect("the new password", b.post("/sign-in", "email", address, "password", "another horse"), "/account")
}

// TestResetListsPasskeys checks that the page for a new password lists the passkeys of the account
// and removes the chosen passkeys.
func TestResetListsPasskeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	me := h.createAccount(address)
	h.Tx(func(tx *db.Tx) error {
		for id, name := range []string{"My phone", "Stranger's key"} {
			if _, err := tx.ExecContext(t.Context(), `
				INSERT INTO passkeys (id, user_id, credential_id, credential, sign_count, name, created_at) VALUES ($1, $2, $3, '{}', 0, $4, 0)`,
				id+1, me.ID, []byte(name), name); err != nil {
				return err
			}
		}
		return nil
	})
	b := h.browser()
	b.checkRedirect("requesting a reset", b.post("/reset", "email", address), "/reset/sent")
	link := b.mailedLink()
	b.checkPage("the link", b.get(link), http.StatusOK, "Remove passkeys", "My phone", "Stranger's key")
	w := b.post(link, "password", "short", "remove_passkey", "2")
	b.checkPage("a short password", w, http.StatusUnprocessableEntity, "8 to 1,000 characters", "My phone")
	if !strings.Contains(w.Body.String(), `value="2" checked`) || strings.Contains(w.Body.String(), `value="1" checked`) {
		t.Errorf("the page must show passkey 2 as chosen, and passkey 1 as not chosen: %s", w.Body)
	}
	b.checkRedirect("setting a password", b.post(link, "password", "another horse", "remove_passkey", "2"), "/sign-in?email=ada%40example.org")
	list, err := h.People.Passkeys(t.Context(), me.ID)
	if err != nil || len(list) != 1 || list[0].Name != "My phone" {
		t.Errorf("the passkeys are %+v, %v, want only My phone", list, err)
	}
}

// TestManyLinkRequestsGetTheSameResponse checks that no request for a link is refused after many
// requests for the same address, because other people may have made those requests.
func TestManyLinkRequestsGetTheSameResponse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	for i := range 24 {
		b := h.browser()
		b.client = fmt.Sprintf("198.51.100.%d:4711", i/6)
		for path, sent := range map[string]string{"/sign-in/link": "/sign-in/sent", "/reset": "/reset/sent", "/sign-up": "/sign-up/sent"} {
			b.checkRedirect(path, b.post(path, "email", address), sent)
		}
	}
}

var secretIn = regexp.MustCompile(`<code dir="ltr">([A-Z2-7]{32})</code>`)

func TestSecondFactorIsRequiredOnceSetUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	b.checkRedirect("before the set-up", b.get("/account/security/codes"), "/account/security")
	b.checkRedirect("beginning the set-up", b.post("/account/security/codes/begin"), "/account/security/codes")
	w := b.get("/account/security/codes")
	b.checkPage("the page with the QR code", w, http.StatusOK, "Scan this")
	found := secretIn.FindStringSubmatch(w.Body.String())
	if found == nil || !strings.Contains(w.Body.String(), "<svg") {
		t.Fatalf("the page lacks the secret or the QR code: %s", w.Body)
	}
	code := func() string {
		t.Helper()
		code, err := totp.GenerateCode(found[1], h.Now())
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	b.checkPage("a wrong code", b.post("/account/security/codes", "code", "000000"), http.StatusUnprocessableEntity, "The code is incorrect")
	w = b.post("/account/security/codes", "code", code())
	b.checkPage("a right code", w, http.StatusOK, "Your recovery codes")
	recovery := regexp.MustCompile(`<code>([A-Z2-7-]{19})</code>`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(recovery) != 10 {
		t.Fatalf("got %d recovery codes, want 10", len(recovery))
	}
	b.checkPage("after the set-up", b.get("/account/security"), http.StatusOK, "Unused recovery codes: 10 .")

	fresh := h.browser()
	h.Advance(30 * time.Second)
	fresh.checkRedirect("a sign-in by password", fresh.post("/sign-in", "email", address, "password", password, "next", "/panel/x"), "/sign-in/code?next=%2Fpanel%2Fx")
	before := fresh.cookies[sessionCookie]
	fresh.checkRedirect("a protected page before the second factor", fresh.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	fresh.checkPage("the page for the code", fresh.get("/sign-in/code?next=%2Fpanel%2Fx"), http.StatusOK, "Enter your code")
	fresh.checkPage("a wrong code", fresh.post("/sign-in/code", "code", "123"), http.StatusUnprocessableEntity, "The code is incorrect")
	used := code()
	fresh.checkRedirect("a right code", fresh.post("/sign-in/code", "code", used, "next", "/panel/x"), "/panel/x")
	if fresh.cookies[sessionCookie] == before {
		t.Error("the session id was not changed after the second factor")
	}
	fresh = h.browser()
	fresh.checkRedirect("a second sign-in", fresh.post("/sign-in", "email", address, "password", password), "/sign-in/code")
	fresh.checkPage("a used code", fresh.post("/sign-in/code", "code", used), http.StatusUnprocessableEntity, "The code is incorrect")
	fresh.checkRedirect("a recovery code", fresh.post("/sign-in/code", "code", recovery[0][1]), "/account")
	fresh.checkPage("after using a recovery code", fresh.get("/account/security"), http.StatusOK, "Unused recovery codes: 9 .")
	fresh.checkRedirect("turning the second factor off", fresh.post("/account/security/codes/end"), "/account/security")
	fresh.checkPage("after turning the second factor off", fresh.get("/account/security"), http.StatusOK, "Two-step sign-in is off")
}

func TestRecentSignInIsRequired(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	h.Advance(10 * time.Minute)
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/account/security/") || method == http.MethodGet {
			continue
		}
		r := b.request(method, path, strings.NewReader("new_password=another+horse&email=x%40example.org"))
		r.Header.Set("Referer", base+"/account/security?lang=de")
		w := b.send(r)
		confirms := w.Header().Get("Location") == "/account/confirm?next=%2Faccount%2Fsecurity%3Flang%3Dde"
		if unprotected := []string{"name", "language", "sessions/end", "sessions/end-others"}; confirms == slices.Contains(unprotected, strings.TrimPrefix(path, "/account/security/")) {
			t.Errorf("%s: status %d, Location %q; all changes except name, language and sessions require the confirmation", pattern, w.Code, w.Header().Get("Location"))
		}
	}
	b.checkPage("the confirmation page", b.get("/account/confirm?next=%2Fpanel"), http.StatusOK, "Confirm your identity")
	b.checkPage("a wrong password", b.post("/account/confirm", "password", "wrong horse", "next", "/panel"), http.StatusUnprocessableEntity, "is incorrect")
	b.checkRedirect("the right password", b.post("/account/confirm", "password", password, "next", "/panel"), "/panel")
	b.checkRedirect("the action after the confirmation", b.post("/account/security/password", "new_password", "another horse"), "/account/security")
}

func TestSecurityPageChangesAccount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	me := h.createAccount(address)
	b, other := h.browser(), h.browser()
	b.signIn()
	other.signIn()
	b.checkRedirect("changing the name", b.post("/account/security/name", "name", "  Ada   Lovelace "), "/account/security")
	b.checkPage("after changing the name", b.get("/account/security"), http.StatusOK, "Your name was changed.", "Ada Lovelace")
	b.checkPage("an invalid name", b.post("/account/security/name", "name", "\u202e"), http.StatusUnprocessableEntity, "invisible characters")
	b.checkRedirect("changing the language", b.post("/account/security/language", "language", "fr"), "/account/security")
	b.checkPage("the page in French", b.get("/account/security"), http.StatusOK, "Connexion et sécurité")
	b.checkRedirect("an unknown language", b.post("/account/security/language", "language", "xx"), "/account/security")
	b.checkRedirect("ending the other sessions", b.post("/account/security/sessions/end-others"), "/account/security")
	other.checkRedirect("an ended session", other.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	other.signIn()
	sessions, err := h.People.Sessions(t.Context(), me.ID)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("got %d sessions, want 2; error %v", len(sessions), err)
	}
	b.checkRedirect("requesting another address", b.post("/account/security/address", "email", "lovelace@example.org"), "/account/security")
	link := b.mailedLink()
	b.checkPage("the link to the new address", b.get(link), http.StatusOK, "lovelace@example.org")
	b.checkRedirect("the link used by a signed-out visitor", h.browser().post(link), "/sign-in")
	b.checkRedirect("using the link", b.post(link), "/account/security")
	b.checkPage("after the change of address", b.get("/account/security"), http.StatusOK, "Your current address is lovelace@example.org .")

	b.checkPage("adding the main address", b.post("/account/security/addresses", "further", "Lovelace@example.org"), http.StatusConflict, "Your account already has this address.")
	b.checkPage("adding an invalid address", b.post("/account/security/addresses", "further", "nobody"), http.StatusUnprocessableEntity, "such as name@example.org")
	b.checkRedirect("adding an address", b.post("/account/security/addresses", "further", "ada@work.example"), "/account/security")
	link = b.mailedLink()
	b.checkPage("the link to the further address", b.get(link), http.StatusOK, "Confirm another address", "ada@work.example")
	b.checkRedirect("using the link", b.post(link), "/account/security")
	b.checkPage("after the addition", b.get("/account/security"), http.StatusOK, "The address was added.", "ada@work.example")
	for range 2 { // the form may be submitted twice
		b.checkRedirect("removing the address", b.post("/account/security/addresses/remove", "address", "ada@work.example"), "/account/security")
	}
	if w := b.get("/account/security"); strings.Contains(w.Body.String(), "ada@work.example") {
		t.Error("the page shows the address after its removal")
	}
}

// TestResponsesDoNotRevealAccounts checks that the responses for an unknown and for a known address
// have the same status, headers and body.
func TestResponsesDoNotRevealAccounts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount("known@example.org")
	same := func(name, path string, fields ...string) {
		t.Helper()
		var responses []string
		for _, email := range []string{"known@example.org", "other@example.org"} {
			b := h.browser()
			// Eight wrong passwords exceed the rate limit, so the refusals are compared too.
			for range 8 {
				w := b.post(path, append([]string{"email", email}, fields...)...)
				w.Header().Del("X-Request-Id")
				body := strings.ReplaceAll(w.Body.String(), email, "ADDRESS")
				responses = append(responses, strings.Join([]string{w.Result().Status, body, headers(w.Header())}, "\n"))
			}
		}
		for i := range 8 {
			if responses[i] != responses[8+i] {
				t.Errorf("%s, request %d: the responses differ: known address\n%s\nunknown address\n%s", name, i+1, responses[i], responses[8+i])
			}
		}
	}
	same("a wrong password", "/sign-in", "password", "wrong horse")
	same("a link", "/sign-in/link")
	same("a reset", "/reset")
	same("signing up", "/sign-up")
}

func headers(h http.Header) string {
	var b strings.Builder
	if err := h.Write(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestCrossSiteFormsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodPost {
			continue
		}
		for name, set := range map[string]func(http.Header){
			"another site":     func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
			"another host":     func(h http.Header) { h.Set("Sec-Fetch-Site", "same-site") },
			"another origin":   func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "https://evil.example") },
			"an opaque origin": func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "null") },
		} {
			r := b.request(method, strings.ReplaceAll(path, "{token}", "x"), nil)
			set(r.Header)
			if w := b.send(r); w.Code != http.StatusForbidden {
				t.Errorf("%s from %s: status = %d, want 403", pattern, name, w.Code)
			}
		}
	}
	b.checkPage("still signed in", b.get("/account/security"), http.StatusOK)
}

func TestGetOfPostRoutesDoesNotSignOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodPost {
			b.get(strings.ReplaceAll(path, "{token}", "x"))
		}
	}
	b.checkPage("still signed in", b.get("/account/security"), http.StatusOK)
}

func TestNextIsLocalPath(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/account": "/account", "/panel/x?y=z&a=%2F#f": "/panel/x?y=z&a=%2F#f", "": "", "account": "", "//evil.example": "", "/\\evil.example": "",
		"\\\\evil.example": "", "https://evil.example": "", "/\t/evil.example": "", "/\n/evil.example": "", "javascript:alert(1)": "", "///evil.example": "",
		"/%2F/evil.example": "", "/%5cevil.example": "/%5cevil.example", "/sign-out": "", "/sign-in": "", " //evil.example": "", "/x\x00": "",
		"/" + strings.Repeat("x", 3000): "", "/@evil.example": "/@evil.example", "/:80": "/:80",
	} {
		if got := Local(next); got != want {
			t.Errorf("Local(%q) = %q, want %q", next, got, want)
		}
	}
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.checkRedirect("signing in with a foreign address as next", b.post("/sign-in", "email", address, "password", password, "next", "https://evil.example/"), "/account")
	b.checkRedirect("a foreign address as next for a signed-in person", b.get("/sign-in?next=//evil.example"), "/account")
}

func TestOversizedFormsAreRefused(t *testing.T) {
	t.Parallel()
	b := newHarness(t).browser()
	if w := b.post("/sign-in", "email", address, "password", strings.Repeat("x", maxForm)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: status = %d, want 413: %s", w.Code, visibleText(t, w))
	}
	if w := b.post("/sign-in/passkey", "x", strings.Repeat("x", maxForm)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large passkey response: status = %d, want 413: %s", w.Code, visibleText(t, w))
	}
}

func TestPlantedSessionIsRejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.cookies[sessionCookie] = "planted"
	b.signIn()
	if b.cookies[sessionCookie] == "planted" {
		t.Error("the planted session id is still in use after the sign-in")
	}
	attacker := h.browser()
	attacker.cookies[sessionCookie] = "planted"
	attacker.checkRedirect("the planted session", attacker.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
}

func TestPasskeyResponsesAreJSON(t *testing.T) {
	t.Parallel()
	b := newHarness(t).browser()
	post := func(path, body string) *httptest.ResponseRecorder {
		r := b.request(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		return b.send(r)
	}
	w := post("/sign-in/passkey/options", "{}")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"userVerification":"required"`) || !strings.Contains(w.Body.String(), `"rpId":"vault.example"`) {
		t.Errorf("the options of a ceremony: status = %d, want 200; body %s, want the host as rpId and userVerification required", w.Code, w.Body)
	}
	for _, body := range []string{"", "{}", "[]", `{"ceremony":"x","response":{}}`} {
		if w := post("/sign-in/passkey", body); w.Code < 400 || w.Code >= 500 || w.Header().Get("Content-Type") != "application/json" || b.cookies[sessionCookie] != "" {
			t.Errorf("%q: status = %d, want 4xx with JSON and without a session: %s", body, w.Code, w.Body)
		}
	}
	// If a sign-in is required first, the response contains the address of the sign-in page.
	if w := post("/account/security/passkeys/options", "{}"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"location":"/sign-in"`) {
		t.Errorf("the options without a sign-in: status = %d, want 403 with the address of the sign-in: %s", w.Code, w.Body)
	}
}

func TestRecentSignInExpires(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.createAccount(address)
	b := h.browser()
	b.signIn()
	reached := 0
	f := h.pages.RequireRecent(func(http.ResponseWriter, *http.Request) error {
		reached++
		return nil
	})
	handler := web.Wrap(web.Options{Log: h.logger, Now: time.Now}, h.pages.WithSession(web.Handler(web.WriteJSONError, func(w http.ResponseWriter, r *http.Request) error {
		if s, ok := h.pages.Person(r); !ok || s.Person.Email != address {
			t.Errorf("Person returns %+v, want the session of %s", s, address)
		}
		return f(w, r)
	})))
	handler.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodGet, "/panel/x", nil))
	h.Advance(10 * time.Minute)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, b.request(http.MethodGet, "/panel/x?a=b", nil))
	if reached != 1 || w.Header().Get("Location") != "/account/confirm?next="+url.QueryEscape("/panel/x?a=b") {
		t.Errorf("the handler was called %d times, want 1; then status %d, Location %q, want a redirect to the confirmation", reached, w.Code, w.Header().Get("Location"))
	}
	// A form is accepted 10 minutes after the sign-in, but not after 30 minutes.
	accepted := 0
	slow := h.pages.WithSession(web.Handler(web.WriteJSONError, h.pages.RequireRecentForSubmit(func(http.ResponseWriter, *http.Request) error {
		accepted++
		return nil
	})))
	slow.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodPost, "/panel/x", nil))
	h.Advance(20 * time.Minute)
	slow.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodPost, "/panel/x", nil))
	if accepted != 1 {
		t.Errorf("the form was accepted %d times, want 1", accepted)
	}
	if ReaderOf(nil, false) != nil {
		t.Error("ReaderOf(nil, false) returns a person, want nil")
	}
}

// TestMessagesExist checks that every problem, field and notice has a message in all languages.
func TestMessagesExist(t *testing.T) {
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	h := newHarness(t)
	for _, l := range h.pages.Site.Languages() {
		for _, list := range []map[string]string{notices, fields} {
			for _, key := range list {
				if !l.Has(key) {
					t.Errorf("%s lacks the message %s", l.Tag, key)
				}
			}
		}
		for _, key := range problems {
			if !l.Has(key) {
				t.Errorf("%s lacks the message %s", l.Tag, key)
			}
		}
		b := h.browser()
		w := b.get("/sign-in?lang=" + l.Tag)
		title, err := l.Text("signin.title")
		if err != nil || !strings.Contains(w.Body.String(), template.HTMLEscapeString(title)) || !strings.Contains(w.Body.String(), `dir="`+l.Direction+`"`) {
			t.Errorf("%s: the sign-in page lacks its title or direction: %s, error %v", l.Tag, w.Body, err)
		}
	}
	if translate(identity.ErrWrong).Error() == identity.ErrWrong.Error() {
		t.Error("translate returns the English text of a problem")
	}
}
