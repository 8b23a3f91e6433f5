package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts attempts.
type Metrics struct {
	outcomes *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// NewMetrics registers the metrics of attempts.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_webhook_attempts_total", Help: "Attempts at deliveries, by how they ended.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "certvault_webhook_attempt_seconds", Help: "Time of an attempt at a delivery, connection and answer included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
	}
	// A series that is not there cannot be told from one that is 0.
	for _, o := range Outcomes {
		m.outcomes.WithLabelValues(string(o))
	}
	reg.MustRegister(m.outcomes, m.seconds)
	return m
}

func (m *Metrics) attempt(r *result) {
	if m == nil {
		return
	}
	m.outcomes.WithLabelValues(string(r.outcome)).Inc()
	m.seconds.Observe(r.took.Seconds())
}
