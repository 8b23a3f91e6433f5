package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/config"
)

// TestProfilesAreOnlyBesideTheMetrics checks that --debug serves profiles on the port of the metrics,
// and that the public port never does.
func TestProfilesAreOnlyBesideTheMetrics(t *testing.T) {
	t.Parallel()
	for _, debug := range []bool{false, true} {
		a := measured(t, func(c *config.Serve) { c.Debug = debug })
		want := http.StatusNotFound
		if debug {
			want = http.StatusOK
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
			if w := get(t, a.metrics.Handler, path); w.Code != want {
				t.Errorf("--debug=%v: %s on the port of the metrics has the status %d, want %d", debug, path, w.Code, want)
			}
			if w := get(t, a.gate.handler, a.cfg.BaseURL+path); w.Code != http.StatusNotFound {
				t.Errorf("--debug=%v: %s on the public port has the status %d, want 404", debug, path, w.Code)
			}
		}
		if w := get(t, a.metrics.Handler, "/metrics"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "certvault_build_info{") {
			t.Errorf("--debug=%v: /metrics: status = %d, want 200 and certvault_build_info", debug, w.Code)
		}
	}
}
