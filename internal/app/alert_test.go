package app

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlerts checks that the vault serves the metrics that the alerts use, that each alert describes an
// action, and that alerts_test.yaml tests each alert. make test/alerts runs alerts_test.yaml.
func TestAlerts(t *testing.T) {
	t.Parallel()
	metrics := metricsOf(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if alerts[r.Alert] {
				t.Errorf("two alerts have the name %s", r.Alert)
			}
			alerts[r.Alert] = true
			checkExpression(t, "the alert "+r.Alert, r.Expr, metrics)
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || len(r.Annotations["action"]) < 40 {
				t.Errorf("the alert %s lacks a duration, a severity, a summary or an action of at least 40 characters", r.Alert)
			}
		}
	}
	if len(alerts) != 12 {
		t.Errorf("there are %d alerts, want 12", len(alerts))
	}
	checkAlertTests(t, alerts)
}

// checkAlertTests checks that alerts_test.yaml has, for each alert, a case in which it fires and a case in
// which it does not.
func checkAlertTests(t *testing.T, alerts map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Rules []struct {
				Alert string `yaml:"alertname"`
				Want  []any  `yaml:"exp_alerts"` //nolint:tagliatelle // the name is that of promtool
			} `yaml:"alert_rule_test"` //nolint:tagliatelle // the name is that of promtool
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, r := range test.Rules {
			fires[r.Alert], silent[r.Alert] = fires[r.Alert] || len(r.Want) > 0, silent[r.Alert] || len(r.Want) == 0
		}
	}
	for name := range alerts {
		if !fires[name] || !silent[name] {
			t.Errorf("the alert %s: a case in which it fires = %v, a case in which it does not = %v, want both", name, fires[name], silent[name])
		}
	}
}
