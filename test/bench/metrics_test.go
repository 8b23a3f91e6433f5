package bench

import (
	"context"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/test/scale"
)

// BenchmarkMetrics measures the queries of a scrape of the metrics with many certificates. About a tenth of
// them is in processing, and each has two checks of its files. The time of each gauge is the mean
// of all iterations. For comparison, "count" counts the certificates in processing in their index.
func BenchmarkMetrics(b *testing.B) {
	for name, url := range map[string]func() string{"sqlite": func() string { return "" }, "postgres": func() string { return dbtest.PostgresURL(b) }} {
		b.Run(name, func(b *testing.B) { benchmarkMetrics(b, b.TempDir(), url()) })
	}
}

func benchmarkMetrics(b *testing.B, data, database string) {
	b.Helper()
	ctx := db.Unlimited(b.Context())
	if err := (scale.Fill{Count: records(b), Seed: 1}).Into(ctx, data, database, slug); err != nil {
		b.Fatal(err)
	}
	prepareMetrics(ctx, b, data, database)
	d := dbtest.Open(b, data, database)
	v := vaulttest.New(b, d)
	var n int
	gauges := []struct {
		name string
		read func(ctx context.Context) error
	}{
		{"processing", func(ctx context.Context) (err error) { n, err = search.Processing(ctx, d); return err }},
		{"damaged", func(ctx context.Context) (err error) { n, err = cert.CountDamaged(ctx, d); return err }},
		{"oldest", func(ctx context.Context) error { _, err := cert.OldestCheck(ctx, d); return err }},
		{"batch", func(ctx context.Context) error { _, err := batch.OldestUnfinished(ctx, d); return err }},
		{"expiring", func(ctx context.Context) (err error) {
			n, err = v.Keys.Expiring(ctx, time.Now().Add(authority.ExpiresSoon))
			return err
		}},
		{"backup", func(ctx context.Context) error { _, err := backup.LastRecord(ctx, d); return err }},
		{"nodes", func(ctx context.Context) error { _, err := job.ListNodes(ctx, d, d.Now()); return err }},
		{"tasks", func(ctx context.Context) error { _, err := job.ListTasks(ctx, d, d.Now()); return err }},
		{"jobs", func(ctx context.Context) error { _, err := job.Depths(ctx, d); return err }},
		{"mail", func(ctx context.Context) error { _, err := mail.ReadBacklog(ctx, d, time.Now()); return err }},
		{"schema", func(ctx context.Context) error { _, _, err := d.SchemaVersion(ctx); return err }},
		{"webhooks", func(ctx context.Context) error { _, err := v.Hooks.Condition(ctx); return err }},
		{"count", func(ctx context.Context) error {
			return d.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE status = 'processing'`).Scan(&n)
		}},
	}
	took := make([]time.Duration, len(gauges))
	for b.Loop() {
		for i, g := range gauges {
			began := time.Now()
			if err := g.read(b.Context()); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op") // the time would include the comparison
	for i, g := range gauges {
		b.ReportMetric(took[i].Seconds()*1000/float64(b.N), g.name+"-ms")
	}
}

// prepareMetrics sets the status of about a tenth of the certificates to processing, and stores two checks
// of the files of each certificate.
func prepareMetrics(ctx context.Context, b *testing.B, data, database string) {
	b.Helper()
	d := open(b, data, database)
	for _, statement := range []string{
		`UPDATE certificates SET status = 'processing', batch_id = '01990000-0000-7000-8000-' || (100000000000 + id / 100) WHERE id % 10 = 0 AND status = 'approved'`,
		`INSERT INTO certificate_checks (certificate_id, name, result, checked_at)
			SELECT id, 'file', 'passed', updated_at FROM certificates UNION ALL SELECT id, 'signature', 'passed', updated_at FROM certificates`,
	} {
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	if err := search.Fold(ctx, d); err != nil {
		b.Fatal(err)
	}
	analyze := `ANALYZE`
	if d.Dialect == db.PostgreSQL {
		analyze = `VACUUM (ANALYZE)`
	}
	if _, err := d.Writer().ExecContext(ctx, analyze); err != nil {
		b.Fatal(err)
	}
}
