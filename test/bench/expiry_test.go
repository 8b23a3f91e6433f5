package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/test/scale"
)

// BenchmarkExpiries measures the sweep of expiries with many certificates, half of which expire: all sweeps of
// a day without work, the sweep of a day with the events of that day, and the change of the number of days. The
// longest wait is that of another writer.
func BenchmarkExpiries(b *testing.B) {
	for name, open := range map[string]func() *db.DB{
		"sqlite":   func() *db.DB { return dbtest.SQLite(b) },
		"postgres": func() *db.DB { return dbtest.Open(b, "", dbtest.PostgresURL(b)) },
	} {
		b.Run(name, func(b *testing.B) { benchmarkExpiries(b, open()) })
	}
}

func benchmarkExpiries(b *testing.B, d *db.DB) {
	b.Helper()
	ctx := db.Unlimited(b.Context())
	v := vaulttest.New(b, d)
	inst := v.Institution("NWU", "Northern & Western University")
	if err := (scale.Fill{InstitutionID: inst.ID, Count: records(b), Seed: 1}).Run(ctx, d); err != nil {
		b.Fatal(err)
	}
	// The rows of the certificates that were approved, as if the sweep had run until today.
	day := `CAST(julianday(expires_on) - 2440587.5 AS INTEGER)`
	if d.Dialect == db.PostgreSQL {
		day = `(expires_on::date - DATE '1970-01-01')`
	}
	const days = 30
	v.Exec(fmt.Sprintf(`
		INSERT INTO certificate_expiries (certificate_id, institution_id, expires_day, due_day, days)
		SELECT id, institution_id, %[1]s, CASE WHEN expires_on > $2 THEN %[1]s - %[2]d ELSE %[1]s + 1 END, CASE WHEN expires_on > $2 THEN %[2]d END
		FROM certificates WHERE status = 'approved' AND expires_on >= $1`, day, days), cert.Today(v.Now()), cert.Today(v.Now().AddDate(0, 0, days)))
	var rows int
	if err := d.QueryRowContext(ctx, `SELECT count(*) FROM certificate_expiries`).Scan(&rows); err != nil {
		b.Fatal(err)
	}
	sweep := func() {
		if err := v.Certs.SweepExpiries(ctx); err != nil {
			b.Fatal(err)
		}
	}
	sweep()
	for b.Loop() {
		const sweeps = int(24 * time.Hour / cert.ExpiryInterval)
		began := time.Now()
		for range sweeps {
			sweep()
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/idle-day")
		v.Advance(24 * time.Hour)
		before := events(b, d)
		took, wait := beside(b, d, sweep)
		b.ReportMetric(float64(took.Milliseconds()), "ms/events-of-day")
		b.ReportMetric(float64(events(b, d)-before), "events")
		b.ReportMetric(float64(wait.Microseconds())/1000, "ms-longest-wait")
		if err := v.Accounts.SetExpiry(ctx, inst.ID, account.Expiry{ExpiryDays: 31}); err != nil {
			b.Fatal(err)
		}
		took, wait = beside(b, d, sweep)
		b.ReportMetric(float64(took.Milliseconds()), "ms/change")
		b.ReportMetric(float64(wait.Microseconds())/1000, "ms-longest-wait-of-change")
		if err := v.Accounts.SetExpiry(ctx, inst.ID, account.Expiry{ExpiryDays: days}); err != nil {
			b.Fatal(err)
		}
		sweep()
	}
	b.ReportMetric(0, "ns/op") // hides the time of all of them
	b.ReportMetric(float64(rows), "rows")
}

func events(b *testing.B, d *db.DB) (n int) {
	b.Helper()
	if err := d.QueryRowContext(b.Context(), `SELECT count(*) FROM webhook_events`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// beside calls f, and returns its time and the longest wait of another writer in the meantime.
func beside(b *testing.B, d *db.DB, f func()) (took, wait time.Duration) {
	b.Helper()
	done, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			select {
			case <-done:
				longest <- most
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			if err := d.Tx(context.WithoutCancel(b.Context()), func(tx *db.Tx) error {
				_, err := tx.ExecContext(b.Context(), `UPDATE institutions SET name = name WHERE id = -1`)
				return err
			}); err != nil {
				b.Error(err)
			}
			most = max(most, time.Since(began))
		}
	}()
	began := time.Now()
	f()
	took = time.Since(began)
	close(done)
	return took, <-longest
}
