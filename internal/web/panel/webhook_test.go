package panel

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

var signingRule = regexp.MustCompile(`whsec_[A-Za-z0-9+/]{43}=`)

// createEndpoint creates an endpoint of the test's institution.
func (o *panelTest) createEndpoint(t *testing.T) *webhook.Endpoint {
	t.Helper()
	e, _, err := o.panel.Hooks.Create(t.Context(), o.inst.ID, "https://hooks.example.org/in?key=k", nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCreateAndUpdateEndpoint(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	checkPage(t, "an empty list", o.get("developer", "/panel/nwu/webhooks"), http.StatusOK, "No endpoints yet", "Add endpoint")
	form := o.get("developer", "/panel/nwu/webhooks/new")
	checkPage(t, "the form of an endpoint", form, http.StatusOK, "A certificate was revoked. The event contains the reason.", `"revocation_reason": "An example of a reason."`)
	w := o.post("developer", "/panel/nwu/webhooks", url.Values{
		"url": {"https://hooks.example.org/in?key=k"}, "which": {"some"}, "events": {string(webhook.Approved), string(webhook.Revoked)}, "headers": {"X-Api-Key: s3cret\r\n\r\n"},
	})
	checkPage(t, "a new endpoint", w, http.StatusOK, "not shown again", "hooks.example.org")
	secret := signingRule.FindString(w.Body.String())
	list, err := o.panel.Hooks.List(t.Context(), o.inst.ID)
	if err != nil || len(list) != 1 || secret == "" || !slices.Equal(list[0].Events, []webhook.Name{webhook.Approved, webhook.Revoked}) {
		t.Fatalf("endpoints = %+v, error %v, secret %q, want one endpoint with the submitted events, and a secret on the page", list, err, secret)
	}
	at := "/panel/nwu/webhooks/" + list[0].UUID
	checkPage(t, "the list of endpoints", o.get("developer", "/panel/nwu/webhooks"), http.StatusOK, "hooks.example.org", "2 events", "Active", "never")
	for _, target := range []string{"/panel/nwu/webhooks", at, at + "/edit", at + "/rotate", at + "/delete"} {
		if body := o.get("developer", target).Body.String(); strings.Contains(body, secret) || strings.Contains(body, "s3cret") {
			t.Errorf("%s contains a secret", target)
		}
	}
	if body := o.get("developer", at+"/edit").Body.String(); !strings.Contains(body, `value="certificate_application.revoked" checked`) || !strings.Contains(body, `value="some" checked`) ||
		strings.Contains(body, `value="certificate_application.created" checked`) {
		t.Errorf("the form does not show the selected events of the endpoint: %s", body)
	}
	checkPage(t, "after changing the endpoint", o.followRedirect(t, "developer", o.post("developer", at+"/edit", url.Values{"url": {"https://b.example.org/"}, "which": {"all"}}), at), http.StatusOK,
		"The endpoint was changed", "https://b.example.org/", "All events")
	checkPage(t, "the page that asks for confirmation", o.get("developer", at+"/delete"), http.StatusOK, "Delete b.example.org?", "cannot be undone")
	checkPage(t, "after deleting the endpoint", o.followRedirect(t, "developer", o.post("developer", at+"/delete", nil), "/panel/nwu/webhooks"), http.StatusOK, "The endpoint was deleted", "No endpoints yet")
	if w := o.get("developer", at); w.Code != http.StatusNotFound {
		t.Errorf("the page of a deleted endpoint: status = %d, want 404", w.Code)
	}
}

// Endpoints with the same host can be distinguished by their names or by the ends of their paths. Lists
// of endpoints do not show a query or the beginning of a long path, because both may contain a key.
func TestNamesOfEndpoints(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, form := range []url.Values{
		{"url": {"https://hooks.example.org/a/students?key=k3y"}}, {"url": {"https://hooks.example.org/b/alumni"}, "name": {" Alumni system "}},
		{"url": {"https://hooks.example.org/services/T0123456789ABCDEFGHIJ"}}, {"url": {"https://hooks.example.org"}},
	} {
		if w := o.post("owner", "/panel/nwu/webhooks", form); w.Code != http.StatusOK {
			t.Fatalf("%v: status = %d, want 200: %s", form, w.Code, visibleText(t, w))
		}
	}
	w := o.get("owner", "/panel/nwu/webhooks")
	checkPage(t, "the list of endpoints", w, http.StatusOK, "hooks.example.org/…/students", "Alumni system hooks.example.org/…/alumni", "hooks.example.org/…EFGHIJ", "hooks.example.org All events")
	if body := w.Body.String(); contains(body, "k3y", "T0123456789") {
		t.Errorf("the list contains a key: %s", body)
	}
	checkPage(t, "the filter of deliveries", o.get("owner", "/panel/nwu/deliveries"), http.StatusOK, "Alumni system", "hooks.example.org/…/students")
	list, err := o.panel.Hooks.List(t.Context(), o.inst.ID)
	if err != nil || len(list) != 4 || list[2].Name != "Alumni system" {
		t.Fatalf("endpoints = %+v, error %v, want four, the third with the name Alumni system", list, err)
	}
	at := "/panel/nwu/webhooks/" + list[2].UUID
	checkPage(t, "a long name", o.post("owner", at+"/edit", url.Values{"url": {list[2].URL}, "name": {strings.Repeat("x", 101)}}), http.StatusUnprocessableEntity, "more than 100 characters")
	checkPage(t, "after removing the name", o.followRedirect(t, "owner", o.post("owner", at+"/edit", url.Values{"url": {list[2].URL}, "name": {""}}), at), http.StatusOK, "hooks.example.org/…/alumni")
}

func TestEndpointFormProblems(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	e := o.createEndpoint(t)
	for _, target := range []string{"/panel/nwu/webhooks", "/panel/nwu/webhooks/" + e.UUID + "/edit"} {
		w := o.post("owner", target, url.Values{
			"url": {"ftp://<x>"}, "which": {"some"}, "events": {string(webhook.Failed), "no.such"}, "headers": {"Host: x"}, "replace_headers": {"yes"},
		})
		checkPage(t, target, w, http.StatusUnprocessableEntity, "The URL must begin with https:// and name a host. With http:// it can only be an address that the operator allows.",
			"The operator can allow others, also with http://.", "There is no event", "The header Host is reserved.")
		for _, want := range []string{`<a href="#url">`, `<a href="#events">`, `<a href="#headers">`, `value="ftp://&lt;x&gt;"`, `value="certificate_application.failed" checked`, `>Host: x</textarea>`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s lacks %s", target, want)
			}
		}
		checkPage(t, "no event chosen", o.post("owner", target, url.Values{"url": {"https://x.example"}, "which": {"some"}}), http.StatusUnprocessableEntity, "at least one event")
		checkPage(t, "all events and single events chosen", o.post("owner", target, url.Values{"url": {"https://x.example"}, "which": {"all"}, "events": {string(webhook.Failed)}}), http.StatusUnprocessableEntity, "Only selected events")
	}
	got, err := o.panel.Hooks.Endpoint(t.Context(), o.inst.ID, e.UUID)
	if err != nil || got.URL != e.URL {
		t.Errorf("endpoint = %+v, error %v, want the unchanged URL", got, err)
	}
}

func TestPauseEndpointAndRotateSecret(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	e := o.createEndpoint(t)
	at := "/panel/nwu/webhooks/" + e.UUID
	checkPage(t, "a paused endpoint", o.followRedirect(t, "owner", o.post("owner", at+"/pause", nil), at), http.StatusOK, "The endpoint is paused", "Paused just now", "Resume")
	checkPage(t, "pausing twice", o.post("owner", at+"/pause", nil), http.StatusBadRequest, "This endpoint is already paused")
	checkPage(t, "a test of a paused endpoint", o.post("owner", at+"/test", url.Values{"event": {string(webhook.Approved)}}), http.StatusBadRequest, "Resume it first")
	checkPage(t, "after resuming the endpoint", o.followRedirect(t, "owner", o.post("owner", at+"/resume", nil), at), http.StatusOK, "The endpoint is active")
	w := o.post("owner", at+"/rotate", nil)
	checkPage(t, "after the rotation", w, http.StatusOK, "New signing secret", "Messages are also signed with the old secret until")
	if signingRule.FindString(w.Body.String()) == "" {
		t.Error("the page lacks the new secret")
	}
	checkPage(t, "during the overlap", o.get("owner", at), http.StatusOK, "X-Webhook-Signature still uses the old secret", "Promote new secret")
	checkPage(t, "a second rotation during the overlap", o.post("owner", at+"/rotate", nil), http.StatusBadRequest, "The secret is being rotated until")
	checkPage(t, "after promoting the new secret", o.followRedirect(t, "owner", o.post("owner", at+"/promote", nil), at), http.StatusOK, "X-Webhook-Signature now uses only the new secret")
	for status, want := range map[string]string{
		"status = 'switched_off', stop_reason = 'gone', stopped_at = 1": "answered 410 Gone", "status = 'switched_off', stop_reason = 'failing', stopped_at = 1": "No delivery succeeded for five days",
		"status = 'active', openings = 1, failing_since = 1, failed_at = 1": "The server is not available at the moment.", "status = 'active', openings = 0, failing_since = 1": "No successful delivery since",
	} {
		o.Exec(`UPDATE webhook_endpoints SET ` + status)
		checkPage(t, status, o.get("owner", at), http.StatusOK, want)
		checkPage(t, status, o.get("owner", "/panel/nwu/webhooks"), http.StatusOK, "hooks.example.org")
	}
}

// deliveriesOf creates n failed deliveries of an endpoint and returns their ids, the newest first.
func (o *panelTest) deliveriesOf(t *testing.T, e *webhook.Endpoint, n int) []int64 {
	t.Helper()
	var ids []int64
	for range n {
		id, err := o.panel.Hooks.Test(t.Context(), o.inst.ID, e.UUID, webhook.Approved)
		if err != nil {
			t.Fatal(err)
		}
		ids = slices.Insert(ids, 0, id)
	}
	o.Exec(`UPDATE webhook_deliveries SET status = 'exhausted', attempts = 1, finished_at = $1`, db.Micros(o.Now()))
	return ids
}

func TestLogOfDeliveries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "an empty list", o.get("owner", "/panel/nwu/deliveries"), http.StatusOK, "No deliveries yet", "Add an endpoint")
		e, quiet := o.createEndpoint(t), o.createEndpoint(t)
		ids := o.deliveriesOf(t, e, deliveriesPerPage+1)
		o.Exec(`UPDATE webhook_deliveries SET status = 'pending', due_at = $1 WHERE id = $2`, db.Micros(o.Now())+3600e6, ids[0])
		var kind webhook.Name
		if err := d.QueryRowContext(t.Context(), `SELECT name FROM webhook_events ORDER BY id LIMIT 1`).Scan(&kind); err != nil {
			t.Fatal(err)
		}
		w := o.get("owner", "/panel/nwu/deliveries")
		checkPage(t, "the first page", w, http.StatusOK, "Waiting 1", "Failed 25", "Delivered 0", "next attempt in 1 hour", "Older")
		older := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(w.Body.String())
		if len(older) != 2 || strings.Contains(w.Body.String(), "/deliveries/"+strconv.FormatInt(ids[deliveriesPerPage], 10)+`"`) {
			t.Fatalf("the first page lacks the link to older deliveries, or contains the oldest delivery: link %v, page %s", older, w.Body)
		}
		w = o.get("owner", strings.ReplaceAll(older[1], "&amp;", "&"))
		checkPage(t, "the second page", w, http.StatusOK, "Newer")
		if !strings.Contains(w.Body.String(), "/deliveries/"+strconv.FormatInt(ids[deliveriesPerPage], 10)+`"`) || strings.Contains(w.Body.String(), `rel="next"`) {
			t.Errorf("the second page lacks the oldest delivery, or has a link to older deliveries: %s", w.Body)
		}
		w = o.get("owner", o.linkTo(w, "Newer"))
		if n := strings.Count(w.Body.String(), `"/panel/nwu/deliveries/`); n != deliveriesPerPage || strings.Contains(w.Body.String(), `rel="prev"`) || !strings.Contains(w.Body.String(), `rel="next"`) {
			t.Errorf("deliveries on the first page = %d, want 25, a link to older deliveries and no link to newer deliveries; page %s", n, w.Body)
		}
		checkPage(t, "an event without deliveries", o.get("owner", "/panel/nwu/deliveries?event="+string(webhook.Revoked)), http.StatusOK, "No delivery of this event", "Clear")
		w = o.get("owner", "/panel/nwu/deliveries?event="+string(kind))
		checkPage(t, "an event with deliveries", w, http.StatusOK, "Older")
		if next := o.linkTo(w, "Older"); !strings.Contains(next, "event="+string(kind)) {
			t.Errorf("the link to older deliveries lacks the event: %s", next)
		}
		checkPage(t, "an unknown event", o.get("owner", "/panel/nwu/deliveries?event=x"), http.StatusOK, "Failed 25")
		checkPage(t, "a status without deliveries", o.get("owner", "/panel/nwu/deliveries?status=delivered"), http.StatusOK, "No delivery with this status")
		checkPage(t, "an unknown status", o.get("owner", "/panel/nwu/deliveries?status=x&before=y"), http.StatusOK, "Failed 25")
		checkPage(t, "an endpoint without deliveries", o.get("owner", "/panel/nwu/deliveries?endpoint="+quiet.UUID), http.StatusOK, "No deliveries yet")
		if w := o.get("owner", "/panel/nwu/deliveries?endpoint=x"); w.Code != http.StatusNotFound {
			t.Errorf("an unknown endpoint: status = %d, want 404", w.Code)
		}
		delivery, err := o.panel.Hooks.Delivery(t.Context(), o.inst.ID, ids[3])
		if err != nil {
			t.Fatal(err)
		}
		w = o.get("owner", "/panel/nwu/deliveries?q="+delivery.EventID)
		if n := strings.Count(w.Body.String(), "/panel/nwu/deliveries/"); n != 1 {
			t.Errorf("deliveries of an event = %d, want 1; page %s", n, w.Body)
		}
		if w := o.get("owner", "/panel/nwu/deliveries?q="+strconv.FormatInt(ids[3], 10)); w.Header().Get("Location") != "/panel/nwu/deliveries/"+strconv.FormatInt(ids[3], 10) {
			t.Errorf("the search for the number of a delivery redirects to %q, want the page of the delivery", w.Header().Get("Location"))
		}
		o.panel.Find = finder{
			"NWU-1": {ID: 77, UUID: "00000000-0000-4000-8000-000000000001", InstitutionID: o.inst.ID}, "SEC-1": {ID: 78, InstitutionID: o.other.ID},
		}
		for text, want := range map[string]string{
			"NWU-1": "No delivery found", "SEC-1": "No delivery found", "<b>": "No delivery found", "99999999999999": "No delivery found",
			"00000000-0000-4000-8000-000000000001": "No delivery found",
		} {
			checkPage(t, text, o.get("owner", "/panel/nwu/deliveries?q="+url.QueryEscape(text)), http.StatusOK, want)
		}
	})
}

