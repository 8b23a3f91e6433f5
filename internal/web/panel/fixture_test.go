package panel

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// people implements Gate and Members. The header personHeader of a request contains the name of the
// signed-in person.
type people struct {
	persons map[string]Person
	members map[int64][]account.Membership
	// stale are the ids of the people whose sign-in is too old for RequireRecent and
	// RequireRecentForSubmit. slow are the ids of the people whose sign-in is too old for
	// RequireRecent only. People in slow may submit a form, but not open it.
	stale, slow map[int64]bool
	// ended are the ids of the people whose session ends while a request runs.
	ended map[int64]bool
}

const personHeader = "Test-Person"

func (g *people) Person(r *http.Request) (Person, bool) {
	p, ok := g.persons[r.Header.Get(personHeader)]
	return p, ok
}

func (g *people) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, ok := g.Person(r); !ok {
			http.Redirect(w, r, "/sign-in?next="+url.QueryEscape(r.URL.Path), http.StatusSeeOther)
			return nil
		}
		return f(w, r)
	}
}

func (g *people) RequireRecent(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p, ok := g.Person(r); !ok || g.stale[p.ID] || g.slow[p.ID] {
			return confirm(w, r)
		}
		return f(w, r)
	}
}

func (g *people) RequireRecentForSubmit(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p, ok := g.Person(r); !ok || g.stale[p.ID] {
			return confirm(w, r)
		}
		return f(w, r)
	}
}

func confirm(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, "/account/confirm?next="+url.QueryEscape(r.URL.Path), http.StatusSeeOther)
	return nil
}

func (g *people) CheckSession(r *http.Request) error {
	if p, ok := g.Person(r); !ok || g.ended[p.ID] {
		return identity.ErrNoSession
	}
	return nil
}

func (g *people) Memberships(_ context.Context, userID int64) ([]account.Membership, error) {
	return g.members[userID], nil
}

// finder maps reference ids to certificates.
type finder map[string]*cert.Certificate

var errNoCertificate = fault.New(fault.NotFound, "No such certificate.")

func (f finder) ByUUID(_ context.Context, institutionID int64, id string) (*cert.Certificate, error) {
	for _, c := range f {
		if c.UUID == id && c.InstitutionID == institutionID {
			return c, nil
		}
	}
	return nil, errNoCertificate
}

func (f finder) ByReference(_ context.Context, typed string) (*cert.Certificate, error) {
	if c, ok := f[typed]; ok {
		return c, nil
	}
	return nil, errNoCertificate
}

// panelTest is a test of the panel with its middleware and two institutions.
type panelTest struct {
	*vaulttest.Vault

	tb      testing.TB
	people  *people
	panel   *Panel
	handler http.Handler
	log     *bytes.Buffer
	// certificateCount is the number of certificates that approvedCertificate has created.
	certificateCount int
	// uploader is the id of the person who creates sample bulk uploads. Only this person can see
	// the sample bulk uploads.
	uploader int64
	// inst is the institution of the test; other is another institution.
	inst, other account.Institution
	// signIns records the people for whom a session was set. sent contains the messages that the
	// dependencies in Access sent.
	signIns *signInRecorder
	sent    []mail.Message
	// peopleCount is the last number in the addresses and names that helper methods have created.
	peopleCount int
}

