package cert

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/trace"
)

// Metrics measures the attempts at sealing, and counts the checks of stored files that Rehash makes.
type Metrics struct {
	checks   *prometheus.CounterVec
	bytes    prometheus.Counter
	attempts *prometheus.CounterVec
	steps    *prometheus.HistogramVec
}

// outcome is the end of an attempt at sealing in metrics.
type outcome string

const (
	sealedOutcome outcome = "sealed"
	// refused attempts failed because of the file, and no other attempt is made.
	refusedOutcome outcome = "refused"
	retriedOutcome outcome = "retried"
	failedOutcome  outcome = "failed"
	// postponed attempts do not count: the storage is full or not available, or the server stops.
	postponedOutcome outcome = "postponed"
)

// step is a part of an attempt at sealing in metrics.
type step string

const (
	readStep    step = "read"    // the original, or the drawing from a template
	signerStep  step = "signer"  // the preparation of the signature
	waitStep    step = "wait"    // for a processor
	sealStep    step = "seal"    // the stamp and the signature
	storeStep   step = "store"   // the write to the file store
	checkStep   step = "check"   // the digest and the signature of the stored file
	approveStep step = "approve" // the transaction
)

// NewMetrics returns the metrics and registers them with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_file_checks_total", Help: "Certificates whose stored files this server has checked again, by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "certvault_file_check_bytes_total", Help: "Size of the stored files that this server has checked again.",
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_seal_attempts_total", Help: "Attempts at verified PDFs that this server has made, by outcome.",
		}, []string{"outcome"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "certvault_seal_step_seconds", Help: "Duration of the steps of an attempt at a verified PDF. A step that failed is included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"step"}),
	}
	// Each series exists from the start, so that a value of 0 can be distinguished from missing data.
	for _, r := range []Result{Passed, FailedCheck, NotRun} {
		m.checks.WithLabelValues(string(r))
	}
	for _, o := range []outcome{sealedOutcome, refusedOutcome, retriedOutcome, failedOutcome, postponedOutcome} {
		m.attempts.WithLabelValues(string(o))
	}
	for _, s := range []step{readStep, signerStep, waitStep, sealStep, storeStep, checkStep, approveStep} {
		m.steps.WithLabelValues(string(s))
	}
	reg.MustRegister(m.checks, m.bytes, m.attempts, m.steps)
	return m
}

// ended counts an attempt at sealing, and adds its outcome to the span of ctx.
func (m *Metrics) ended(ctx context.Context, o outcome) {
	trace.Text(ctx, "certvault.outcome", string(o))
	if m != nil {
		m.attempts.WithLabelValues(string(o)).Inc()
	}
}

// step begins a step of an attempt at sealing, and its span. The returned function ends both; err is the
// error of the step.
func (m *Metrics) step(ctx context.Context, s step) (_ context.Context, end func(err error)) {
	ctx, span := trace.Start(ctx, trace.Internal, "seal: "+string(s))
	begin := time.Now()
	return ctx, func(err error) {
		if m != nil {
			m.steps.WithLabelValues(string(s)).Observe(time.Since(begin).Seconds())
		}
		span.End(err != nil)
	}
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
