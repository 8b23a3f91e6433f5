package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metricNames matches the names of metrics in expressions.
var metricNames = regexp.MustCompile(`\b(?:certvault|process|go)_[a-z0-9_]+`)

// described returns the names of all metrics of a vault, also of those that have no series yet.
func described(t *testing.T) []string {
	t.Helper()
	a := measured(t)
	ch := make(chan *prometheus.Desc)
	go func() {
		a.registry.Describe(ch)
		close(ch)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	var list []string
	for d := range ch {
		list = append(list, name.FindStringSubmatch(d.String())[1])
	}
	if len(list) < 40 {
		t.Fatalf("the vault has only the metrics %v", list)
	}
	return list
}

func checkExpression(t *testing.T, where, expression string, known []string) {
	t.Helper()
	names := metricNames.FindAllString(expression, -1)
	if len(names) == 0 && !strings.Contains(expression, "up{") {
		t.Errorf("%s: the expression %q has no metric", where, expression)
	}
	for _, name := range names {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !slices.Contains(known, base) && !slices.Contains(known, name) {
			t.Errorf("%s uses the unknown metric %s", where, name)
		}
	}
}

// TestDashboards checks that the metrics of the dashboards exist, and that each panel has a unit.
func TestDashboards(t *testing.T) {
	t.Parallel()
	known := described(t)
	for _, file := range []string{"certvault.json", "webhooks.json"} {
		checkDashboard(t, filepath.Join("..", "..", "deploy", "grafana", file), known)
	}
}

func checkDashboard(t *testing.T, file string, known []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type position struct{ X, Y, W, H int }
	var d struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     position
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Errorf("%s lacks a uid, a title, a version of the schema or panels", file)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		where := filepath.Base(file) + ", panel " + p.Title
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("%s has no title, or no id of its own", where)
		}
		ids[p.ID] = true
		if !slices.Contains([]string{"stat", "timeseries"}, p.Type) || len(p.Targets) == 0 {
			t.Errorf("%s has the type %s and %d queries", where, p.Type, len(p.Targets))
		}
		// The units are from Grafana's list, so that another text would be shown as it is.
		if unit := p.FieldConfig.Defaults.Unit; !slices.Contains([]string{"s", "short", "bytes", "Bps", "percentunit", "reqps", "dateTimeFromNow", "none"}, unit) {
			t.Errorf("%s has the unit %q", where, unit)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s covers the panel %q, or does not fit", where, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, q := range p.Targets {
			checkExpression(t, where, q.Expr, known)
		}
	}
}