// A search by reference id shows the deliveries of the certificate.
func TestDeliveriesOfACertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.createEndpoint(t)
	var id int64
	if err := o.DB.Tx(t.Context(), func(tx *db.Tx) error {
		if err := tx.QueryRowContext(t.Context(), `
			INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date,
				search_text, source, trigger_context, event_context, status, creator_type, creator_name, file_name, mime_type, size, sha256,
				sha256_state, original_key, created_at, updated_at)
			VALUES ('u', $1, 'r', 'r', 't', 'n', 'e', 'e', '2026-07-01', '', 'vault', 'c', 'c', 'processing', 'token', 'x', 'f', 'm', 1, $2, $2, 'k', 1, 1)
			RETURNING id`, o.inst.ID, []byte{1}).Scan(&id); err != nil {
			return err
		}
		return o.panel.Hooks.EmitTx(t.Context(), tx, webhook.Event{Name: webhook.Created, InstitutionID: o.inst.ID, CertificateID: id, OccurredAt: o.Now(), ReferenceID: "NWU-1"})
	}); err != nil {
		t.Fatal(err)
	}
	o.panel.Find = finder{"NWU-1": &cert.Certificate{ID: id, InstitutionID: o.inst.ID}}
	w := o.get("owner", "/panel/nwu/deliveries?q=NWU-1")
	checkPage(t, "the deliveries of a certificate", w, http.StatusOK, "created", "Waiting")
	if n := strings.Count(w.Body.String(), "/panel/nwu/deliveries/"); n != 1 {
		t.Errorf("deliveries of the certificate = %d, want 1; page %s", n, w.Body)
	}
}

