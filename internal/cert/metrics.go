package cert

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the checks of stored files that Rehash makes.
type Metrics struct {
	checks *prometheus.CounterVec
	bytes  prometheus.Counter
}

// NewMetrics returns the metrics and registers them with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_file_checks_total", Help: "Certificates whose stored files this server has checked again, by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "certvault_file_check_bytes_total", Help: "Size of the stored files that this server has checked again.",
		}),
	}
	// Each series exists from the start, because a missing series cannot be distinguished from 0.
	for _, r := range []Result{Passed, FailedCheck, NotRun} {
		m.checks.WithLabelValues(string(r))
	}
	reg.MustRegister(m.checks, m.bytes)
	return m
}

// rehashed counts the checks of a certificate.
func (m *Metrics) rehashed(checks []Check, size int64) {
	if m == nil || len(checks) == 0 {
		return
	}
	m.checks.WithLabelValues(string(worst(checks))).Inc()
	m.bytes.Add(float64(size))
}

// worst returns the result of several checks together.
func worst(checks []Check) Result {
	result := Passed
	for _, k := range checks {
		switch k.Result {
		case FailedCheck:
			return FailedCheck
		case NotRun:
			result = NotRun
		case Passed:
		}
	}
	return result
}
