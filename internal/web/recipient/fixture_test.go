package recipient

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/webhook"
)

const base = "https://vault.example"

// hall is the pages in the middleware that they run in.
type hall struct {
	t          *testing.T
	d          *db.DB
	recipients *recipient.Service
	certs      *cert.Service
	handler    http.Handler
	inst       *account.Institution
	// person is who is signed in, nil for nobody; recent that they showed it a
	// moment ago.
	person *identity.Session
	recent bool
	log    bytes.Buffer
	folder *blob.Folder
	limit  *limit.Counter
}

// Person gives who is signed in.
func (h *hall) Person(*http.Request) (*identity.Session, bool) { return h.person, h.person != nil }

// Require lets through who is signed in.
func (h *hall) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h.person == nil {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	}
}

// RequireRecent lets through who showed a moment ago who they are.
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
	h := &hall{t: t, d: dbtest.Open(t, t.TempDir(), "")}
	quiet := slog.New(slog.DiscardHandler)
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	queue, err := job.New(h.d, job.Config{NodeID: "test", Queues: map[string]int{cert.RecipientQueue: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	languages, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	if h.folder, err = blob.NewFolder(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	h.certs = cert.New(cert.Config{
		DB: h.d, Blobs: h.folder, Queue: queue, Hooks: webhook.New(h.d, ring, time.Now), Attempts: 1, Now: time.Now, Log: quiet,
		Recipient: func(ctx context.Context, tx *db.Tx, id int64, email string) (int64, error) {
			return h.recipients.LookUpTx(ctx, tx, id, email)
		},
		Moved: func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
			return h.recipients.MovedTx(ctx, tx, c)
		},
	})
	// Without a ring the test can read what is mailed.
	mailer := mail.New(mail.Config{DB: h.d, Queue: queue, From: mail.Address{Email: "no-reply@vault.example"}, Now: time.Now, Log: quiet})
	links := web.NewLinks(base, ring, time.Now)
	accounts := account.New(h.d, time.Now)
	h.recipients = recipient.New(recipient.Config{
		DB: h.d, Certs: h.certs, Accounts: accounts, Mailer: mailer, Queue: queue, Catalog: languages, To: links.To, Now: time.Now, Log: quiet,
	})
	people, err := identity.New(identity.Config{
		DB: h.d, Ring: ring, BaseURL: base, Now: time.Now, Log: quiet,
		OnDeleted: func(ctx context.Context, tx *db.Tx, p identity.Person) error {
			return h.recipients.ForgetTx(ctx, tx, p.ID)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	site, err := page.NewSite(languages, Assets)
	if err != nil {
		t.Fatal(err)
	}
	h.limit = limit.NewCounter(perMinute, time.Now)
	log := slog.New(slog.NewJSONHandler(&h.log, nil))
	pages := &Pages{
		Site: site, Gate: h, Recipients: h.recipients, People: people, Accounts: accounts, Certs: h.certs, Mailer: mailer, Links: links,
		Limit: h.limit, BounceToken: "0123456789abcdef", Now: time.Now, Log: log,
	}
	inner, err := pages.Handler()
	if err != nil {
		t.Fatal(err)
	}
	h.handler = web.Wrap(web.Options{Log: log, Now: time.Now}, inner)
	h.inst = &account.Institution{UUID: uuid.NewString(), Name: "University <b>NWU</b>", Prefix: "NWU"}
	h.tx(func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, 'nwu', $2, 'NWU', 1) RETURNING id`,
			h.inst.UUID, h.inst.Name).Scan(&h.inst.ID)
	})
	return h
}

func (h *hall) tx(f func(tx *db.Tx) error) {
	h.t.Helper()
	if err := h.d.Tx(h.t.Context(), f); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hall) exec(query string, args ...any) {
	h.t.Helper()
	h.tx(func(tx *db.Tx) error {
		_, err := tx.ExecContext(h.t.Context(), query, args...)
		return err
	})
}

// approved makes a certificate with files, and mails it.
func (h *hall) approved(email, title string) *cert.Certificate {
	h.t.Helper()
	c, err := h.certs.Upload(h.t.Context(), cert.Upload{
		Institution: h.inst, Creator: cert.Actor{Type: "token", ID: 1, Name: "Registry"}, Context: cert.SingleUpload,
		Title: title, FullName: "Ada <i>Obi</i>", Email: email, IssueDate: "2026-06-30",
		File: &cert.File{Name: "diploma.pdf", Type: seal.PDF, Size: 8, State: []byte{}, Key: h.inst.UUID + "/00/" + uuid.NewString() + ".original"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	tail := h.inst.UUID + "/00/" + uuid.NewString() + ".verified"
	for key, text := range map[string]string{c.File.Key: "original", tail: " and a tail"} {
		if _, err := h.folder.Put(h.t.Context(), key, strings.NewReader(text)); err != nil {
			h.t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte("original and a tail"))
	h.exec(`UPDATE certificates SET status = 'approved', approved_at = $1, tail_key = $2, verified_sha256 = $3, verified_size = 19 WHERE id = $4`,
		db.Micros(time.Now()), tail, sum[:], c.ID)
	for _, check := range []string{cert.CheckFile, cert.CheckSignature} {
		h.exec(`INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES ($1, $2, 'passed', 1)`, c.ID, check)
	}
	now, err := h.certs.ByCapability(h.t.Context(), c.UUID)
	if err != nil {
		h.t.Fatal(err)
	}
	h.tx(func(tx *db.Tx) error { return h.recipients.MovedTx(h.t.Context(), tx, now) })
	h.exec(`UPDATE notices SET created_at = 1`)
	if err := h.recipients.Sweep(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return now
}

var secret = regexp.MustCompile(base + `/(?:c|unsubscribe)/([A-Z2-7]+)`)

// mailed gives the secrets of the links in the latest mail: to view, and to
// unsubscribe.
func (h *hall) mailed() (view, unsubscribe string) {
	h.t.Helper()
	var text string
	if err := h.d.QueryRowContext(h.t.Context(), `SELECT message FROM mails ORDER BY id DESC LIMIT 1`).Scan(&text); err != nil {
		h.t.Fatal(err)
	}
	found := secret.FindAllStringSubmatch(text, -1)
	return found[0][1], found[len(found)-1][1]
}

// join makes an account with a proved address and signs it in.
func (h *hall) join() {
	h.t.Helper()
	const email = "ada@example.org"
	p := identity.Person{Name: "Ada", Email: email, EmailFolded: email, Proved: true}
	h.tx(func(tx *db.Tx) error {
		if err := tx.QueryRowContext(h.t.Context(), `INSERT INTO users (uuid, email, email_folded, name, created_at, confirmed_at) VALUES ($1, $2, $2, 'Ada', 1, 1) RETURNING id`,
			uuid.NewString(), email).Scan(&p.ID); err != nil {
			return err
		}
		return h.recipients.ClaimTx(h.t.Context(), tx, p.ID, email)
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
