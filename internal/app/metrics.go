package app

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
)

// registerMetrics registers the metrics of the process, and of parts that do not register metrics
// themselves.
func (a *App) registerMetrics(public, token, institution *limit.Counter) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "certvault_build_info", Help: "The release of this server and the Go version that built it; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": Version(), "goversion": runtime.Version()},
	})
	build.Set(1)
	inProgress := func() int64 { n, _ := a.IdempotencyKeys.Conflicts(); return n }
	reused := func() int64 { _, n := a.IdempotencyKeys.Conflicts(); return n }
	const (
		rateLimited      = "certvault_rate_limited_requests_total"
		rateLimitedHelp  = "Requests that exceeded --public-rate-limit (address), --rate-limit (token) or the limit of their institution."
		conflicts        = "certvault_idempotency_conflicts_total"
		conflictsHelp    = "Requests refused because of their Idempotency-Key: a request with it was in progress, or had other content (reused)."
		rendererCompiled = "certvault_renderer_compiled"
	)
	a.registry.MustRegister(
		build,
		counter("certvault_db_transaction_retries_total", "Transactions repeated after a deadlock or a serialization failure.", nil, a.DB.Retries),
		counter("certvault_db_errors_total", "Transactions and reads that failed because the database did not work: not reachable, too slow, full or read-only.", nil, a.DB.Errors),
		counter(rateLimited, rateLimitedHelp, prometheus.Labels{"limit": "address"}, public.Refused),
		counter(rateLimited, rateLimitedHelp, prometheus.Labels{"limit": "token"}, token.Refused),
		counter(rateLimited, rateLimitedHelp, prometheus.Labels{"limit": "institution"}, institution.Refused),
		counter(conflicts, conflictsHelp, prometheus.Labels{"reason": "in_progress"}, inProgress),
		counter(conflicts, conflictsHelp, prometheus.Labels{"reason": "reused"}, reused),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: rendererCompiled, Help: "1 if the PDF renderer runs as machine code, 0 if it is interpreted, which is many times slower, or if it is not usable.",
		}, a.rendererCompiled),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "certvault_store_transit_bytes", Help: "Bytes that this server has received for files that are not in the file store yet.",
		}, func() float64 { return float64(a.blobs.Transit()) }),
		newProcessMetrics(a), newQueueMetrics(a),
	)
	if a.tracer != nil {
		const spans, help = "certvault_trace_spans_total", "Spans of traces that the collector of --otlp received (sent), and spans that were lost (lost)."
		a.registry.MustRegister(
			counter(spans, help, prometheus.Labels{"outcome": "sent"}, a.tracer.Sent),
			counter(spans, help, prometheus.Labels{"outcome": "lost"}, a.tracer.Lost),
		)
	}
}

// counter returns a metric of a number that never decreases.
func counter(name, help string, labels prometheus.Labels, value func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(value()) })
}

// rendererCompiled returns 1 if the PDF renderer works and is compiled, and otherwise 0.
func (a *App) rendererCompiled() float64 {
	if a.rendererFailed.Load() || checkCompiler() != nil {
		return 0
	}
	return 1
}

// processMetrics are the metrics of this process and its disks. They do not use the database.
type processMetrics struct {
	app                               *App
	connections, limit, waits, waited *prometheus.Desc
	free, size, certificate           *prometheus.Desc
	folders                           map[string]string // by the value of the label
}

func newProcessMetrics(a *App) *processMetrics {
	pool, folder := []string{"pool"}, []string{"folder"}
	m := &processMetrics{
		app:         a,
		connections: prometheus.NewDesc("certvault_db_connections", "Open connections to the database, by pool and state: in_use or idle.", []string{"pool", "state"}, nil),
		limit:       prometheus.NewDesc("certvault_db_connections_limit", "Maximum number of connections to the database, by pool.", pool, nil),
		waits:       prometheus.NewDesc("certvault_db_connection_waits_total", "Waits for a connection to the database, or for the writer of SQLite.", pool, nil),
		waited: prometheus.NewDesc("certvault_db_connection_wait_seconds_total",
			"Time of the waits for a connection to the database, or for the writer of SQLite.", pool, nil),
		free: prometheus.NewDesc("certvault_disk_free_bytes",
			"Free space of the disk with the data folder, the stored files or files in transit to S3 (files), or the backups.", folder, nil),
		size: prometheus.NewDesc("certvault_disk_size_bytes",
			"Size of the disk with the data folder, the stored files or files in transit to S3 (files), or the backups.", folder, nil),
		certificate: prometheus.NewDesc("certvault_tls_certificate_expiry_timestamp_seconds",
			"Time at which the TLS certificate of this server expires. Absent behind a proxy.", nil, nil),
		folders: map[string]string{"data": a.cfg.Data, "files": filesDir(a.cfg.Storage)},
	}
	if a.cfg.Backup != "" {
		m.folders["backup"] = a.cfg.Backup
	}
	return m
}

