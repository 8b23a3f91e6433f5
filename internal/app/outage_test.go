package app

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/test/vault"
)

// direct is a vault that is not started. The test calls its handler directly.
type direct struct {
	*testing.T

	app             *App
	inst            *account.Institution
	secret, session string
}

// newDirect returns a vault with an institution. The owner of the institution is signed in. Each change may
// modify the settings of the vault.
func newDirect(t *testing.T, change ...func(*config.Serve)) *direct {
	t.Helper()
	d := &direct{T: t, app: newApp(t, warmFolder(t), &bytes.Buffer{}, change...)}
	t.Cleanup(func() { _ = d.app.close(context.WithoutCancel(t.Context())) })
	var err error
	if d.inst, err = d.app.Accounts.CreateInstitution(t.Context(), account.NewInstitution{
		Name: "Northwest University", Prefix: "NWU", OwnerEmail: "owner@example.org", OwnerName: "Owner", OwnerPassword: vault.OwnerPassword,
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.app.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, d.secret, err = d.app.Tokens.Create(t.Context(), d.inst.ID, "Test", token.All, nil); err != nil {
		t.Fatal(err)
	}
	w := d.form("/sign-in", url.Values{"email": {"owner@example.org"}, "password": {vault.OwnerPassword}})
	for _, c := range w.Result().Cookies() {
		if c.Name == vault.SessionCookie {
			d.session = c.Value
		}
	}
	if d.session == "" {
		t.Fatalf("the response to the sign-in has no session cookie: status = %d", w.Code)
	}
	return d
}

func (d *direct) serve(method, target, contentType string, body io.Reader) *httptest.ResponseRecorder {
	d.Helper()
	r := httptest.NewRequestWithContext(d.Context(), method, "https://localhost"+target, body)
	r.Header.Set("Content-Type", contentType)
	if strings.HasPrefix(target, "/business/") {
		r.Header.Set("Authorization", "Bearer "+d.secret)
	} else if d.session != "" {
		r.AddCookie(&http.Cookie{Name: vault.SessionCookie, Value: d.session})
	}
	w := httptest.NewRecorder()
	d.app.gate.handler.ServeHTTP(w, r)
	return w
}

func (d *direct) get(target string) *httptest.ResponseRecorder {
	d.Helper()
	return d.serve(http.MethodGet, target, "", nil)
}

func (d *direct) form(target string, values url.Values) *httptest.ResponseRecorder {
	d.Helper()
	return d.serve(http.MethodPost, target, "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}

// expectUnavailable checks that a response during an outage is 503 with Retry-After.
func (d *direct) expectUnavailable(name string, w *httptest.ResponseRecorder) {
	d.Helper()
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		d.Errorf("%s: status = %d, Retry-After = %q, Location = %q, want 503 and a Retry-After", name, w.Code, w.Header().Get("Retry-After"), w.Header().Get("Location"))
	}
}

// TestOutageReturns503Everywhere checks that requests that write get 503 while the database is
// read-only, and that no route responds with 500 while the database is closed. Pages respond with 503
// and do not redirect a signed-in person to the sign-in page.
func TestOutageReturns503Everywhere(t *testing.T) {
	t.Parallel()
	d := newDirect(t)
	panel := "/panel/" + d.inst.Slug
	const id = "00000000-0000-4000-8000-000000000000"
	if _, err := d.app.DB.Writer().ExecContext(t.Context(), `PRAGMA query_only = 1`); err != nil {
		t.Fatal(err)
	}
	form := vault.NewForm("Diploma", "Ada Obi", "ada@example.org", "ada.pdf", sample("ada.pdf"))
	contentType, body, err := form.Encode()
	if err != nil {
		t.Fatal(err)
	}
	d.expectUnavailable("upload", d.serve(http.MethodPost, vault.CertificatesPath, contentType, body))
	d.expectUnavailable("settings without writes", d.form(panel+"/settings/public", url.Values{"contact": {"Typed"}}))
	d.expectUnavailable("sign-in without writes", d.form("/sign-in", url.Values{"email": {"a@example.org"}, "password": {"wrong password"}}))

	if err := d.app.DB.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range d.app.patterns {
		method, target, _ := strings.Cut(pattern, " ")
		target = strings.NewReplacer("{uuid}", id, "{batch_id}", id, "{reference_id}", "NWU-0123456789ABCDEF", "{slug}", d.inst.Slug, "{digest}", "x", "{kind}", "verified.pdf",
			"{$}", "").Replace(target)
		w := d.serve(method, target, "application/x-www-form-urlencoded", strings.NewReader("reason=x"))
		if w.Code == http.StatusInternalServerError || w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status = %d, Retry-After = %q, want a status other than 500, and a Retry-After with 503", pattern, w.Code, w.Header().Get("Retry-After"))
		}
		if strings.HasPrefix(target, "/business/") {
			d.expectUnavailable(pattern, w)
		}
	}
	for _, target := range []string{
		"/panel", panel, panel + "/certificates", panel + "/settings", panel + "/upload", "/operator", "/account", "/account/security", "/account/export", "/account/applications",
		"/account/apply/" + d.inst.Slug + "/diploma", "/apply/" + d.inst.Slug, "/apply/" + d.inst.Slug + "/diploma",
		"/verify/NWU-0123456789ABCDEF", "/c/" + strings.Repeat("a", 26), "/s/" + strings.Repeat("a", 26),
	} {
		d.expectUnavailable(target, d.get(target))
	}
	for _, target := range []string{
		panel + "/certificates/" + id + "/revoke", panel + "/settings/public", panel + "/webhooks", panel + "/tokens", "/account/security/name",
	} {
		w := d.form(target, url.Values{"name": {"Typed by Ada"}})
		d.expectUnavailable(target, w)
		if strings.HasPrefix(target, panel) && !strings.Contains(w.Body.String(), `name="name" value="Typed by Ada"`) {
			t.Errorf("%s: the page does not contain the typed input: %s", target, w.Body)
		}
	}
}

// TestVaultIsNotReadyWhileWritesFail checks /readyz while the database or the file store accepts no
// writes, and while a write does not return.
func TestVaultIsNotReadyWhileWritesFail(t *testing.T) {
	t.Parallel()
	d := newDirect(t)
	ctx := t.Context()
	probe := func() {
		t.Helper()
		_, _ = d.app.heartbeat(ctx), d.app.probeFiles(ctx)
	}
	expectReady := func() {
		t.Helper()
		probe()
		if w := d.get("/readyz"); w.Code != http.StatusOK {
			t.Errorf("status = %d, want 200: %s", w.Code, w.Body)
		}
	}
	expectNotReady := func(reason string) {
		t.Helper()
		w := d.get("/readyz")
		d.expectUnavailable(reason, w)
		if !strings.Contains(w.Body.String(), reason) {
			t.Errorf("body of /readyz = %s, want %s", w.Body, reason)
		}
	}
	pragma := func(text string) {
		t.Helper()
		if _, err := d.app.DB.Writer().ExecContext(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	expectReady()
	pragma(`PRAGMA query_only = 1`)
	probe()
	expectNotReady("the last write to the database failed")
	pragma(`PRAGMA query_only = 0`)
	expectReady()

	incoming := filepath.Join(d.app.cfg.Data, "files", "incoming")
	if err := os.Remove(incoming); err != nil {
		t.Fatal(err)
	}
	probe()
	expectNotReady("the last write to the file store failed")
	if err := os.Mkdir(incoming, 0o700); err != nil {
		t.Fatal(err)
	}
	expectReady()
	d.app.fileProbe.last.Store(&probeResult{at: time.Now().Add(-probeLate - time.Second)})
	expectNotReady("the last write to the file store failed")
}
