package panel

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// An event stream ends when the server stops. Otherwise the stop of the server would wait for minutes for
// the end of the stream.
func TestEventsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	task := o.post("owner", o.pathOf("certificates/revoke"), url.Values{"sure": {"1"}, "reason": {"Withdrawn"}, "selected": {c.UUID}}).Header().Get("Location")
	stopping := make(chan struct{})
	close(stopping)
	o.panel.Stopping = stopping
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, o.request("auditor", http.MethodGet, task+"/events", nil))
	if got := w.Body.String(); got != `data: {"done":0,"skipped":0,"failed":0,"finished":false}`+"\n\n" {
		t.Errorf("the stream of a stopping server: status = %d, body = %q; want one event with the progress", w.Code, got)
	}
	if w := o.get("auditor", o.pathOf("tasks/00000000-0000-0000-0000-000000000000/events")); w.Code != http.StatusNotFound || strings.Contains(w.Header().Get("Content-Type"), "event-stream") {
		t.Errorf("the events of an unknown task: status = %d, want 404 and no event stream", w.Code)
	}
	if got, err := o.panel.Certs.ByUUID(t.Context(), o.inst.ID, c.UUID); err != nil || got.Status == cert.Revoked {
		t.Errorf("certificate = %+v, error %v; want a certificate that is not revoked", got, err)
	}
}

// An event stream sends no event after the session has ended, for example by a sign-out or by a
// reset of the password.
func TestEventsEndWithTheSession(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	task := o.post("owner", o.pathOf("certificates/revoke"), url.Values{"sure": {"1"}, "reason": {"Withdrawn"}, "selected": {c.UUID}}).Header().Get("Location")
	stopping := make(chan struct{})
	close(stopping)
	o.panel.Stopping = stopping
	o.people.ended[o.people.persons["auditor"].ID] = true
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, o.request("auditor", http.MethodGet, task+"/events", nil))
	if w.Body.Len() != 0 {
		t.Errorf("the stream of an ended session: status = %d, body = %q; want no event", w.Code, w.Body)
	}
}
