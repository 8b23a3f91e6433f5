package signin

import (
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

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
)

func TestSignUpAndIn(t *testing.T) {
	t.Parallel()
	b := newHall(t).browser()
	b.says("the page", b.get("/sign-up?email=ada%40example.org&lang=de"), http.StatusOK, "Konto anlegen")
	b.says("no address", b.post("/sign-up", "email", "nobody"), http.StatusUnprocessableEntity, "must look like name@example.org")
	b.leads("asking", b.post("/sign-up?lang=de", "email", address), "/sign-up/sent?lang=de")
	b.says("asked", b.get("/sign-up/sent"), http.StatusOK, "on its way")
	link := b.mailed()
	// A person can use the link even after programs have followed it.
	for range 3 {
		w := b.get(link)
		b.says("the link", w, http.StatusOK, "Finish your account", address)
		if w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the address of the link is sent to other hosts: %v", w.Header())
		}
	}
	b.says("too short", b.post(link, "name", "Ada <Obi>", "password", "short"), http.StatusUnprocessableEntity, "8 to 1000 characters")
	b.leads("signing up", b.post(link, "name", "Ada <Obi>", "password", password), "/account")
	b.says("signed up", b.get("/account/security"), http.StatusOK, "Ada <Obi>", address, "Firefox · Linux", "this one")
	b.says("the link again", b.get(link), http.StatusNotFound, "does not work any more")
	b.says("the link used again", b.post(link, "name", "Eve", "password", password), http.StatusNotFound, "does not work any more")
	b.leads("who is in", b.get("/sign-in"), "/account")
	b.leads("signing out", b.post("/sign-out"), "/sign-in")
	b.says("signed out", b.get("/sign-in"), http.StatusOK, "You are signed out.")
	if body := b.get("/sign-up?lang=de").Body.String(); !strings.Contains(body, `<a class="enter" href="/sign-in?lang=de">Anmelden</a>`) {
		t.Error("the page for signing up has no link to the sign-in")
	}
	for _, path := range []string{"/sign-in", "/sign-in/sent", "/sign-in/link/none"} {
		if strings.Contains(b.get(path).Body.String(), `class="enter"`) {
			t.Errorf("%s leads back to where signing in begins", path)
		}
	}
	b.leads("who is out", b.get("/account/security?x=1"), "/sign-in?next=%2Faccount%2Fsecurity%3Fx%3D1")
	b.leads("signing in", b.post("/sign-in", "email", address, "password", password, "next", "/account/security?x=1"), "/account/security?x=1")
	if strings.Contains(b.log.String(), strings.TrimPrefix(link, "/sign-up/")) || strings.Contains(b.log.String(), address) {
		t.Error("the log holds a link or an address")
	}
	if !strings.Contains(b.log.String(), `"route":"POST /sign-up/{token}"`) {
		t.Errorf("the log has no route: %s", b.log.String())
	}
}

func TestMailedLink(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.leads("asking", b.post("/sign-in/link", "email", address, "next", "/c/abc"), "/sign-in/sent")
	link := b.mailed()
	b.says("the link", b.get(link), http.StatusOK, address)
	b.says("a signed-out page", b.get("/sign-in"), http.StatusOK)
	// From another browser without cookies.
	b.leads("using it", h.browser().post(link), "/c/abc")
	b.says("using it again", b.post(link), http.StatusNotFound, "does not work any more")
}

