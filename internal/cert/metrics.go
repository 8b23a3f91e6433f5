package cert

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/trace"
)

// Metrics measures the attempts at sealing, and counts the certificates that Rehash checks.
type Metrics struct {
	checks   *prometheus.CounterVec
	bytes    prometheus.Counter
	attempts *prometheus.CounterVec
	steps    *prometheus.HistogramVec
}

// outcome is the result of an attempt at sealing, as the value of a label.
type outcome string

const (
	sealedOutcome outcome = "sealed"
	// refusedOutcome is an attempt that failed because the file can never be sealed.
	refusedOutcome outcome = "refused"
	retriedOutcome outcome = "retried"
	// failedOutcome is an attempt that failed for another reason, and after which no other attempt is made.
	failedOutcome outcome = "failed"
	// postponedOutcome is an attempt that does not count, because the storage is full or not available,
	// or the server stops.
	postponedOutcome outcome = "postponed"
)

// step is a part of an attempt at sealing, as the value of a label.
type step string

const (
	readStep    step = "read"    // opening the original, or drawing it from a template
	signerStep  step = "signer"  // preparing the signature
	waitStep    step = "wait"    // waiting for a processor
	sealStep    step = "seal"    // stamping and signing
	storeStep   step = "store"   // writing to the file store
	checkStep   step = "check"   // checking the digest and the signature of the stored file
	approveStep step = "approve" // the transaction of the approval
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
			Name: "certvault_seal_attempts_total", Help: "Attempts of this server to create a verified PDF, by outcome.",
		}, []string{"outcome"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "certvault_seal_step_seconds", Help: "Duration of the steps of an attempt to create a verified PDF. A step that failed is included.",
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

// step begins a step of an attempt at sealing, and a span of the trace. The returned function ends both; err
// is the error of the step.
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

// rehashed counts a certificate by the worst result of its checks, and adds size, the number of bytes that
// the checks read.
func (m *Metrics) rehashed(checks []Check, size int64) {
	if m == nil || len(checks) == 0 {
		return
	}
	m.checks.WithLabelValues(string(worst(checks))).Inc()
	m.bytes.Add(float64(size))
}

// worst returns FailedCheck if a check failed, NotRun if a check was not run, and Passed otherwise.
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
