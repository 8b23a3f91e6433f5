//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// receive starts a receiver, and closes the receiver at the end of the test.
func receive(t *testing.T, handler func(w http.ResponseWriter, d *vault.Delivered)) *vault.Receiver {
	t.Helper()
	r, err := vault.Receive(t.Context(), handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// endpoint creates an endpoint for a receiver, for all events.
func (f *fixture) endpoint(t *testing.T, r *vault.Receiver) *vault.Webhook {
	t.Helper()
	h, err := f.CreateWebhook(t.Context(), f.institution.Slug, r.URL)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// hook runs a webhook command, checks the exit code, and decodes the output, unless into
// is nil.
func (f *fixture) hook(t *testing.T, code int, into any, command string, args ...string) {
	t.Helper()
	got, err := f.Hook(t.Context(), f.institution.Slug, into, command, args...)
	if err != nil || got != code {
		t.Fatalf("webhook %s %v: exit code = %d, want %d: %v", command, args, got, code, err)
	}
}

// events returns the last delivery of each event of a certificate, by the event's name.
func events(t *testing.T, r *vault.Receiver, uuid string) map[string]*vault.Delivered {
	t.Helper()
	out := map[string]*vault.Delivered{}
	for _, d := range r.Got() {
		e, err := d.Event()
		if err != nil {
			t.Fatal(err)
		}
		if e.UUID == uuid {
			out[strings.TrimPrefix(e.Event, "certificate_application.")] = d
		}
	}
	return out
}

type deliveryRow struct {
	ID       int64  `json:"id"`
	Event    string `json:"event"`
	Status   string `json:"status"`
	Attempts int    `json:"attempts"`
	Test     bool   `json:"test"`
	Log      []struct {
		Outcome        string              `json:"outcome"`
		StatusCode     int                 `json:"status_code"`
		RequestHeaders map[string][]string `json:"request_headers"`
		ResponseBody   string              `json:"response_body"`
		Error          string              `json:"error"`
	} `json:"log"`
}

// TestWebhooks checks the deliveries about a certificate, and manages the endpoint from the command line.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1", "--webhook-retry", "200ms,200ms")
		r := receive(t, func(w http.ResponseWriter, _ *vault.Delivered) { _, _ = fmt.Fprint(w, "thank you") })
		h := f.endpoint(t, r)
		made := f.upload(t, form("Ada Obi"))
		f.await(t, made.UUID, "approved")
		eventually(t, approvalTime, "both events have arrived", func() bool { return len(events(t, r, made.UUID)) == 2 })
		for name, d := range events(t, r, made.UUID) {
			if err := d.Signed(h.Secret); err != nil {
				t.Errorf("event %s: the signatures are not valid: %v", name, err)
			}
			e, err := d.Event()
			if err != nil {
				t.Fatal(err)
			}
			if d.Header.Get("X-Webhook-Event") != "certificate_application."+name || d.Header.Get("X-Webhook-Id") != h.ID || d.Header.Get("Content-Type") != "application/json" {
				t.Errorf("event %s: headers = %v, want the name of the event, the id of the endpoint and JSON", name, d.Header)
			}
			if e.WebhookID != h.ID || e.ApplicationID != made.ID || e.CertificateTitle != made.CertificateTitle || e.ApplicantEmail != made.ApplicantEmail ||
				e.Source != "vault" || e.TriggerContext != "single_upload" {
				t.Errorf("event %s: payload = %s, want the endpoint and the values of the certificate", name, d.Body)
			}
			for what, at := range map[string]string{"timestamp": e.Timestamp, "X-Webhook-Timestamp": d.Header.Get("X-Webhook-Timestamp")} {
				if parsed, err := time.Parse(time.RFC3339, at); err != nil || time.Since(parsed).Abs() > time.Minute || !strings.HasSuffix(at, "Z") {
					t.Errorf("%s: %s = %q, want the current time in UTC", name, what, at)
				}
			}
		}
		operate(t, f, r, h)
	})
}

