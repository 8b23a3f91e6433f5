package webhook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// gather returns all values by name and label values. For a histogram it returns the number of samples.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
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
			switch {
			case m.GetGauge() != nil:
				out[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				out[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				out[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d).withRealClock()
		inst := f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		reg := prometheus.NewRegistry()
		metrics := webhook.NewMetrics(reg)
		reg.MustRegister(f.Conditions(func(err error) { t.Error(err) }))
		if got := gather(t, reg); got["certvault_webhook_oldest_due_seconds closed"] != 0 || got["certvault_webhook_breakers_open"] != 0 {
			t.Errorf("metrics without endpoints = %v, want 0 for the oldest due delivery and the open breakers", got)
		}
		served, _ := f.endpointAt(t, inst, "https://served.example")
		inBackoff, _ := f.endpointAt(t, inst, "https://held.example")
		off, _ := f.endpointAt(t, inst, "https://off.example")
		f.emit(t, inst, certificate, 1)
		now := db.Micros(time.Now())
		for endpoint, change := range map[int64]string{
			inBackoff.ID: `openings = 2, held_until = 9000000000000000`, off.ID: `status = 'switched_off'`, served.ID: `openings = 0`,
		} {
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				if _, err := tx.ExecContext(t.Context(), `UPDATE webhook_endpoints SET `+change+` WHERE id = $1`, endpoint); err != nil {
					return err
				}
				_, err := tx.ExecContext(t.Context(), `UPDATE webhook_deliveries SET due_at = $2 WHERE endpoint_id = $1`, endpoint, now-endpoint*100_000_000)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		got := gather(t, reg)
		for name, want := range map[string]float64{
			"certvault_webhook_oldest_due_seconds closed": float64(served.ID * 100), "certvault_webhook_oldest_due_seconds open": float64(inBackoff.ID * 100),
			"certvault_webhook_breakers_open": 1, "certvault_webhook_endpoints_off": 1, "certvault_webhook_attempts_total delivered": 0,
		} {
			if value, ok := got[name]; !ok || value < want || value > want+awaitTime.Seconds() {
				t.Errorf("%s = %v, want %v to %v", name, value, want, want+awaitTime.Seconds())
			}
		}
		r := startReceiver(t, nil)
		other := f.institution(t, "BBB")
		f.endpointAt(t, other, r.URL)
		f.endpointAt(t, other, "http://10.0.0.1/")
		f.startDeliverer(t, webhook.DelivererConfig{Metrics: metrics, Waits: []time.Duration{time.Hour}})
		f.emit(t, other, certificate, 3)
		f.waitUntil(t, "every delivery has an attempt", func() bool {
			got = gather(t, reg)
			return got["certvault_webhook_attempts_total delivered"] == 3 && got["certvault_webhook_attempts_total blocked"] >= 3
		})
		if got["certvault_webhook_attempt_seconds"] < 6 {
			t.Errorf("certvault_webhook_attempt_seconds counts %v attempts, want at least 6", got["certvault_webhook_attempt_seconds"])
		}
	})
}

// The dashboard uses all metrics of this package, and no unknown ones.
func TestDashboardMetricsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "webhooks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string `json:"title"`
		UID    string `json:"uid"`
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || dashboard.Title == "" || dashboard.UID == "" || len(dashboard.Panels) == 0 {
		t.Fatalf("dashboard = %+v, error = %v; want a title, a uid and panels", dashboard, err)
	}
	reg := prometheus.NewRegistry()
	webhook.NewMetrics(reg)
	reg.MustRegister(open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock().Conditions(func(err error) { t.Error(err) }))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, f := range families {
		used[f.GetName()] = false
	}
	names := regexp.MustCompile(`certvault_webhook_[a-z_]+`)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
				if _, known := used[base]; !known {
					t.Errorf("panel %s uses the unknown metric %s", p.Title, name)
				}
				used[base] = true
			}
		}
	}
	for name, ok := range used {
		if !ok {
			t.Errorf("no panel uses the metric %s", name)
		}
	}
}