func TestDeliveryAndItsAttempts(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	e := o.createEndpoint(t)
	w := o.post("owner", "/panel/nwu/webhooks/"+e.UUID+"/test", url.Values{"event": {string(webhook.Failed)}})
	at := w.Header().Get("Location")
	next := o.followRedirect(t, "owner", w, at)
	checkPage(t, "a new test delivery", next, http.StatusOK, "A test is being sent", "No attempt yet", "certificate_application.failed test", `"test": true`)
	if next.Header().Get("Refresh") == "" {
		t.Error("the page of a due delivery has no Refresh header")
	}
	checkPage(t, "an unknown event", o.post("owner", "/panel/nwu/webhooks/"+e.UUID+"/test", url.Values{"event": {"x"}}), http.StatusUnprocessableEntity, "There is no event")
	o.Exec(`UPDATE webhook_deliveries SET status = 'exhausted', attempts = 2, finished_at = $1`, db.Micros(o.Now()))
	for i, response := range []string{
		`'answered', NULL, 500, '{"Server": ["<b>nginx"]}', '<script>alert(1)</script>'`, `'timeout', 'There was no complete answer within 15 s.', NULL, '{}', NULL`,
	} {
		o.Exec(`INSERT INTO webhook_attempts (delivery_id, number, probe, started_at, duration, outcome, error, status_code, response_headers, response_body, url, request_headers, truncated)
			SELECT id, `+strconv.Itoa(i+1)+`, false, $1, 123000, `+response+`, 'https://hooks.example.org/in', '{"webhook-id": ["the-event"]}', false FROM webhook_deliveries`, db.Micros(o.Now()))
	}
	w = o.get("owner", at)
	checkPage(t, "the attempts of a delivery", w, http.StatusOK, "Failed", "Rejected: 500 Internal Server Error", "Attempt 1, 123 ms", "Timed out", "There was no complete answer within 15 s.",
		"webhook-id the-event", "<b>nginx", "<script>alert(1)</script>", "POST https://hooks.example.org/in")
	if strings.Contains(w.Body.String(), "<script>alert") || strings.Contains(w.Body.String(), "<b>nginx") || w.Header().Get("Refresh") != "" {
		t.Error("the page contains unescaped text of a response, or has a Refresh header")
	}
	checkPage(t, "after redelivering", o.followRedirect(t, "owner", o.post("owner", at+"/redeliver", nil), at), http.StatusOK, "The delivery is being sent again", "Waiting")
	for _, target := range []string{"/panel/nwu/deliveries/x", "/panel/nwu/deliveries/999", "/panel/sec" + strings.TrimPrefix(at, "/panel/nwu")} {
		if w := o.get("outsider", target); w.Code != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", target, w.Code)
		}
	}
}

