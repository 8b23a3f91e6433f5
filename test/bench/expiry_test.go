package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/test/scale"
)

// BenchmarkExpiries measures the sweep of expiries with many certificates, of which one in 365 expires
// on each day. It measures three cases: all sweeps of a day without work, one sweep with the events of a
// day, and one sweep after a change of the number of days before an expiry at which it is reported. An
// endpoint receives the events, and recipients get reminders.
//
// The times are medians of all iterations. The waits of another writer are maximums, and are measured in
// other sweeps than the times, because their measurement takes time.
//
// To measure two versions with the same data, set CERTVAULT_BENCH_FOLDER to a copy of the folder, or
// CERTVAULT_BENCH_DATABASE to a copy of the database, that this benchmark filled.
func BenchmarkExpiries(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		folder := os.Getenv(folderVariable)
		if folder == "" {
			folder = b.TempDir()
		}
		benchmarkExpiries(b, folder, "")
	})
	b.Run("postgres", func(b *testing.B) {
		database := os.Getenv(databaseVariable)
		if database == "" {
			database = dbtest.PostgresURL(b)
		}
		benchmarkExpiries(b, b.TempDir(), database)
	})
}

// reminded is the number of days before the last day of validity at which the expiry is reported.
const reminded = 30

func benchmarkExpiries(b *testing.B, data, database string) {
	b.Helper()
	ctx := b.Context()
	d := dbtest.Open(b, data, database)
	v := vaulttest.New(b, d)
	inst, err := v.Accounts.InstitutionBySlug(ctx, slug)
	if fault.Is(err, fault.NotFound) {
		inst, err = v.Institution(strings.ToUpper(slug), "Northern & Western University"), nil
		if _, _, err := v.Hooks.Create(ctx, inst.ID, "https://receiver.example/events", nil); err != nil {
			b.Fatal(err)
		}
		fillExpiries(b, data, database, inst.ID)
	}
	if err != nil {
		b.Fatal(err)
	}
	var rows int
	if err := d.QueryRowContext(ctx, `SELECT count(*) FROM certificate_expiries`).Scan(&rows); err != nil {
		b.Fatal(err)
	}
	sweep := func() {
		if err := v.Certs.SweepExpiries(ctx); err != nil {
			b.Fatal(err)
		}
	}
	timed := func() time.Duration {
		began := time.Now()
		sweep()
		return time.Since(began)
	}
	setDays := func(n int) {
		if err := v.Accounts.SetExpiry(ctx, inst.ID, account.Expiry{ExpiryDays: n, ExpiryMail: true}); err != nil {
			b.Fatal(err)
		}
	}
	// The first sweep is not measured, because no certificate of a new database has expired yet.
	v.Advance(24 * time.Hour)
	sweep()
	var idle, reports, reportWaits, changes, changeWaits []time.Duration
	for b.Loop() {
		const sweeps = int(24 * time.Hour / cert.ExpiryInterval)
		began := time.Now()
		for range sweeps {
			sweep()
		}
		idle = append(idle, time.Since(began))
		v.Advance(24 * time.Hour)
		before := events(b, d)
		reports = append(reports, timed())
		b.ReportMetric(float64(events(b, d)-before), "events")
		v.Advance(24 * time.Hour)
		reportWaits = append(reportWaits, beside(b, d, sweep))
		// Neither change makes a reminder due before its day, so the next day has as many events as this one.
		setDays(reminded - 1)
		changes = append(changes, timed())
		setDays(reminded)
		changeWaits = append(changeWaits, beside(b, d, sweep))
	}
	b.ReportMetric(0, "ns/op") // hides the time of all these steps
	b.ReportMetric(float64(rows), "rows")
	b.ReportMetric(millis(quantile(idle, 0.5)), "ms/idle-day")
	b.ReportMetric(millis(quantile(reports, 0.5)), "ms/events-of-day")
	b.ReportMetric(millis(slices.Max(reportWaits)), "ms-longest-wait")
	b.ReportMetric(millis(quantile(changes, 0.5)), "ms/change")
	b.ReportMetric(millis(slices.Max(changeWaits)), "ms-longest-wait-of-change")
	b.Logf("idle %v, events %v, waits %v, changes %v, waits %v", idle, reports, reportWaits, changes, changeWaits)
}

// fillExpiries stores certificates, the notices about their approval, and their rows in
// certificate_expiries as if the sweep had run until today.
func fillExpiries(b *testing.B, data, database string, institution int64) {
	b.Helper()
	ctx := db.Unlimited(b.Context())
	d := open(b, data, database)
	if err := (scale.Fill{InstitutionID: institution, Count: records(b), Seed: 1, Yearly: true}).Run(ctx, d); err != nil {
		b.Fatal(err)
	}
	day := `CAST(julianday(expires_on) - 2440587.5 AS INTEGER)`
	analyze := `ANALYZE`
	if d.Dialect == db.PostgreSQL {
		day, analyze = `(expires_on::date - DATE '1970-01-01')`, `VACUUM (ANALYZE)`
	}
	now := time.Now()
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`
			INSERT INTO certificate_expiries (certificate_id, institution_id, expires_day, due_day, days)
			SELECT id, institution_id, %[1]s, CASE WHEN expires_on > $1 THEN %[1]s - %[2]d ELSE %[1]s + 1 END, CASE WHEN expires_on > $1 THEN %[2]d END
			FROM certificates WHERE status = 'approved'`, day, reminded), cert.Today(now.AddDate(0, 0, reminded))); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO notices (certificate_id, occasion, institution_id, reason, email, email_folded, status, created_at, updated_at)
			SELECT id, 1, institution_id, 'approval', email, email_folded, 'sent', approved_at, approved_at FROM certificates WHERE status = 'approved'`)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := d.Writer().ExecContext(ctx, analyze); err != nil {
		b.Fatal(err)
	}
}

func events(b *testing.B, d *db.DB) (n int) {
	b.Helper()
	if err := d.QueryRowContext(b.Context(), `SELECT count(*) FROM webhook_events`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// beside calls f and returns the longest time for which another writer could have to wait during the call.
// On SQLite this is the longest wait of a transaction that changes nothing. PostgreSQL locks rows, so
// there it is the age of the longest transaction.
func beside(b *testing.B, d *db.DB, f func()) time.Duration {
	b.Helper()
	sample := waited
	if d.Dialect == db.PostgreSQL {
		sample = age
	}
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
			t, err := sample(context.WithoutCancel(b.Context()), d)
			if err != nil {
				b.Error(err)
			}
			most = max(most, t)
		}
	}()
	f()
	close(done)
	return <-longest
}

// waited returns the duration of a transaction that changes nothing, but waits for other writers on
// SQLite.
func waited(ctx context.Context, d *db.DB) (time.Duration, error) {
	began := time.Now()
	err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE institutions SET name = name WHERE id = -1`)
		return err
	})
	return time.Since(began), err
}

// age returns the time since the beginning of the oldest transaction of another connection.
func age(ctx context.Context, d *db.DB) (time.Duration, error) {
	var micros int64
	err := d.QueryRowContext(ctx, `
		SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start) * 1000000), 0)::bigint FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&micros)
	return time.Duration(micros) * time.Microsecond, err
}
