package app

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/mail"
)

// measured returns a vault with a port for metrics. The vault is not started.
func measured(t *testing.T, change ...func(*config.Serve)) *App {
	t.Helper()
	var out bytes.Buffer
	a := newApp(t, t.TempDir(), &out, append(change, func(c *config.Serve) { c.Metrics = "127.0.0.1:0" })...)
	t.Cleanup(func() {
		if err := a.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

// scrape returns the values of all counters and gauges by name and values of labels.
func scrape(t *testing.T, a *App) map[string]float64 {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func get(t *testing.T, h http.Handler, url string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
	return w
}

// TestMetricsFollowTheConventions checks the names, units and help texts of all metrics, as promtool
// check metrics does.
func TestMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(measured(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestMetricsShowEvents checks the values of metrics of a new vault, and the values after events that
// change them.
func TestMetricsShowEvents(t *testing.T) {
	t.Parallel()
	a := measured(t, func(c *config.Serve) { c.PublicRateLimit, c.Backup = 1, t.TempDir() })
	before := scrape(t, a)
	for name, want := range map[string]float64{
		"certvault_db_errors_total": 0, "certvault_db_transaction_retries_total": 0, "certvault_rate_limited_requests_total address": 0,
		"certvault_rate_limited_requests_total token": 0, "certvault_idempotency_conflicts_total in_progress": 0, "certvault_idempotency_conflicts_total reused": 0,
		"certvault_jobs mail waiting": 0, "certvault_jobs seal running": 0, "certvault_job_oldest_seconds seal": 0,
		"certvault_batch_oldest_seconds": 0, "certvault_store_transit_bytes": 0, "certvault_mail_queued": 0, "certvault_mail_oldest_queued_seconds": 0, "certvault_mail_messages_total failed": 0, "certvault_sign_in_refusals_total password": 0,
		"certvault_seal_attempts_total sealed": 0, "certvault_renderer_compiled": 1, "certvault_db_connections write in_use": 0, "certvault_db_connections_limit write": 1,
		"certvault_build_info " + runtime.Version() + " " + Version(): 1, "certvault_tls_certificate_expiry_timestamp_seconds": float64(a.certificate.current.Load().Leaf.NotAfter.Unix()),
	} {
		if got, ok := before[name]; !ok || got != want {
			t.Errorf("%s = %v, exists = %v before the events, want %v", name, got, ok, want)
		}
	}
	if v := before["certvault_schema_version_known"]; v == 0 || before["certvault_schema_version_applied"] != v {
		t.Errorf("schema versions = %v and %v, want equal versions other than 0", v, before["certvault_schema_version_applied"])
	}
	for _, folder := range []string{"data", "files", "backup"} {
		if free, size := before["certvault_disk_free_bytes "+folder], before["certvault_disk_size_bytes "+folder]; free <= 0 || size < free {
			t.Errorf("folder %s: free = %v, size = %v, want 0 < free <= size", folder, free, size)
		}
	}

	for range 3 {
		get(t, a.gate.handler, a.cfg.BaseURL+"/verify/nothing")
	}
	ctx := t.Context()
	if err := a.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := a.Mailer.EnqueueTx(ctx, tx, mail.Message{To: mail.Address{Email: "ada@example.org"}, Subject: "s", Text: "t"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := a.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE mails SET created_at = created_at - 60000000`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := a.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, 'later', 0)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	a.IdempotencyKeys.Reused()
	if _, err := a.People.SignIn(ctx, "ada@example.org", "wrong", identity.Origin{}); err == nil {
		t.Fatal("a wrong password was accepted")
	}
	a.rendererFailed.Store(true)
	after := scrape(t, a)
	for name, want := range map[string]float64{
		"certvault_rate_limited_requests_total address": 2, "certvault_jobs mail waiting": 1, "certvault_mail_queued": 1, "certvault_schema_version_applied": 9999,
		"certvault_idempotency_conflicts_total reused": 1, "certvault_sign_in_refusals_total password": 1, "certvault_renderer_compiled": 0,
	} {
		if after[name] != want {
			t.Errorf("%s = %v after the events, want %v", name, after[name], want)
		}
	}
	if age := after["certvault_mail_oldest_queued_seconds"]; age < 60 || age > 120 {
		t.Errorf("age of the oldest message = %v s, want 60 s to 120 s", age)
	}
}