// operate runs webhook commands for an endpoint, such as test, pause, rotate and redeliver.
func operate(t *testing.T, f *fixture, r *vault.Receiver, h *vault.Webhook) {
	t.Helper()
	var test deliveryRow
	f.hook(t, 0, &test, "test", h.ID)
	if test.Status != "delivered" || !test.Test || len(test.Log) != 1 || test.Log[0].ResponseBody != "thank you" || test.Log[0].RequestHeaders["X-Webhook-ID"][0] != h.ID {
		t.Errorf("delivery of the test = %+v, want delivered after one attempt with the id of the endpoint and the text of the response", test)
	}
	f.hook(t, 0, nil, "pause", h.ID)
	f.hook(t, 1, nil, "pause", h.ID)
	f.hook(t, 1, nil, "test", h.ID)
	n := len(r.Got())
	waiting := f.upload(t, form("Waiting"))
	f.await(t, waiting.UUID, "approved")
	if len(r.Got()) != n {
		t.Error("the vault sent a delivery to a paused endpoint")
	}
	var list []struct {
		ID      string
		Status  string
		Waiting int
	}
	f.hook(t, 0, &list, "list")
	if len(list) != 1 || list[0].ID != h.ID || list[0].Status != "paused" || list[0].Waiting != 2 {
		t.Errorf("list of endpoints = %+v, want the paused endpoint with 2 waiting deliveries", list)
	}
	f.hook(t, 0, nil, "resume", h.ID)
	eventually(t, approvalTime, "the waiting deliveries have arrived", func() bool { return len(events(t, r, waiting.UUID)) == 2 })

	var rotated struct{ Secret string }
	f.hook(t, 0, &rotated, "rotate", h.ID)
	f.hook(t, 0, nil, "test", h.ID)
	last := r.Got()[len(r.Got())-1]
	if err := last.Signed(h.Secret); err != nil {
		t.Errorf("both secrets are active, but the signature with the old secret is not valid: %v", err)
	}
	if err := last.SignedStandard(rotated.Secret); err != nil {
		t.Errorf("both secrets are active, but the signature with the new secret is not valid: %v", err)
	}
	f.hook(t, 0, nil, "rotate", h.ID, "--promote")
	f.hook(t, 0, nil, "test", h.ID)
	if err := r.Got()[len(r.Got())-1].Signed(rotated.Secret); err != nil {
		t.Errorf("after the promotion of the new secret, the signatures are not valid: %v", err)
	}

	// The receiver fails until no attempt is left. Then the commands redeliver and replay send the
	// deliveries of both events again.
	r.Answer(func(w http.ResponseWriter, _ *vault.Delivered) { w.WriteHeader(http.StatusInternalServerError) })
	f.hook(t, 1, &test, "test", h.ID)
	failing := f.upload(t, form("Failing"))
	f.await(t, failing.UUID, "approved")
	var exhausted []deliveryRow
	eventually(t, approvalTime, "the three deliveries are exhausted", func() bool {
		f.hook(t, 0, &exhausted, "log", h.ID, "--status", "exhausted")
		return len(exhausted) == 3 // including the test
	})
	for _, d := range exhausted {
		if want := map[bool]int{true: 1, false: 3}[d.Test]; d.Attempts != want {
			t.Errorf("the delivery is exhausted after %d attempts, want %d: %+v", d.Attempts, want, d)
		}
	}
	r.Answer(nil)
	before := r.Got()
	f.hook(t, 0, nil, "redeliver", fmt.Sprint(exhausted[0].ID))
	eventually(t, approvalTime, "one delivery is sent again", func() bool { return len(r.Got()) == len(before)+1 })
	var replayed struct{ Replayed int }
	f.hook(t, 0, &replayed, "replay", h.ID, "--since", "1h")
	eventually(t, approvalTime, "the other delivery is sent again", func() bool { return len(r.Got()) == len(before)+1+replayed.Replayed })
	if replayed.Replayed != 1 {
		t.Errorf("got %d replayed deliveries, want 1", replayed.Replayed)
	}
	for name, d := range events(t, r, failing.UUID) {
		first := map[string]bool{}
		for _, old := range before {
			first[old.Header.Get("Webhook-Id")] = true
		}
		if !first[d.Header.Get("Webhook-Id")] {
			t.Errorf("event %s: Webhook-Id of the repeated delivery = %q, want that of the first delivery", name, d.Header.Get("Webhook-Id"))
		}
	}
	var detail deliveryRow
	f.hook(t, 0, &detail, "log", "--delivery", fmt.Sprint(exhausted[0].ID))
	if detail.Status != "delivered" || len(detail.Log) != 4 || detail.Log[0].StatusCode != http.StatusInternalServerError || detail.Log[3].StatusCode != http.StatusNoContent {
		t.Errorf("log of the delivery = %+v, want delivered after 4 attempts, the first with status 500 and the last with 204", detail)
	}
	f.hook(t, 1, nil, "log", "00000000-0000-0000-0000-000000000000")
	f.hook(t, 1, nil, "redeliver", "999999")
	f.hook(t, 2, nil, "replay", h.ID, "--since", "yesterday")
}

// TestWebhookGuard checks that the vault does not connect to a loopback address without --webhook-allow.
func TestWebhookGuard(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	r := receive(t, nil)
	h := f.endpoint(t, r)
	var test deliveryRow
	f.hook(t, 1, &test, "test", h.ID)
	if len(test.Log) != 1 || test.Log[0].Outcome != "blocked" || !strings.Contains(test.Log[0].Error, "--webhook-allow") || len(r.Got()) != 0 {
		t.Errorf("delivery without --webhook-allow = %+v, want one blocked attempt, and no request to the receiver", test)
	}
}

