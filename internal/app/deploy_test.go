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

	"github.com/certvault/certvault/internal/config"
)

var (
	// metricNames matches the names of metrics in expressions.
	metricNames = regexp.MustCompile(`\b(?:certvault|process|go)_[a-z0-9_]+`)
	// selectors matches a metric with the labels that select its series.
	selectors = regexp.MustCompile(`\b((?:certvault|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	// matcher matches a label in a selector and its value, which may be a regular expression.
	matcher = regexp.MustCompile(`(\w+)\s*(?:=|!=|=~|!~)\s*"([^"]*)"`)
)

// exported is a metric that a vault serves.
type exported struct {
	labels []string
	// series contains the labels of each series of a vault that has not been started.
	series []map[string]string
}

// metricsOf returns all metrics of a vault, including those that have no series yet.
func metricsOf(t *testing.T) map[string]*exported {
	t.Helper()
	a := measured(t, func(c *config.Serve) { c.Backup = t.TempDir() })
	ch := make(chan *prometheus.Desc)
	go func() {
		a.registry.Describe(ch)
		close(ch)
	}()
	described := regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	metrics := map[string]*exported{}
	for d := range ch {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("the description of a metric has an unknown format: %s", d)
		}
		m := &exported{labels: strings.Split(parts[3], ",")}
		for _, l := range matcher.FindAllStringSubmatch(parts[2], -1) {
			m.labels = append(m.labels, l[1])
		}
		metrics[parts[1]] = m
	}
	if len(metrics) < 40 {
		t.Fatalf("the vault has %d metrics, want at least 40", len(metrics))
	}
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range s.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			metrics[f.GetName()].series = append(metrics[f.GetName()].series, labels)
		}
	}
	return metrics
}

// metric returns the metric to which a name in an expression belongs, or nil. The name may have a suffix
// of a histogram, such as _bucket.
func metric(metrics map[string]*exported, name string) *exported {
	if m := metrics[name]; m != nil {
		return m
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return metrics[base]
		}
	}
	return nil
}

// checkExpression checks that the vault serves the metrics, the labels and the values of labels that an
// expression uses.
func checkExpression(t *testing.T, where, expression string, metrics map[string]*exported) {
	t.Helper()
	names := metricNames.FindAllString(expression, -1)
	if len(names) == 0 && !strings.Contains(expression, "up{") {
		t.Errorf("%s: the expression %q has no metric", where, expression)
	}
	for _, name := range names {
		if metric(metrics, name) == nil {
			t.Errorf("%s uses the unknown metric %s", where, name)
		}
	}
	for _, selector := range selectors.FindAllStringSubmatch(expression, -1) {
		m := metric(metrics, selector[1])
		if m == nil {
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(selector[2], -1) {
			label, value := l[1], l[2]
			switch {
			case slices.Contains([]string{"job", "instance"}, label):
			case !slices.Contains(m.labels, label):
				t.Errorf("%s: %s has no label %s, only %v", where, selector[1], label, m.labels)
			case len(m.series) > 0 && !slices.ContainsFunc(m.series, func(s map[string]string) bool { return regexp.MustCompile("^(?:" + value + ")$").MatchString(s[label]) }):
				t.Errorf("%s: %s has no series with %s=%q", where, selector[1], label, value)
			}
		}
	}
}

// TestDashboards checks that the vault serves the metrics of the dashboards, that each panel has a unit,
// and that panels do not overlap.
func TestDashboards(t *testing.T) {
	t.Parallel()
	metrics := metricsOf(t)
	for _, file := range []string{"certvault.json", "webhooks.json"} {
		checkDashboard(t, filepath.Join("..", "..", "deploy", "grafana", file), metrics)
	}
}

func checkDashboard(t *testing.T, file string, metrics map[string]*exported) {
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
			t.Errorf("%s has no title, no id, or the id of another panel", where)
		}
		ids[p.ID] = true
		if !slices.Contains([]string{"stat", "timeseries"}, p.Type) || len(p.Targets) == 0 {
			t.Errorf("%s has the type %s and %d queries, want stat or timeseries, and at least 1 query", where, p.Type, len(p.Targets))
		}
		// The units are identifiers of Grafana. Grafana appends any other text to the value.
		if unit := p.FieldConfig.Defaults.Unit; !slices.Contains([]string{"s", "short", "bytes", "Bps", "percentunit", "reqps", "dateTimeFromNow", "none"}, unit) {
			t.Errorf("%s has the unit %q, want a known unit of Grafana", where, unit)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s overlaps the panel %q, or extends beyond the 24 columns", where, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, q := range p.Targets {
			checkExpression(t, where, q.Expr, metrics)
		}
	}
}
