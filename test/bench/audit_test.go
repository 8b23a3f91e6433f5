package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/test/scale"
)

// BenchmarkAudit reads the audit log of an institution with many entries. 99 % of the entries are uploads
// with one API token, 1 % are sign-ins of one user, and one in 100,000 is a rotation of a key by another
// user.
func BenchmarkAudit(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		data := b.TempDir()
		if err := (scale.Fill{}).Into(b.Context(), data, database, slug); err != nil {
			b.Fatal(err)
		}
		d := open(b, data, database)
		n := records(b)
		insertEntries(b, d, n)
		log := audit.New(d)
		subject := func(i int) string { return fmt.Sprint("c-", i*7919%n) }
		for _, q := range []struct {
			name string
			of   func(i int) audit.Filter
		}{
			{"all", func(int) audit.Filter { return audit.Filter{} }},
			{"action/common", func(int) audit.Filter { return audit.Filter{Action: "certificate.uploaded"} }},
			{"action/rare", func(int) audit.Filter { return audit.Filter{Action: "key.rotated"} }},
			{"action/none", func(int) audit.Filter { return audit.Filter{Action: "institution.logo"} }},
			{"group/common", func(int) audit.Filter { return audit.Filter{Action: "certificate"} }},
			{"group/rare", func(int) audit.Filter { return audit.Filter{Action: "key"} }},
			{"actor/common", func(int) audit.Filter { return audit.Filter{Actor: "registry"} }},
			{"actor/rare", func(int) audit.Filter { return audit.Filter{Actor: "u-9"} }},
			{"actor/kind", func(int) audit.Filter { return audit.Filter{Actor: "user"} }},
			{"actor/none", func(int) audit.Filter { return audit.Filter{Actor: "unknown"} }},
			{"subject/id", func(i int) audit.Filter { return audit.Filter{Subject: subject(i)} }},
			{"subject/name", func(i int) audit.Filter { return audit.Filter{Subject: "nwu-" + subject(i)} }},
			{"day", func(i int) audit.Filter {
				at := time.Unix(int64(i)*1000, 0)
				return audit.Filter{From: at, To: at.Add(24 * time.Hour)}
			}},
			{"common+rare", func(int) audit.Filter { return audit.Filter{Actor: "registry", Action: "key"} }},
			{"common+common", func(int) audit.Filter { return audit.Filter{Actor: "registry", Action: "certificate"} }},
			{"apart", func(int) audit.Filter { return audit.Filter{Actor: "registry", Action: "session.started"} }},
		} {
			b.Run(q.name, func(b *testing.B) {
				for b.Loop() {
					var took []time.Duration
					for i := range warmed + measured {
						began := time.Now()
						if _, _, err := log.List(b.Context(), 1, q.of(i), "", 50); err != nil {
							b.Fatal(err)
						}
						if i >= warmed {
							took = append(took, time.Since(began))
						}
					}
					b.ReportMetric(0, "ns/op") // hides the time of a series
					b.ReportMetric(millis(quantile(took, 0.50)), "p50-ms")
					b.ReportMetric(millis(quantile(took, 0.99)), "p99-ms")
				}
			})
		}
	})
}

// insertEntries inserts n entries, one per second from the Unix epoch.
func insertEntries(b *testing.B, d *db.DB, n int) {
	b.Helper()
	const chunk = 100_000
	for first := 0; first < n; first += chunk {
		if _, err := d.Writer().ExecContext(b.Context(), `
			WITH RECURSIVE entry (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM entry WHERE i + 1 < $2)
			INSERT INTO audit_entries (institution_id, at, actor_type, actor_id, actor_name, actor_folded, action,
				subject_type, subject_id, subject_name, subject_folded, detail, address, request_id)
			SELECT 1, i * 1000000, CASE WHEN i % 100 = 7 THEN 'user' ELSE 'token' END,
				CASE WHEN i % 100000 = 7 THEN 'u-9' WHEN i % 100 = 7 THEN 'u-1' ELSE '7' END,
				CASE WHEN i % 100000 = 7 THEN 'Ada Obi' WHEN i % 100 = 7 THEN 'Jane Doe' ELSE 'Registry' END,
				CASE WHEN i % 100000 = 7 THEN 'ada obi' WHEN i % 100 = 7 THEN 'jane doe' ELSE 'registry' END,
				CASE WHEN i % 100000 = 7 THEN 'key.rotated' WHEN i % 100 = 7 THEN 'session.started' ELSE 'certificate.uploaded' END,
				'certificate', 'c-' || i, 'NWU-c-' || i, 'nwu-c-' || i, '{}', '', '' FROM entry`, first, min(first+chunk, n)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := d.Writer().ExecContext(b.Context(), map[db.Dialect]string{db.SQLite: `PRAGMA optimize`, db.PostgreSQL: `VACUUM ANALYZE audit_entries`}[d.Dialect]); err != nil {
		b.Fatal(err)
	}
}
