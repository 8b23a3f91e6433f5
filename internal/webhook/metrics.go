package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/db"
)

// Metrics counts attempts and measures their duration.
type Metrics struct {
	outcomes *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// NewMetrics registers the metrics of attempts.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_webhook_attempts_total", Help: "Attempts at deliveries, by outcome.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "certvault_webhook_attempt_seconds", Help: "Duration of an attempt at a delivery, including connection and response.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
	}
	// Each series exists from the start, with the value 0, so that queries need no special case for a
	// missing series.
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

// Condition is the state of all deliveries of an installation at one moment.
type Condition struct {
	// OldestDue is the time for which the oldest due delivery has been due, at active endpoints with a
	// closed breaker and without a backoff. OldestBackoff is this time at active endpoints whose breaker
	// is open. Both ignore replays, and deliveries with the due time 0, which are tests and redeliveries.
	OldestDue, OldestBackoff time.Duration
	// Open is the number of active endpoints whose breaker is open. Off is the number of endpoints
	// that the vault has switched off.
	Open, Off int
}

// Condition is [ReadCondition] of the service's database.
func (s *Service) Condition(ctx context.Context) (Condition, error) {
	return ReadCondition(ctx, s.db, s.now())
}

// ReadCondition returns the Condition at the time now. To be fast, it reads only one pending delivery
// of each endpoint.
func ReadCondition(ctx context.Context, q db.Queryer, now time.Time) (Condition, error) {
	// The due time 0 does not show for how long a delivery has waited.
	const oldest = `(SELECT d.due_at FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.status = 'pending' AND d.replay = false AND d.due_at > 0
		ORDER BY d.due_at, d.id LIMIT 1)`
	var c Condition
	var late, inBackoff sql.NullInt64
	err := q.QueryRowContext(ctx, `
		SELECT min(CASE WHEN status = 'active' AND openings = 0 AND held_until <= $1 THEN due END), min(CASE WHEN status = 'active' AND openings > 0 THEN due END),
			count(CASE WHEN status = 'active' AND openings > 0 THEN 1 END), count(CASE WHEN status = 'switched_off' THEN 1 END)
		FROM (SELECT e.status, e.openings, e.held_until, `+oldest+` AS due FROM webhook_endpoints e) AS all_endpoints`, db.Micros(now)).
		Scan(&late, &inBackoff, &c.Open, &c.Off)
	if err != nil {
		return c, fmt.Errorf("reading the state of endpoints: %w", err)
	}
	c.OldestDue, c.OldestBackoff = since(now, late), since(now, inBackoff)
	return c, nil
}

func since(now time.Time, micros sql.NullInt64) time.Duration {
	if !micros.Valid {
		return 0
	}
	return max(0, now.Sub(db.Time(micros.Int64)))
}

// conditions collects the gauges of a Condition.
type conditions struct {
	hooks *Service
	log   func(error)

	due, open, off *prometheus.Desc
}

// Conditions returns a collector of the gauges of the deliveries. If the gauges cannot be read, the
// collector passes the error to log and omits the gauges, because a value of 0 would mean that no delivery
// is late.
func (s *Service) Conditions(log func(error)) prometheus.Collector {
	return &conditions{
		hooks: s, log: log,
		due: prometheus.NewDesc("certvault_webhook_oldest_due_seconds",
			"Time for which the oldest due delivery has been due, at endpoints whose breaker is closed or open.", []string{"breaker"}, nil),
		open: prometheus.NewDesc("certvault_webhook_breakers_open", "Endpoints whose breaker is open because they do not respond.", nil, nil),
		off:  prometheus.NewDesc("certvault_webhook_endpoints_off", "Endpoints that the vault has paused after errors.", nil, nil),
	}
}

// Describe sends the descriptions of the gauges.
func (c *conditions) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.due
	ch <- c.open
	ch <- c.off
}

// collectTime is the maximum time in which Collect reads the gauges.
const collectTime = 2 * time.Second

// Collect sends the gauges, or passes an error to c.log.
func (c *conditions) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	now, err := c.hooks.Condition(ctx)
	if err != nil {
		c.log(err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.due, prometheus.GaugeValue, now.OldestDue.Seconds(), "closed")
	ch <- prometheus.MustNewConstMetric(c.due, prometheus.GaugeValue, now.OldestBackoff.Seconds(), "open")
	ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(now.Open))
	ch <- prometheus.MustNewConstMetric(c.off, prometheus.GaugeValue, float64(now.Off))
}
