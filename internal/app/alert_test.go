package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlerts checks that the metrics of the alerts exist, and that each alert says what to do and has
// a test. make test/alerts runs these tests.
func TestAlerts(t *testing.T) {
	t.Parallel()
	known := described(t)
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
			checkExpression(t, "the alert "+r.Alert, r.Expr, known)
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || len(r.Annotations["action"]) < 40 {
				t.Errorf("the alert %s lacks a duration, a severity, a summary or an action", r.Alert)
			}
		}
	}
	if len(alerts) != 12 {
		t.Errorf("there are %d alerts, want 12", len(alerts))
	}
	tests, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range alerts {
		if !strings.Contains(string(tests), "alertname: "+name+"\n") {
			t.Errorf("the alert %s has no test", name)
		}
	}
}
