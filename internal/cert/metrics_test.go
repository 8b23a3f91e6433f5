package cert

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

func TestAttemptsAndStepsAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Metrics = metrics })
	v.approved(v.upload(titled("approved")))
	for name, end := range map[string]struct {
		attempt int
		err     error
	}{
		"retried": {1, errors.New("a fault")}, "failed": {8, errors.New("a fault")}, "refused": {1, &seal.Refusal{Code: "x", Reason: "y"}}, "postponed": {1, blob.ErrFull},
	} {
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, end.err }
		_ = v.work(t.Context(), v.upload(titled(name)), end.attempt) // the metrics have the outcome
	}
	for _, o := range []outcome{sealedOutcome, retriedOutcome, failedOutcome, refusedOutcome, postponedOutcome} {
		if n := testutil.ToFloat64(metrics.attempts.WithLabelValues(string(o))); n != 1 {
			t.Errorf("%v attempts have the outcome %s, want 1", n, o)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]uint64{}
	for _, f := range families {
		if f.GetName() == "certvault_seal_step_seconds" {
			for _, m := range f.GetMetric() {
				steps[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	for s, want := range map[step]uint64{readStep: 5, signerStep: 5, waitStep: 5, sealStep: 5, storeStep: 1, checkStep: 1, approveStep: 1} {
		if steps[string(s)] != want {
			t.Errorf("the step %s was measured %d times, want %d", s, steps[string(s)], want)
		}
	}
}
