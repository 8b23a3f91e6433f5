package signin

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

const (
	base     = vaulttest.BaseURL
	address  = "ada@example.org"
	password = "correct horse"
)

// harness is a vault with a running queue, and the handler of the pages with its middleware.
type harness struct {
	*vaulttest.Vault

	tb      testing.TB
	pages   *Pages
	handler http.Handler
	log     bytes.Buffer
	logger  *slog.Logger
}

func newHarness(tb testing.TB) *harness {
	tb.Helper()
	h := &harness{tb: tb, Vault: vaulttest.New(tb, dbtest.SQLite(tb))}
	h.Run()
	site, err := page.NewSite(h.Languages, Assets)
	if err != nil {
		tb.Fatal(err)
	}
	h.logger = slog.New(slog.NewJSONHandler(&h.log, nil))
	h.pages = &Pages{Site: site, People: h.People, Limit: limit.NewCounter(0, h.Now), Now: h.Now}
	inner, err := h.pages.Handler()
	if err != nil {
		tb.Fatal(err)
	}
	// As in the server, the pages get only the requests below their prefixes.
	mounted := http.NewServeMux()
	for _, prefix := range Prefixes {
		mounted.Handle(prefix, inner)
		mounted.Handle(prefix+"/", inner)
	}
	h.handler = web.Wrap(web.Options{Log: h.logger, Now: time.Now}, h.pages.WithSession(mounted))
	return h
}

// createAccount creates an account with the test password.
func (h *harness) createAccount(email string) identity.Person {
	h.tb.Helper()
	hash, err := h.Accounts.HashPassword(h.tb.Context(), password)
	if err != nil {
		h.tb.Fatal(err)
	}
	parsed, err := account.ParseEmail(email)
	if err != nil {
		h.tb.Fatal(err)
	}
	var p identity.Person
	h.Tx(func(tx *db.Tx) (err error) {
		p, err = h.People.CreateTx(h.tb.Context(), tx, parsed, identity.NewPerson{Name: "Ada Obi", Language: "en"}, hash)
		return err
	})
	return p
}

// mailedLink returns the path of the link in the next mail that contains a link.
func (h *harness) mailedLink() string {
	h.tb.Helper()
	for {
		select {
		case m := <-h.Mails:
			if _, after, ok := strings.Cut(m.Text, base); ok {
				return strings.Fields(after)[0]
			}
		case <-time.After(20 * time.Second):
			h.tb.Fatal("no mail with a link was sent within 20 s")
		}
	}
}

// browser is a client that stores cookies.
type browser struct {
	*harness

	cookies map[string]string
	// client is the network address of the browser.
	client string
}

func (h *harness) browser() *browser {
	return &browser{harness: h, cookies: map[string]string{}, client: "203.0.113.9:4711"}
}

func (b *browser) request(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, base+target, body)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = b.client
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return r
}

func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if strings.HasPrefix(c.Name, "__Host-") && (!c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode) {
			b.tb.Errorf("the attributes of the cookie are wrong: %+v", c)
		}
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return w
}

func (b *browser) get(target string) *httptest.ResponseRecorder {
	return b.send(b.request(http.MethodGet, target, nil))
}

// post sends a form. fields are the names of the fields, each followed by its value.
func (b *browser) post(target string, fields ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send(b.request(http.MethodPost, target, strings.NewReader(form.Encode())))
}

// checkRedirect checks that a response redirects to a path.
func (b *browser) checkRedirect(name string, w *httptest.ResponseRecorder, to string) {
	b.tb.Helper()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
		b.tb.Errorf("%s: status = %d, Location = %q, want 303 and %q: %s", name, w.Code, w.Header().Get("Location"), to, visibleText(b.tb, w))
	}
}

// checkPage checks the status of a page, its visible text, and the headers that all pages have.
func (b *browser) checkPage(name string, w *httptest.ResponseRecorder, status int, want ...string) {
	b.tb.Helper()
	text := visibleText(b.tb, w)
	for _, s := range want {
		if !strings.Contains(text, s) {
			b.tb.Errorf("%s: the page lacks %q: %s", name, s, text)
		}
	}
	h := w.Header()
	if w.Code != status || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Robots-Tag") != "noindex" {
		b.tb.Errorf("%s: status = %d, want %d; header %v, want no-store, nosniff and noindex", name, w.Code, status, h)
	}
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		b.tb.Errorf("%s: the policy lacks default-src 'none' or contains unsafe: %s", name, policy)
	}
}

// visibleText returns the text of a page without its markup.
func visibleText(tb testing.TB, w *httptest.ResponseRecorder) string {
	tb.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		tb.Fatal(err)
	}
	var s strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			s.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(s.String()), " ")
}

// signIn signs in with the test password.
func (b *browser) signIn() {
	b.tb.Helper()
	b.checkRedirect("signing in", b.post("/sign-in", "email", address, "password", password), "/account")
}

// clone returns a browser with the same cookies.
func (b *browser) clone() *browser {
	other := *b
	other.cookies = maps.Clone(b.cookies)
	return &other
}
