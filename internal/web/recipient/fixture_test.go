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

// hall is the pages in the middleware that they run in.
type hall struct {
	*vaulttest.Vault

	t       *testing.T
	handler http.Handler
	inst    *account.Institution
	// person is the person who is signed in, nil if there is none. recent reports
	// whether the sign-in is recent.
	person *identity.Session
	recent bool
	log    bytes.Buffer
	limit  *limit.Counter
	// last is the latest mail.
	last mail.Message
}

// Person returns the person who is signed in.
func (h *hall) Person(*http.Request) (*identity.Session, bool) { return h.person, h.person != nil }

// Require serves only people who are signed in.
func (h *hall) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h.person == nil {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	}
}

// RequireRecent serves only people with a recent sign-in.
func (h *hall) RequireRecent(f web.Func) web.Func {
	return h.Require(func(w http.ResponseWriter, r *http.Request) error {
		if !h.recent {
			http.Redirect(w, r, "/account/confirm", http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	})
}

func newHall(t *testing.T, perMinute int) *hall {
	t.Helper()
	h := &hall{t: t, Vault: vaulttest.New(t, dbtest.SQLite(t))}
	site, err := page.NewSite(h.Languages, Assets)
	if err != nil {
		t.Fatal(err)
	}
	h.limit = limit.NewCounter(perMinute, time.Now)
	log := slog.New(slog.NewJSONHandler(&h.log, nil))
	pages := &Pages{
		Site: site, Gate: h, Recipients: h.Recipients, People: h.People, Accounts: h.Accounts, Certs: h.Certs, Mailer: h.Mailer, Links: h.Links,
		Limit: h.limit, BounceToken: "0123456789abcdef", Now: h.Now, Log: log,
	}
	inner, err := pages.Handler()
	if err != nil {
		t.Fatal(err)
	}
	h.handler = web.Wrap(web.Options{Log: log, Now: time.Now}, inner)
	h.inst = h.Institution("NWU", "University <b>NWU</b>")
	return h
}

// approved makes an approved certificate and mails it.
func (h *hall) approved(email, title string) *cert.Certificate {
	h.t.Helper()
	c := h.Upload(h.inst, "Ada <i>Obi</i>", "diploma.pdf", func(u *cert.Upload) { u.Title, u.Email = title, email })
	h.work()
	now, err := h.Certs.ByCapability(h.t.Context(), c.UUID)
	if err != nil {
		h.t.Fatal(err)
	}
	return now
}

// work runs the queue until all certificates are done and all notices are sent.
func (h *hall) work() {
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

// mailed returns the secrets of the links in the latest mail: to view, and to
// unsubscribe.
func (h *hall) mailed() (view, unsubscribe string) {
	h.t.Helper()
	h.work()
	found := secret.FindAllStringSubmatch(h.last.Text, -1)
	return found[0][1], found[len(found)-1][1]
}

// join makes an account with a proved address and signs it in.
func (h *hall) join() {
	h.t.Helper()
	const email = "ada@example.org"
	p := identity.Person{Name: "Ada", Email: email, EmailFolded: email, Proved: true}
	h.Tx(func(tx *db.Tx) error {
		if err := tx.QueryRowContext(h.t.Context(), `INSERT INTO users (uuid, email, email_folded, name, created_at, confirmed_at) VALUES ($1, $2, $2, 'Ada', 1, 1) RETURNING id`,
			uuid.NewString(), email).Scan(&p.ID); err != nil {
			return err
		}
		return h.Recipients.ClaimTx(h.t.Context(), tx, p.ID, email)
	})
	h.person = &identity.Session{Person: p}
}

func (h *hall) send(method, target, body string, header ...string) *httptest.ResponseRecorder {
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

func (h *hall) get(target string) *httptest.ResponseRecorder {
	return h.send(http.MethodGet, target, "")
}

func (h *hall) post(target string, fields ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return h.send(http.MethodPost, target, form.Encode(), "Sec-Fetch-Site", "same-origin")
}

// says checks the status of a page and what it says.
func (h *hall) says(name string, w *httptest.ResponseRecorder, status int, want ...string) {
	h.t.Helper()
	body := w.Body.String()
	for _, s := range want {
		if !strings.Contains(body, s) {
			h.t.Errorf("%s: the page does not say %q", name, s)
		}
	}
	if w.Code != status {
		h.t.Errorf("%s: %d, not %d: %s", name, w.Code, status, body[:min(len(body), 300)])
	}
	if strings.Contains(body, "<b>NWU</b>") || strings.Contains(body, "<i>Obi</i>") {
		h.t.Errorf("%s: what others wrote became markup", name)
	}
}
