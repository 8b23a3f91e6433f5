package mail

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/db"
)

// Metrics counts the messages that were sent, were written to the outbox or failed.
type Metrics struct{ messages *prometheus.CounterVec }

// NewMetrics returns the metrics and registers them with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{messages: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "certvault_mail_messages_total",
		Help: "Messages that were sent, written to the outbox (unsent) or not delivered (failed). A message that was returned after it was sent is counted as both.",
	}, []string{"status"})}
	// Each series exists from the start, so that 0 can be distinguished from a missing series.
	for _, s := range []Status{Sent, Unsent, Failed} {
		m.messages.WithLabelValues(string(s))
	}
	reg.MustRegister(m.messages)
	return m
}

func (m *Metrics) finished(s Status) {
	if m != nil {
		m.messages.WithLabelValues(string(s)).Inc()
	}
}

// maxCounted limits the number of waiting messages that ReadBacklog counts.
const maxCounted = 10_000

// Backlog is the state of the messages that wait to be sent.
type Backlog struct {
	// Queued is the number of messages, or maxCounted if there are more.
	Queued int
	// Oldest is the age of the message whose record has been unchanged for the longest time. This is
	// the oldest message, unless Sweep has inserted a new job for the oldest message.
	Oldest time.Duration
}

// ReadBacklog reads the state of the messages that wait to be sent. It reads at most maxCounted
// entries of an index.
func ReadBacklog(ctx context.Context, q db.Queryer, now time.Time) (Backlog, error) {
	var b Backlog
	var oldest sql.NullInt64
	err := q.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM (SELECT 1 FROM mails WHERE status = 'queued' LIMIT $1) AS waiting),
			(SELECT created_at FROM mails WHERE status = 'queued' ORDER BY updated_at LIMIT 1)`, maxCounted).Scan(&b.Queued, &oldest)
	if err != nil {
		return b, fmt.Errorf("reading the waiting mail: %w", err)
	}
	if oldest.Valid {
		b.Oldest = max(0, now.Sub(db.Time(oldest.Int64)))
	}
	return b, nil
}