func newPanelTest(tb testing.TB, d *db.DB) *panelTest {
	tb.Helper()
	o := &panelTest{
		Vault: vaulttest.New(tb, d, drawSamples), tb: tb, log: &bytes.Buffer{},
		people: &people{persons: map[string]Person{}, members: map[int64][]account.Membership{}, stale: map[int64]bool{}, slow: map[int64]bool{}, ended: map[int64]bool{}},
	}
	site, err := page.NewSite(o.Languages, Assets)
	if err != nil {
		tb.Fatal(err)
	}
	o.panel = &Panel{
		Access: o.access(),
		Site:   site, Gate: o.people, Members: o.people, Tokens: o.Tokens, Hooks: o.Hooks, Find: finder{}, Limit: limit.NewCounter(0, o.Now),
		Certs: o.Certs, Search: o.Search, Tasks: o.Tasks, Batches: o.Batches, BulkImports: o.BulkImports, Templates: o.Templates, Applications: o.Applications,
		Approvals: o.Approvals, Verifications: o.Verifications, Links: o.Links, Mail: o.Recipients, Keys: o.Keys, Issuer: o.Issuer,
		RotateKey: func(ctx context.Context, inst *account.Institution) error {
			return o.Keys.Rotate(ctx, inst.UUID, inst.Name, nil)
		},
		BaseURL: vaulttest.BaseURL, Now: o.Now, Log: slog.New(slog.DiscardHandler),
	}
	inner, err := o.panel.Handler()
	if err != nil {
		tb.Fatal(err)
	}
	o.handler = web.Wrap(web.Options{Log: slog.New(slog.NewJSONHandler(o.log, nil)), Now: time.Now}, inner)
	o.inst, o.other = o.institution("NWU", "Northern & Western University"), o.institution("SEC", "South East College")
	for _, s := range account.Roles {
		o.addMember(string(s.Role), o.inst, s.Role)
	}
	o.addMember("outsider", o.other, account.Owner)
	o.person("guest")
	return o
}

func (o *panelTest) institution(prefix, name string) account.Institution {
	o.tb.Helper()
	return *certtest.Institution(o.tb, o.DB, nil, prefix, name)
}

// drawSamples changes the dependencies of vaulttest.New. It adds the fonts, so that the pages can show
// pictures of templates, and allows 3 attempts of a job. It keeps the Drawer and the Templates of vaulttest.
func drawSamples(d *vault.Deps) {
	drawer, templates := d.Drawer, d.Templates
	vaulttest.DrawTemplates(d)
	d.Drawer, d.Templates, d.Attempts = drawer, templates, 3
}

// pathOf returns the address of a page of the test's institution.
func (o *panelTest) pathOf(page string) string { return "/panel/" + o.inst.Slug + "/" + page }

// upload creates a certificate of an institution. The sealer refuses files whose name begins with
// "refuse".
func (o *panelTest) upload(inst account.Institution, name, file string) *cert.Certificate {
	o.tb.Helper()
	return o.Upload(&inst, name, file, func(u *cert.Upload) {
		u.Creator, u.Context = cert.Actor{Type: "user", ID: 1, Name: "Regina Registrar"}, cert.PanelUpload
	})
}

// processAll creates the missing keys of the institutions, and runs the queue until all
// certificates are processed.
func (o *panelTest) processAll() {
	o.tb.Helper()
	for _, inst := range []account.Institution{o.inst, o.other} {
		if _, err := o.Keys.Anchors(o.tb.Context(), inst.UUID); err != nil {
			if err := o.Keys.Create(o.tb.Context(), inst.UUID, inst.Name, nil); err != nil {
				o.tb.Fatal(err)
			}
		}
	}
	o.Settle()
}

// processUntil calls processAll, and then runs the queue until a condition is true.
func (o *panelTest) processUntil(what string, condition func() bool) {
	o.tb.Helper()
	o.processAll()
	o.Until(what, condition)
}

// person creates an account with the address name@example.org. Requests with the name are signed in.
func (o *panelTest) person(name string) Person {
	o.tb.Helper()
	p := Person{UUID: uuid.NewString(), Name: strings.ToUpper(name[:1]) + name[1:] + " Person", Email: name + "@example.org"}
	o.Tx(func(tx *db.Tx) error {
		return tx.QueryRowContext(o.tb.Context(), `INSERT INTO users (uuid, email, email_folded, name, created_at) VALUES ($1, $2, $2, $3, 0) RETURNING id`,
			p.UUID, p.Email, p.Name).Scan(&p.ID)
	})
	o.people.persons[name] = p
	return p
}