func TestReplayFormOfAnEndpoint(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	e := o.createEndpoint(t)
	at := "/panel/nwu/webhooks/" + e.UUID
	checkPage(t, "an invalid day", o.post("owner", at+"/replay", url.Values{"since": {"yesterday"}}), http.StatusUnprocessableEntity, "YYYY-MM-DD")
	tomorrow := o.Now().UTC().AddDate(0, 0, 1).Format("2006-01-02")
	checkPage(t, "a day in the future", o.post("owner", at+"/replay", url.Values{"since": {tomorrow}}), http.StatusUnprocessableEntity, "must not be in the future")
	checkPage(t, "a replay without failed deliveries", o.followRedirect(t, "owner", o.post("owner", at+"/replay", url.Values{"since": {"2026-01-01"}}), at), http.StatusOK, "Nothing is sent again. Except for tests, no delivery created since that day has failed.")
}

// The page shows the sample code of each programming language.
func TestSampleCodeForSignatures(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, s := range webhook.Samples {
		w := o.get("owner", "/panel/nwu/webhooks/signatures?language="+s.Name)
		lines := strings.Split(strings.TrimSpace(s.Code), "\n")
		checkPage(t, s.Name, w, http.StatusOK, strings.Join(strings.Fields(lines[len(lines)-2]), " "), s.Label)
	}
	checkPage(t, "an unknown language", o.get("owner", "/panel/nwu/webhooks/signatures?language=x"), http.StatusOK, "func verifyPlain")
}
