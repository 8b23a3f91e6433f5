package recipient

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

const base = vaulttest.BaseURL

// harness is a vault with the handler of the pages for recipients. It also implements Gate.
type harness struct {
	*vaulttest.Vault

	site    *page.Site
	t       *testing.T
	handler http.Handler
	inst    *account.Institution
	// person is the session of the signed-in person, or nil. recent reports whether the sign-in is
	// recent.
	person *identity.Session
	recent bool
	log    bytes.Buffer
	limit  *limit.Counter
	// last is the latest mail.
	last mail.Message
}

// Person returns the session of the signed-in person, and reports whether a person is signed in.
func (h *harness) Person(*http.Request) (*identity.Session, bool) { return h.person, h.person != nil }

// Require redirects to the sign-in unless a person is signed in.
func (h *harness) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h.person == nil {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	}
}

// RequireRecent redirects to the sign-in unless a person is signed in, and to the confirmation
// unless the sign-in is recent.
func (h *harness) RequireRecent(f web.Func) web.Func {
	return h.Require(func(w http.ResponseWriter, r *http.Request) error {
		if !h.recent {
			http.Redirect(w, r, "/account/confirm", http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	})
}

func newHarness(t *testing.T, perMinute int) *harness {
	t.Helper()
	h := &harness{t: t, Vault: vaulttest.New(t, dbtest.SQLite(t))}
	site, err := page.NewSite(h.Languages, Assets)
	if err != nil {
		t.Fatal(err)
	}
	h.site = site
	h.limit = limit.NewCounter(perMinute, time.Now)
	log := slog.New(slog.NewJSONHandler(&h.log, nil))
	pages := &Pages{
		Site: site, Gate: h, Recipients: h.Recipients, People: h.People, Accounts: h.Accounts, Certs: h.Certs, Applications: h.Applications,
		Mailer: h.Mailer, Links: h.Links, Limit: h.limit, BounceToken: "0123456789abcdef", Now: h.Now, Log: log,
		Verifications: h.Verifications, Issuer: h.Issuer,
	}
	inner, err := pages.Handler()
	if err != nil {
		t.Fatal(err)
	}
	h.handler = web.Wrap(web.Options{Log: log, Now: time.Now}, inner)
	h.inst = h.Institution("NWU", "University <b>NWU</b>")
	return h
}

// approvedCertificate creates a certificate, and waits until it is approved and the mail about it is sent.
func (h *harness) approvedCertificate(email, title string) *cert.Certificate {
	h.t.Helper()
	c := h.Upload(h.inst, "Ada <i>Obi</i>", "diploma.pdf", func(u *cert.Upload) { u.Title, u.Email = title, email })
	h.finishWork()
	approved, err := h.Certs.BySignedLink(h.t.Context(), c.UUID)
	if err != nil {
		h.t.Fatal(err)
	}
	return approved
}

// finishWork runs the queue until no certificate is in processing and all notices are sent. Then it stores
// the latest mail in last.
func (h *harness) finishWork() {
	h.t.Helper()
	h.Until("all notices are sent", func() bool {
		var waiting int
		err := h.DB.QueryRowContext(h.t.Context(), `
			SELECT (SELECT count(*) FROM certificates WHERE status = 'processing') + (SELECT count(*) FROM notices WHERE status IN ('waiting', 'queued'))`).Scan(&waiting)
		return err == nil && waiting == 0
	})
	for len(h.Mails) > 0 {
		h.last = <-h.Mails
	}
}

var secret = regexp.MustCompile(base + `/(?:c|unsubscribe)/([A-Z2-7]+)`)

// mailedSecrets calls finishWork, and returns the secrets of two links in the latest mail: the link to the
// certificates and the link to unsubscribe.
func (h *harness) mailedSecrets() (view, unsubscribe string) {
	h.t.Helper()
	h.finishWork()
	found := secret.FindAllStringSubmatch(h.last.Text, -1)
	return found[0][1], found[len(found)-1][1]
}

// signInToNewAccount creates an account with the verified address ada@example.org, and signs in to it.
func (h *harness) signInToNewAccount() {
	h.t.Helper()
	const email = "ada@example.org"
	p := identity.Person{Name: "Ada", Email: email, EmailFolded: email, Verified: true}
	h.Tx(func(tx *db.Tx) error {
		if err := tx.QueryRowContext(h.t.Context(), `INSERT INTO users (uuid, email, email_folded, name, created_at, confirmed_at) VALUES ($1, $2, $2, 'Ada', 1, 1) RETURNING id`,
			uuid.NewString(), email).Scan(&p.ID); err != nil {
			return err
		}
		return h.Recipients.ClaimTx(h.t.Context(), tx, p.ID, email)
	})
	h.person = &identity.Session{Person: p}
}

// send sends a request. header are the names of header fields, each followed by its value.
func (h *harness) send(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, base+target, strings.NewReader(body))
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

func (h *harness) get(target string) *httptest.ResponseRecorder {
	return h.send(http.MethodGet, target, "")
}

// post sends a form. fields are the names of the fields, each followed by its value.
func (h *harness) post(target string, fields ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return h.send(http.MethodPost, target, form.Encode(), "Sec-Fetch-Site", "same-origin")
}

// checkPage checks the status and the source of a page, and that the page contains no unescaped
// input.
func (h *harness) checkPage(name string, w *httptest.ResponseRecorder, status int, want ...string) {
	h.t.Helper()
	body := w.Body.String()
	for _, s := range want {
		if !strings.Contains(body, s) {
			h.t.Errorf("%s: the page does not contain %q", name, s)
		}
	}
	if w.Code != status {
		h.t.Errorf("%s: status = %d, want %d: %s", name, w.Code, status, body[:min(len(body), 300)])
	}
	if strings.Contains(body, "<b>NWU</b>") || strings.Contains(body, "<i>Obi</i>") {
		h.t.Errorf("%s: the page contains unescaped input", name)
	}
}