func TestReset(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	other := b.copied()
	b.leads("asking", b.post("/reset", "email", address), "/reset/sent")
	link := b.mailed()
	b.says("the link", b.get(link), http.StatusOK, "Choose a new password", address)
	b.says("too short", b.post(link, "password", "short"), http.StatusUnprocessableEntity, "8 to 1000 characters")
	b.leads("setting it", b.post(link, "password", "another horse"), "/sign-in?email=ada%40example.org")
	b.says("set", b.get("/sign-in?email=ada%40example.org"), http.StatusOK, "The password was set.")
	other.leads("a session from before", other.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	b.says("the old password", b.post("/sign-in", "email", address, "password", password), http.StatusUnprocessableEntity)
	b.leads("the new password", b.post("/sign-in", "email", address, "password", "another horse"), "/account")
}

var secretIn = regexp.MustCompile(`<code dir="ltr">([A-Z2-7]{32})</code>`)

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	b.leads("nothing begun", b.get("/account/security/codes"), "/account/security")
	b.leads("beginning", b.post("/account/security/codes/begin"), "/account/security/codes")
	w := b.get("/account/security/codes")
	b.says("scanning", w, http.StatusOK, "Scan this")
	found := secretIn.FindStringSubmatch(w.Body.String())
	if found == nil || !strings.Contains(w.Body.String(), "<svg") {
		t.Fatalf("no secret in %s", w.Body)
	}
	code := func() string {
		t.Helper()
		code, err := totp.GenerateCode(found[1], h.Now())
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	b.says("a wrong code", b.post("/account/security/codes", "code", "000000"), http.StatusUnprocessableEntity, "The code is not right")
	w = b.post("/account/security/codes", "code", code())
	b.says("a right code", w, http.StatusOK, "Your recovery codes")
	recovery := regexp.MustCompile(`<code>([A-Z2-7-]{19})</code>`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes", len(recovery))
	}
	b.says("it is on", b.get("/account/security"), http.StatusOK, "Unused recovery codes: 10 .")

	fresh := h.browser()
	h.Advance(30 * time.Second)
	fresh.leads("by password", fresh.post("/sign-in", "email", address, "password", password, "next", "/panel/x"), "/sign-in/code?next=%2Fpanel%2Fx")
	before := fresh.cookies[sessionCookie]
	fresh.leads("half signed in", fresh.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	fresh.says("asked for the code", fresh.get("/sign-in/code?next=%2Fpanel%2Fx"), http.StatusOK, "Enter your code")
	fresh.says("a wrong code", fresh.post("/sign-in/code", "code", "123"), http.StatusUnprocessableEntity, "The code is not right")
	used := code()
	fresh.leads("a right code", fresh.post("/sign-in/code", "code", used, "next", "/panel/x"), "/panel/x")
	if fresh.cookies[sessionCookie] == before {
		t.Error("the session has the id from before the second factor")
	}
	fresh = h.browser()
	fresh.leads("once more", fresh.post("/sign-in", "email", address, "password", password), "/sign-in/code")
	fresh.says("a used code", fresh.post("/sign-in/code", "code", used), http.StatusUnprocessableEntity, "The code is not right")
	fresh.leads("a recovery code", fresh.post("/sign-in/code", "code", recovery[0][1]), "/account")
	fresh.says("one is used", fresh.get("/account/security"), http.StatusOK, "Unused recovery codes: 9 .")
	fresh.leads("turning it off", fresh.post("/account/security/codes/end"), "/account/security")
	fresh.says("turned off", fresh.get("/account/security"), http.StatusOK, "No code is asked for any more")
}

func TestRecentSignInIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	h.Advance(10 * time.Minute)
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/account/security/") || method == http.MethodGet {
			continue
		}
		r := b.request(method, path, strings.NewReader("new_password=another+horse&email=x%40example.org"))
		r.Header.Set("Referer", base+"/account/security?lang=de")
		w := b.send(r)
		asked := w.Header().Get("Location") == "/account/confirm?next=%2Faccount%2Fsecurity%3Flang%3Dde"
		if free := []string{"name", "language", "sessions/end", "sessions/end-others"}; asked == slices.Contains(free, strings.TrimPrefix(path, "/account/security/")) {
			t.Errorf("%s: %d to %s", pattern, w.Code, w.Header().Get("Location"))
		}
	}
	b.says("asking", b.get("/account/confirm?next=%2Fpanel"), http.StatusOK, "Confirm that it is you")
	b.says("a wrong password", b.post("/account/confirm", "password", "wrong horse", "next", "/panel"), http.StatusUnprocessableEntity, "not right")
	b.leads("the password", b.post("/account/confirm", "password", password, "next", "/panel"), "/panel")
	b.leads("the deed", b.post("/account/security/password", "new_password", "another horse"), "/account/security")
}