// Describe implements [prometheus.Collector].
func (m *processMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connections, m.limit, m.waits, m.waited, m.free, m.size, m.certificate} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *processMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.app.DB.Pools() {
		ch <- prometheus.MustNewConstMetric(m.connections, prometheus.GaugeValue, float64(p.InUse), p.Name, "in_use")
		ch <- prometheus.MustNewConstMetric(m.connections, prometheus.GaugeValue, float64(p.Idle), p.Name, "idle")
		ch <- prometheus.MustNewConstMetric(m.limit, prometheus.GaugeValue, float64(p.Max), p.Name)
		ch <- prometheus.MustNewConstMetric(m.waits, prometheus.CounterValue, float64(p.Waits), p.Name)
		ch <- prometheus.MustNewConstMetric(m.waited, prometheus.CounterValue, p.Waited.Seconds(), p.Name)
	}
	for name, dir := range m.folders {
		var s unix.Statfs_t
		// A folder that cannot be read has no series, because a value of 0 would mean a full disk.
		if err := unix.Statfs(dir, &s); err != nil {
			m.app.log.Warn("reading the free disk space failed", slog.String("folder", dir), slog.Any("error", err))
			continue
		}
		ch <- prometheus.MustNewConstMetric(m.free, prometheus.GaugeValue, float64(s.Bavail)*float64(s.Bsize), name)
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(s.Blocks)*float64(s.Bsize), name)
	}
	if at := m.app.certificateExpiry(); !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(m.certificate, prometheus.GaugeValue, float64(at.Unix()))
	}
}

// queueMetrics are the metrics of jobs, mail and the schema, which are read from the database at each
// request for metrics. The statements read few rows, even with many certificates.
type queueMetrics struct {
	app                    *App
	jobs, job, mails, mail *prometheus.Desc
	applied, known         *prometheus.Desc
}

func newQueueMetrics(a *App) *queueMetrics {
	return &queueMetrics{
		app:     a,
		jobs:    prometheus.NewDesc("certvault_jobs", "Jobs of all servers by queue and state. A discarded job failed in its last attempt.", []string{"queue", "state"}, nil),
		job:     prometheus.NewDesc("certvault_job_oldest_seconds", "Time for which the oldest job of a queue has been able to start.", []string{"queue"}, nil),
		mails:   prometheus.NewDesc("certvault_mail_queued", "Messages that wait to be sent, at most 10000.", nil, nil),
		mail:    prometheus.NewDesc("certvault_mail_oldest_queued_seconds", "Age of the oldest message that waits to be sent.", nil, nil),
		applied: prometheus.NewDesc("certvault_schema_version_applied", "Number of the last migration of the database.", nil, nil),
		known: prometheus.NewDesc("certvault_schema_version_known",
			"Number of the last migration of this release. A smaller number than the applied one means that newer servers use the database.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *queueMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.jobs, m.job, m.mails, m.mail, m.applied, m.known} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. If the metrics cannot be read, their series are absent.
func (m *queueMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	d := m.app.DB
	depths, err := job.Depths(ctx, d)
	backlog, e := mail.ReadBacklog(ctx, d, time.Now())
	applied, known, schema := d.SchemaVersion(ctx)
	if err := errors.Join(err, e, schema); err != nil {
		m.app.log.WarnContext(ctx, "reading the metrics of queues failed", slog.Any("error", err))
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	// Each queue of this server has a series, even without jobs, because a missing series would mean
	// that the value is unknown.
	for _, name := range m.app.Queue.Names() {
		if !slices.ContainsFunc(depths, func(d job.Depth) bool { return d.Queue == name }) {
			depths = append(depths, job.Depth{Queue: name})
		}
	}
	for _, q := range depths {
		for state, n := range map[string]int{"waiting": q.Waiting, "running": q.Running, "retrying": q.Retrying, "discarded": q.Discarded} {
			gauge(m.jobs, float64(n), q.Queue, state)
		}
		gauge(m.job, q.Oldest.Seconds(), q.Queue)
	}
	gauge(m.mails, float64(backlog.Queued))
	gauge(m.mail, backlog.Oldest.Seconds())
	gauge(m.applied, float64(applied))
	gauge(m.known, float64(known))
}

// certificateExpiry returns the expiry of the TLS certificate, or the zero time if there is none.
func (a *App) certificateExpiry() time.Time {
	if a.certificate == nil {
		return time.Time{}
	}
	if current := a.certificate.current.Load(); current != nil {
		return current.Leaf.NotAfter
	}
	return time.Time{}
}