// makeOperator makes the person with a name an operator of the installation.
func (o *panelTest) makeOperator(name string) {
	p := o.people.persons[name]
	p.Operator = true
	o.people.persons[name] = p
}

// addMember makes the person with a name a member of an institution. If there is no such person,
// addMember creates an account.
func (o *panelTest) addMember(name string, inst account.Institution, role account.Role) {
	p, ok := o.people.persons[name]
	if !ok {
		p = o.person(name)
	}
	o.Exec(`INSERT INTO members (institution_id, user_id, role, created_at) VALUES ($1, $2, $3, 0)`, inst.ID, p.ID, string(role))
	o.people.members[p.ID] = append(o.people.members[p.ID], account.Membership{Institution: inst, UserID: p.ID, Role: role})
}

// request returns a request of a person, with the headers of a request from a page of the vault.
func (o *panelTest) request(person, method, target string, form url.Values) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, "https://vault.example"+target, strings.NewReader(form.Encode()))
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	r.Header.Set(personHeader, person)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return r
}

func (o *panelTest) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	if !strings.HasSuffix(r.URL.Path, "/events") {
		o.handler.ServeHTTP(w, r)
		return w
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	o.handler.ServeHTTP(listener{w, cancel}, r.WithContext(ctx))
	return w
}

// listener cancels a request for events after the first flush, which follows the first event.
type listener struct {
	*httptest.ResponseRecorder

	cancel context.CancelFunc
}

func (l listener) Flush() {
	l.ResponseRecorder.Flush()
	l.cancel()
}

func (o *panelTest) do(person, method, target string, form url.Values) *httptest.ResponseRecorder {
	return o.send(o.request(person, method, target, form))
}

func (o *panelTest) get(person, target string) *httptest.ResponseRecorder {
	return o.do(person, http.MethodGet, target, nil)
}

func (o *panelTest) post(person, target string, form url.Values) *httptest.ResponseRecorder {
	return o.do(person, http.MethodPost, target, form)
}

// visibleText returns the text of a page without its markup.
func visibleText(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// checkPage checks the status, the texts and the security headers of a page.
func checkPage(t *testing.T, name string, w *httptest.ResponseRecorder, status int, want ...string) {
	t.Helper()
	text := visibleText(t, w)
	for _, s := range want {
		if !strings.Contains(text, s) {
			t.Errorf("%s: the page lacks %q: %s", name, s, text)
		}
	}
	h := w.Header()
	if w.Code != status || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: status = %d, want %d and an HTML page with the headers no-store and nosniff; header %v", name, w.Code, status, h)
	}
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("%s: Content-Security-Policy = %q, want 'none' for default-src and frame-ancestors, and no unsafe source", name, policy)
	}
}

// followRedirect checks that w redirects to an address, and returns the response to a person's request for
// the address. The request has the cookies of w, such as the cookie of a notice.
func (o *panelTest) followRedirect(t *testing.T, person string, w *httptest.ResponseRecorder, to string) *httptest.ResponseRecorder {
	t.Helper()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
		t.Fatalf("status = %d, Location = %q, want 303 and %q: %s", w.Code, w.Header().Get("Location"), to, visibleText(t, w))
	}
	r := o.request(person, http.MethodGet, to, nil)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	return o.send(r)
}

// linkTo returns the address of the link with a text.
func (o *panelTest) linkTo(w *httptest.ResponseRecorder, text string) string {
	o.tb.Helper()
	before, _, found := strings.Cut(w.Body.String(), ">"+text+"</a>")
	at := strings.LastIndex(before, `href="`)
	if !found || at < 0 {
		o.tb.Fatalf("the page has no link with the text %q", text)
	}
	address, _, _ := strings.Cut(before[at+len(`href="`):], `"`)
	return html.UnescapeString(address)
}
