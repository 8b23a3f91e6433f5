package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/webhook"
)

type fixture struct {
	*webhook.Service

	db   *db.DB
	ring *keyring.Ring
	now  time.Time
}

func open(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{db: d, ring: ring, now: time.Date(2026, 7, 1, 8, 30, 0, 123_000_000, time.UTC)}
	f.Service = webhook.New(d, ring, func() time.Time { return f.now })
	return f
}

// institution creates an institution without an owner, because the hash of a password takes time.
func (f *fixture) institution(t testing.TB, prefix string) (id int64) {
	t.Helper()
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(),
			`INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $1, $1, $1, 0) RETURNING id`, prefix).Scan(&id)
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

// certificate inserts a certificate, so that events can refer to it.
func (f *fixture) certificate(t testing.TB, institution int64) (id int64) {
	t.Helper()
	if err := f.db.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(), `
			INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date,
				search_text, source, trigger_context, event_context, status, creator_type, creator_name, file_name, mime_type, size, sha256,
				sha256_state, original_key, created_at, updated_at)
			VALUES ('u', $1, 'r', 'r', 't', 'n', 'e', 'e', '2026-07-01', '', 'vault', 'c', 'c', 'processing', 'token', 'x', 'f', 'm', 1, $2, $2, 'k', 1, 1)
			RETURNING id`, institution, []byte{1}).Scan(&id)
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) endpoint(t *testing.T, institution int64, events ...webhook.Name) *webhook.Endpoint {
	t.Helper()
	e, _, err := f.Create(t.Context(), institution, "https://hooks.example.org/"+f.now.Format(time.RFC3339), events)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (f *fixture) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEventGoesToSubscribersOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d)
		mine, other := f.institution(t, "AAA"), f.institution(t, "BBB")
		every := f.endpoint(t, mine)
		approved := f.endpoint(t, mine, webhook.Approved, webhook.Failed)
		f.endpoint(t, mine, webhook.Revoked)
		f.endpoint(t, other)
		event := webhook.Event{
			Name: webhook.Approved, InstitutionID: mine, CertificateID: f.certificate(t, mine), OccurredAt: f.now, UUID: "the-uuid", Title: "BSc <b>",
			ApplicantEmail: "jane@example.org", Source: "vault", TriggerContext: "single_upload", ReferenceID: "AAA-1", Status: "approved",
			FullName: "Jane", IssueDate: "2026-07-01",
		}
		errRollback := errors.New("rollback")
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			return errors.Join(f.EmitTx(t.Context(), tx, event), errRollback)
		}); !errors.Is(err, errRollback) {
			t.Fatal(err)
		}
		if e, n := f.count(t, "webhook_events"), f.count(t, "webhook_deliveries"); e != 0 || n != 0 {
			t.Fatalf("after a rollback %d events and %d deliveries exist, want 0", e, n)
		}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error { return f.EmitTx(t.Context(), tx, event) }); err != nil {
			t.Fatal(err)
		}
		bodies := f.bodies(t)
		if len(bodies) != 2 || bodies[every.ID] == nil || bodies[approved.ID] == nil {
			t.Fatalf("deliveries = %v, want one for each of two endpoints", bodies)
		}
		for id, want := range map[int64]string{every.ID: every.UUID, approved.ID: approved.UUID} {
			body := bodies[id]
			if body["webhook_id"] != want {
				t.Errorf("webhook_id = %v, want the endpoint's %s", body["webhook_id"], want)
			}
			for key, value := range map[string]any{
				"event": "certificate_application.approved", "timestamp": "2026-07-01T08:30:00.123Z", "application_id": float64(event.CertificateID),
				"uuid": "the-uuid", "certificate_title": "BSc <b>", "applicant_email": "jane@example.org", "source": "vault",
				"trigger_context": "single_upload",
			} {
				if body[key] != value {
					t.Errorf("%s = %v, want %v", key, body[key], value)
				}
			}
		}
		if bodies[every.ID]["event_id"] != bodies[approved.ID]["event_id"] {
			t.Error("the two deliveries of one event have different event ids")
		}
	})
}

func (f *fixture) bodies(t *testing.T) map[int64]map[string]any {
	t.Helper()
	rows, err := f.db.QueryContext(context.WithoutCancel(t.Context()), `SELECT endpoint_id, body FROM webhook_deliveries`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
	}()
	out := map[int64]map[string]any{}
	for rows.Next() {
		var id int64
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			t.Fatal(err)
		}
		body := map[string]any{}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		out[id] = body
	}
	return out
}

func TestSecretFormatAndEncryption(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d)
		e, secret, err := f.Create(t.Context(), f.institution(t, "AAA"), "http://127.0.0.1:9/hook", []webhook.Name{webhook.Failed, webhook.Created, webhook.Failed})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Events) != 2 || !slices.Contains(e.Events, webhook.Created) {
			t.Errorf("events = %v, want Created and Failed", e.Events)
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) != 32 || !strings.HasPrefix(secret, "whsec_") {
			t.Fatalf("secret = %q, error = %v; want whsec_ and the base64 of 32 bytes", secret, err)
		}
		var stored []byte
		if err := d.QueryRowContext(t.Context(), `SELECT secret FROM webhook_endpoints WHERE id = $1`, e.ID).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stored, []byte(secret)) || bytes.Contains(stored, key) {
			t.Fatal("the stored secret is not encrypted")
		}
		if got, err := f.ring.Open(keyring.WebhookSecret, stored, []byte(e.UUID)); err != nil || string(got) != secret {
			t.Fatalf("decrypted secret = %q, error = %v; want the secret that Create returned", got, err)
		}
	})
}

func TestCreateRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	f := open(t, dbtest.Open(t, t.TempDir(), ""))
	inst := f.institution(t, "AAA")
	for _, bad := range []string{
		"", "hooks.example.org", "ftp://a.example", "https://", "https:///x", "javascript:alert(1)", "https://u:p@a.example",
		"https://a.example/" + strings.Repeat("x", 2048), "https://a\x00b", "https://a.example/\xff",
	} {
		if _, _, err := f.Create(t.Context(), inst, bad, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.40q: error = %v, want Invalid", bad, err)
		}
	}
	// Create does not check the address of the host.
	for _, good := range []string{"http://127.0.0.1:1/", "https://[::1]/x?y=z", " https://hooks.example.org "} {
		if _, _, err := f.Create(t.Context(), inst, good, nil); err != nil {
			t.Errorf("%q: error = %v, want nil", good, err)
		}
	}
	if _, _, err := f.Create(t.Context(), inst, "https://a.example", []webhook.Name{"certificate.approved"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("unknown event: error = %v, want Invalid", err)
	}
	for name, want := range map[string]string{strings.Repeat("ä", 101): "more than 100 characters", "a\nb": "control characters", "a\xff": "control characters"} {
		if _, _, err := f.CreateNamed(t.Context(), inst, name, "https://a.example", nil); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("the name %.40q: error = %v, want Invalid about %q", name, err, want)
		}
	}
	if _, _, err := f.CreateNamed(t.Context(), inst, strings.Repeat("ä", 100), "https://a.example", nil); err != nil {
		t.Errorf("a name of 100 characters: %v", err)
	}
}
