package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// A delivery conforms to the documented interface and to Standard Webhooks. The test computes the
// expected signatures without the code of the package.
func TestDeliveryHasBothSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		r := startReceiver(t, nil)
		e, secret := f.endpointAt(t, inst, r.URL+"/hook?x=1", webhook.Header{Name: "X-Gateway-Key", Value: "gateway-key"})
		f.startDeliverer(t, webhook.DelivererConfig{})
		before := time.Now()
		f.emit(t, inst, f.certificate(t, inst), 1)
		got := r.next(t)

		if got.method != http.MethodPost || got.path != "/hook" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("request = %s %s with headers %v, want POST /hook with Content-Type application/json", got.method, got.path, got.header)
		}
		if want := plainSignature(secret, got.body); got.header.Get("X-Webhook-Signature") != want {
			t.Errorf("X-Webhook-Signature = %q, want %q", got.header.Get("X-Webhook-Signature"), want)
		}
		if got.header.Get("X-Webhook-Event") != "certificate_application.approved" || got.header.Get("X-Webhook-ID") != e.UUID {
			t.Errorf("headers = %v, want X-Webhook-Event with the event of the delivery and X-Webhook-ID with the id of the endpoint", got.header)
		}
		sent, err := time.Parse(time.RFC3339, got.header.Get("X-Webhook-Timestamp"))
		if err != nil || sent.Before(before.Truncate(time.Second)) || !strings.HasSuffix(got.header.Get("X-Webhook-Timestamp"), "Z") {
			t.Errorf("X-Webhook-Timestamp = %q, want the current time in UTC", got.header.Get("X-Webhook-Timestamp"))
		}
		if seconds := got.header.Get("Webhook-Timestamp"); seconds != strconv.FormatInt(sent.Unix(), 10) {
			t.Errorf("webhook-timestamp = %q, want the Unix time of X-Webhook-Timestamp", seconds)
		}
		if want := standardSignature(t, secret, got); got.header.Get("Webhook-Signature") != want {
			t.Errorf("webhook-signature = %q, want %q", got.header.Get("Webhook-Signature"), want)
		}
		if got.header.Get("Accept-Encoding") != "identity" || got.header.Get("X-Gateway-Key") != "gateway-key" {
			t.Errorf("headers = %v, want Accept-Encoding identity and the custom header", got.header)
		}
		if _, ok := got.header["Idempotency-Key"]; ok {
			t.Error("the header Idempotency-Key was sent")
		}
		var body map[string]any
		if err := json.Unmarshal(got.body, &body); err != nil || body["webhook_id"] != e.UUID || body["event_id"] != got.header.Get("Webhook-Id") {
			t.Errorf("body = %s, error = %v; want the endpoint's id and the event id of the header Webhook-Id", got.body, err)
		}
		if a := f.awaitAttempt(t, e.ID, 1); a.status != "delivered" || a.outcome != "delivered" || a.code != 204 {
			t.Errorf("attempt = %+v, want delivered with status 204", a)
		}
		var logged string
		if err := d.QueryRowContext(t.Context(), `SELECT request_headers FROM webhook_attempts`).Scan(&logged); err != nil ||
			strings.Contains(logged, "gateway-key") || !strings.Contains(logged, "X-Gateway-Key") || !strings.Contains(logged, got.header.Get("Webhook-Signature")) {
			t.Errorf("logged headers = %s, error = %v; want the signature, and X-Gateway-Key without its value", logged, err)
		}
	})
}

// plainSignature returns the value of X-Webhook-Signature: the HMAC of the raw body in hexadecimal. The
// key is the text of the secret, as the user sees it.
func plainSignature(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// standardSignature returns the signature of Standard Webhooks: the HMAC of the id, the time and the
// body. The key is the decoded secret.
func standardSignature(t *testing.T, secret string, r request) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(r.header.Get("Webhook-Id") + "." + r.header.Get("Webhook-Timestamp") + "."))
	m.Write(r.body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func TestCustomHeadersMustNotReplaceReserved(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), ""))
	inst := f.institution(t, "AAA")
	for _, bad := range []webhook.Header{
		{"X-Webhook-Signature", "x"}, {"x-webhook-anything", "x"}, {"Webhook-Id", "x"}, {"WEBHOOK-SIGNATURE", "x"}, {"Content-Type", "text/plain"},
		{"content-length", "0"}, {"Host", "internal"}, {"Transfer-Encoding", "chunked"}, {"Connection", "X-Webhook-Signature"}, {"Accept-Encoding", "gzip"},
		{"", "x"}, {"X Y", "x"}, {"X:Y", "x"}, {"X", "a\r\nX-Webhook-ID: b"}, {"X", strings.Repeat("x", 1001)}, {"X\nY", "x"}, {"Idempotency-Key", "x"},
	} {
		if _, _, err := f.Create(t.Context(), inst, "https://a.example", nil, bad); err == nil {
			t.Errorf("the header %q: %q was accepted", bad.Name, bad.Value)
		}
	}
	if _, _, err := f.Create(t.Context(), inst, "https://a.example", nil, webhook.Header{Name: "X-A", Value: "1"}, webhook.Header{Name: "x-a", Value: "2"}); err == nil {
		t.Error("the same header was accepted twice")
	}
	if _, _, err := f.Create(t.Context(), inst, "https://a.example", nil, webhook.Header{Name: "Authorization", Value: "Bearer x"}); err != nil {
		t.Errorf("creating an endpoint with the custom header Authorization: error = %v", err)
	}
}

// A retry has the same body, id and X-Webhook-Signature as the first attempt.
func TestRetrySendsSameBody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		var r *receiver
		n := 0
		r = startReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n < 3 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		e, _ := f.endpointAt(t, inst, r.URL)
		f.startDeliverer(t, webhook.DelivererConfig{Waits: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}})
		f.emit(t, inst, f.certificate(t, inst), 1)
		first, second, third := r.next(t), r.next(t), r.next(t)
		for _, again := range []request{second, third} {
			if !bytes.Equal(again.body, first.body) || again.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") ||
				again.header.Get("X-Webhook-Signature") != first.header.Get("X-Webhook-Signature") {
				t.Errorf("a retry has body %s and headers %v, want the body, id and X-Webhook-Signature of the first attempt", again.body, again.header)
			}
		}
		if a := f.awaitAttempt(t, e.ID, 3); a.status != "delivered" || f.pending(t, 0) != 0 {
			t.Errorf("third attempt = %+v, want delivered, and no pending delivery", a)
		}
		if a := f.awaitAttempt(t, e.ID, 1); a.outcome != "answered" || a.code != 500 {
			t.Errorf("first attempt = %+v, want outcome answered with status 500", a)
		}
	})
}

func TestExhaustedAfterLastWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		r := startReceiver(t, respondWith(http.StatusBadGateway))
		e, _ := f.endpointAt(t, inst, r.URL)
		f.startDeliverer(t, webhook.DelivererConfig{Waits: []time.Duration{time.Millisecond, time.Millisecond}})
		f.emit(t, inst, f.certificate(t, inst), 1)
		if a := f.awaitAttempt(t, e.ID, 3); a.status != "exhausted" {
			t.Errorf("third attempt = %+v, want exhausted", a)
		}
		if len(r.arrived) != 3 {
			t.Errorf("%d requests arrived, want 3", len(r.arrived))
		}
	})
}
