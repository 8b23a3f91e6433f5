package identity

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/fault"
)

// Metrics counts refused sign-ins.
type Metrics struct{ refusals *prometheus.CounterVec }

// refusal is the reason of a refused sign-in in metrics.
type refusal string

const (
	wrongPassword refusal = "password"
	wrongCode     refusal = "code"
	wrongPasskey  refusal = "passkey"
	wrongLink     refusal = "link"
	// A throttled sign-in came too soon after earlier tries. A busy sign-in came while too many passwords
	// were being checked. In both cases, the password or code was not checked.
	throttled refusal = "throttled"
	busy      refusal = "busy"
)

// NewMetrics returns the metrics and registers them with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "certvault_sign_in_refusals_total", Help: "Refused sign-ins of people, by reason.",
	}, []string{"reason"})}
	// Each series exists from the start, so that 0 can be distinguished from a missing series.
	for _, r := range []refusal{wrongPassword, wrongCode, wrongPasskey, wrongLink, throttled, busy} {
		m.refusals.WithLabelValues(string(r))
	}
	reg.MustRegister(m.refusals)
	return m
}

// signIn counts the error of a sign-in, if it is a refusal.
func (m *Metrics) signIn(err error) {
	if m == nil || err == nil {
		return
	}
	for _, c := range []struct {
		is     bool
		reason refusal
	}{
		{errors.Is(err, ErrWrong), wrongPassword}, {errors.Is(err, ErrCode), wrongCode}, {errors.Is(err, ErrPasskey), wrongPasskey},
		{errors.Is(err, ErrLink), wrongLink}, {fault.Is(err, fault.TooMany), throttled}, {errors.Is(err, ErrBusy), busy},
	} {
		if c.is {
			m.refusals.WithLabelValues(string(c.reason)).Inc()
			return
		}
	}
}