func TestSecurityPage(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	me := h.join(address)
	b, other := h.browser(), h.browser()
	b.enter()
	other.enter()
	b.leads("a name", b.post("/account/security/name", "name", "  Ada   Lovelace "), "/account/security")
	b.says("renamed", b.get("/account/security"), http.StatusOK, "Your name was changed.", "Ada Lovelace")
	b.says("a bad name", b.post("/account/security/name", "name", "\u202e"), http.StatusUnprocessableEntity, "invisible characters")
	b.leads("a language", b.post("/account/security/language", "language", "fr"), "/account/security")
	b.says("in French", b.get("/account/security"), http.StatusOK, "Connexion et sécurité")
	b.leads("no language", b.post("/account/security/language", "language", "xx"), "/account/security")
	b.leads("the others", b.post("/account/security/sessions/end-others"), "/account/security")
	other.leads("ended", other.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
	other.enter()
	sessions, err := h.People.Sessions(t.Context(), me.ID)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	b.leads("an address", b.post("/account/security/address", "email", "lovelace@example.org"), "/account/security")
	link := b.mailed()
	b.says("its link", b.get(link), http.StatusOK, "lovelace@example.org")
	b.leads("its link by a signed-out visitor", h.browser().post(link), "/sign-in")
	b.leads("using it", b.post(link), "/account/security")
	b.says("changed", b.get("/account/security"), http.StatusOK, "Now it is lovelace@example.org .")
}

// No difference between an unknown and a known address is visible in the status, the headers, the
// body, or the target of the redirect.
func TestUnknownAddressesLookLikeKnownOnes(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join("known@example.org")
	same := func(name, path string, fields ...string) {
		t.Helper()
		var answers []string
		for _, who := range []string{"known@example.org", "other@example.org"} {
			b := h.browser()
			// This also exceeds the throttle.
			for range 8 {
				w := b.post(path, append([]string{"email", who}, fields...)...)
				w.Header().Del("X-Request-Id")
				body := strings.ReplaceAll(w.Body.String(), who, "SOMEBODY")
				answers = append(answers, strings.Join([]string{w.Result().Status, body, headers(w.Header())}, "\n"))
			}
		}
		for i := range 8 {
			if answers[i] != answers[8+i] {
				t.Errorf("%s, try %d: known\n%s\nunknown\n%s", name, i+1, answers[i], answers[8+i])
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

func TestForeignFormsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodPost {
			continue
		}
		for name, set := range map[string]func(http.Header){
			"another site":   func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
			"another host":   func(h http.Header) { h.Set("Sec-Fetch-Site", "same-site") },
			"another origin": func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "https://evil.example") },
			"no origin":      func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "null") },
		} {
			r := b.request(method, strings.ReplaceAll(path, "{token}", "x"), nil)
			set(r.Header)
			if w := b.send(r); w.Code != http.StatusForbidden {
				t.Errorf("%s from %s: %d", pattern, name, w.Code)
			}
		}
	}
	b.says("still in", b.get("/account/security"), http.StatusOK)
}

func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	for _, pattern := range h.pages.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodPost {
			b.get(strings.ReplaceAll(path, "{token}", "x"))
		}
	}
	b.says("still in", b.get("/account/security"), http.StatusOK)
}

func TestNextStaysHere(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/account": "/account", "/panel/x?y=z&a=%2F#f": "/panel/x?y=z&a=%2F#f", "": "", "account": "", "//evil.example": "", "/\\evil.example": "",
		"\\\\evil.example": "", "https://evil.example": "", "/\t/evil.example": "", "/\n/evil.example": "", "javascript:alert(1)": "", "///evil.example": "",
		"/%2F/evil.example": "", "/%5cevil.example": "/%5cevil.example", "/sign-out": "", "/sign-in": "", " //evil.example": "", "/x\x00": "",
		"/" + strings.Repeat("x", 3000): "", "/@evil.example": "/@evil.example", "/:80": "/:80",
	} {
		if got := Local(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.leads("signing in", b.post("/sign-in", "email", address, "password", password, "next", "https://evil.example/"), "/account")
	b.leads("who is in", b.get("/sign-in?next=//evil.example"), "/account")
}

func TestOversizedFormsAreRefused(t *testing.T) {
	t.Parallel()
	b := newHall(t).browser()
	if w := b.post("/sign-in", "email", address, "password", strings.Repeat("x", maxForm)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, words(t, w))
	}
	if w := b.post("/sign-in/passkey", "x", strings.Repeat("x", maxForm)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, words(t, w))
	}
}

func TestPlantedSessionIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.cookies[sessionCookie] = "planted"
	b.enter()
	if b.cookies[sessionCookie] == "planted" {
		t.Error("a fixed session id survived the sign-in")
	}
	evil := h.browser()
	evil.cookies[sessionCookie] = "planted"
	evil.leads("by it", evil.get("/account/security"), "/sign-in?next=%2Faccount%2Fsecurity")
}

func TestPasskeyAnswersAreJSON(t *testing.T) {
	t.Parallel()
	b := newHall(t).browser()
	ask := func(path, body string) *httptest.ResponseRecorder {
		r := b.request(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		return b.send(r)
	}
	w := ask("/sign-in/passkey/options", "{}")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"userVerification":"required"`) || !strings.Contains(w.Body.String(), `"rpId":"vault.example"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, body := range []string{"", "{}", "[]", `{"ceremony":"x","response":{}}`} {
		if w := ask("/sign-in/passkey", body); w.Code < 400 || w.Code >= 500 || w.Header().Get("Content-Type") != "application/json" || b.cookies[sessionCookie] != "" {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
	// A module that must sign in first gets the address for that.
	if w := ask("/account/security/passkeys/options", "{}"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"location":"/sign-in"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.join(address)
	b := h.browser()
	b.enter()
	reached := 0
	f := h.pages.RequireRecent(func(http.ResponseWriter, *http.Request) error {
		reached++
		return nil
	})
	handler := web.Wrap(web.Options{Log: h.pages.Log, Now: time.Now}, h.pages.Around(web.Handler(web.WriteJSONError, func(w http.ResponseWriter, r *http.Request) error {
		if s, ok := h.pages.Person(r); !ok || s.Person.Email != address {
			t.Errorf("the person is %+v", s)
		}
		return f(w, r)
	})))
	handler.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodGet, "/panel/x", nil))
	h.Advance(10 * time.Minute)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, b.request(http.MethodGet, "/panel/x?a=b", nil))
	if reached != 1 || w.Header().Get("Location") != "/account/confirm?next="+url.QueryEscape("/panel/x?a=b") {
		t.Errorf("reached %d times, then %d to %s", reached, w.Code, w.Header().Get("Location"))
	}
	// A form may be submitted within half an hour.
	sent := 0
	slow := h.pages.Around(web.Handler(web.WriteJSONError, h.pages.RequireFilledIn(func(http.ResponseWriter, *http.Request) error {
		sent++
		return nil
	})))
	slow.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodPost, "/panel/x", nil))
	h.Advance(20 * time.Minute)
	slow.ServeHTTP(httptest.NewRecorder(), b.request(http.MethodPost, "/panel/x", nil))
	if sent != 1 {
		t.Errorf("sent %d times", sent)
	}
	if ReaderOf(nil, false) != nil {
		t.Error("a request without a session has a person")
	}
}

// Every problem and notice has its message in all languages.
func TestMessagesAreThere(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for _, l := range h.pages.Site.Languages() {
		for _, list := range []map[string]string{notices, fields} {
			for _, key := range list {
				if !l.Has(key) {
					t.Errorf("%s lacks %s", l.Tag, key)
				}
			}
		}
		for _, key := range problems {
			if !l.Has(key) {
				t.Errorf("%s lacks %s", l.Tag, key)
			}
		}
		b := h.browser()
		w := b.get("/sign-in?lang=" + l.Tag)
		title, err := l.Text("signin.title")
		if err != nil || !strings.Contains(w.Body.String(), template.HTMLEscapeString(title)) || !strings.Contains(w.Body.String(), `dir="`+l.Direction+`"`) {
			t.Errorf("%s: %s, %v", l.Tag, w.Body, err)
		}
	}
	if translate(identity.ErrWrong).Error() == identity.ErrWrong.Error() {
		t.Error("problems are shown in English")
	}
}
