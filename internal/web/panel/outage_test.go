package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestOutageIsNeverABareServerError requests every route after the database was closed. Pages that need
// the database respond with 503 and Retry-After. If a signed-in person submitted a form without files, the
// response contains a form. The form of the error page contains the typed input.
func TestOutageIsNeverABareServerError(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	owner := string(account.Owner)
	o.makeOperator(owner)
	o.uploader = o.people.persons[owner].ID
	samples := o.samples(t, o.inst)
	type request struct {
		route
		method, target string
	}
	requests := make([]request, 0, len(o.panel.table))
	for _, rt := range o.panel.table {
		method, target := path(t, rt.pattern, samples)
		requests = append(requests, request{rt, method, target})
	}
	if err := o.DB.Close(); err != nil {
		t.Fatal(err)
	}
	const typed = `Typed by Ada & "Obi"`
	unavailable := 0
	for _, r := range requests {
		form := url.Values(nil)
		if r.method == http.MethodPost {
			form = url.Values{"name": {typed}, "confirm": {"x"}}
		}
		w := o.do(owner, r.method, r.target, form)
		if w.Code == http.StatusInternalServerError || w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status = %d, Retry-After = %q, want no 500, and Retry-After with a 503; page %s", r.pattern, w.Code, w.Header().Get("Retry-After"), visibleText(t, w))
		}
		if w.Code != http.StatusServiceUnavailable {
			continue
		}
		unavailable++
		// The page contains its own form again, or is the error page with a form.
		if r.method == http.MethodPost && r.scope != ofEveryone && r.limits == nil && !strings.Contains(w.Body.String(), "<form") {
			t.Errorf("%s: the page with status 503 has no form", r.pattern)
		}
		if strings.Contains(w.Body.String(), "Submit again") && !strings.Contains(w.Body.String(), `name="name" value="Typed by Ada &amp; &#34;Obi&#34;"`) {
			t.Errorf("%s: the form of the error page does not contain the typed input", r.pattern)
		}
	}
	if unavailable < 90 {
		t.Errorf("%d routes were unavailable, want at least 90", unavailable)
	}
}

// TestOutageOfWritesKeepsTheForm submits a form while the database is read-only. The page shows the form
// again with the typed input.
func TestOutageOfWritesKeepsTheForm(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if _, err := o.DB.Writer().ExecContext(t.Context(), `PRAGMA query_only = 1`); err != nil {
		t.Fatal(err)
	}
	w := o.do(string(account.Owner), http.MethodPost, "/panel/"+o.inst.Slug+"/settings/public", url.Values{"contact": {"Typed by Ada"}})
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Fatalf("status = %d, Retry-After = %q, want 503 and a Retry-After header", w.Code, w.Header().Get("Retry-After"))
	}
	for _, want := range []string{`name="contact" type="text" value="Typed by Ada"`, "The service is not available at the moment. Please try again shortly."} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
}