// TestWebhookGone checks that the vault disables an endpoint that responds with 410, and that the
// owner gets a mail about the endpoint in the owner's language.
func TestWebhookGone(t *testing.T) {
	t.Parallel()
	f := start(t, "", "--webhook-allow", "127.0.0.1")
	r := receive(t, func(w http.ResponseWriter, _ *vault.Delivered) { w.WriteHeader(http.StatusGone) })
	h := f.endpoint(t, r)
	if _, err := f.openDatabase(t, "").ExecContext(t.Context(), `UPDATE users SET language = 'de'`); err != nil {
		t.Fatal(err)
	}
	f.await(t, f.upload(t, form("Ada Obi")).UUID, "approved")
	var messages []string
	eventually(t, approvalTime, "the owner got a mail", func() bool {
		var err error
		messages, err = filepath.Glob(filepath.Join(f.Data, "outbox", "*.eml"))
		if err != nil {
			t.Fatal(err)
		}
		return len(messages) > 0
	})
	text, err := os.ReadFile(messages[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"owner@nwu.example", "wurden nach Fehlern pausiert", "410 Gone", "/webhooks/" + h.ID, "<no-reply@localhost>"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the mail does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "/hook") {
		t.Error("the mail contains the path of the endpoint, which may be a secret")
	}
	var list []struct {
		Status     string
		StopReason string `json:"stop_reason"`
	}
	f.hook(t, 0, &list, "list")
	if len(list) != 1 || list[0].Status != "switched_off" || list[0].StopReason != "gone" {
		t.Errorf("list of endpoints = %+v, want an endpoint that is switched off with the reason gone", list)
	}
}

// TestWebhookKill kills the vault before the receiver responds to a delivery, and after the response but
// before the vault stores the response. Every event arrives, possibly more than once.
func TestWebhookKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		rounds := 4
		if database != "" {
			rounds = 2 // in each round, the vault must first detect that the killed process is dead
		}
		args := []string{"--webhook-allow", "127.0.0.1", "--webhook-retry", "1s,1s,1s,1s,1s,1s,1s,1s,1s"}
		f := start(t, database, args...)
		// killAt is the number of deliveries that remain until the receiver kills the vault. responds
		// reports whether the receiver responds to the last of them before it kills the vault.
		var killAt atomic.Int64
		var responds atomic.Bool
		var mu sync.Mutex
		killed := make(chan struct{})
		r := receive(t, func(w http.ResponseWriter, _ *vault.Delivered) {
			if killAt.Add(-1) != 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			mu.Lock()
			v := f.Vault
			mu.Unlock()
			if responds.Load() {
				w.WriteHeader(http.StatusNoContent)
				_ = http.NewResponseController(w).Flush()
			}
			v.Kill()
			killed <- struct{}{}
		})
		f.endpoint(t, r)
		var uuids []string
		for round := range rounds {
			responds.Store(round%2 == 1)
			killAt.Store(int64(3 + round))
			for i := range 4 {
				made, err := f.api(t).Upload(t.Context(), certificate(t, form(fmt.Sprintf("Round %d Person %d", round, i))))
				if _, responded := errors.AsType[*client.Error](err); responded {
					t.Fatal(err)
				}
				if err != nil {
					break // the vault stopped
				}
				uuids = append(uuids, made.UUID)
			}
			select {
			case <-killed:
			case <-time.After(approvalTime):
				t.Fatal("the vault sent too few deliveries, so the receiver did not kill the vault")
			}
			mu.Lock()
			f.restart(t, args...)
			mu.Unlock()
			// The test waits for the approvals, because a certificate fails if the vault is killed
			// three times while it seals the certificate.
			for _, uuid := range uuids {
				f.await(t, uuid, "approved")
			}
		}
		d := f.database(t)
		eventually(t, 2*approvalTime, "the status of all deliveries is delivered", func() bool {
			return count(t, d, `SELECT count(*) FROM webhook_deliveries WHERE status <> 'delivered'`) == 0
		})
		for _, uuid := range uuids {
			if got := events(t, r, uuid); len(got) != 2 {
				t.Errorf("got %d events of certificate %s, want 2", len(got), uuid)
			}
		}
		all, seen := r.Got(), map[string]string{}
		for _, g := range all {
			id := g.Header.Get("Webhook-Id")
			if first, again := seen[id]; again && first != string(g.Body) {
				t.Errorf("a repeated delivery of %s has the body %s, want that of the first delivery: %s", id, g.Body, first)
			}
			seen[id] = string(g.Body)
		}
		if n := count(t, d, `SELECT count(*) FROM webhook_events`); n != len(seen) {
			t.Errorf("the receiver got %d of %d events, want all", len(seen), n)
		}
		t.Logf("%d kills: %d events arrived, with %d repetitions", rounds, len(seen), len(all)-len(seen))
	})
}
